"""Advantages and value targets of masked batches of tokens, [B, T], against what trainers of language models use.

    python -m benchmarks.returns_tokens            # all shapes; on a CUDA device too, where one is found
    python -m benchmarks.returns_tokens --quick
    python -m benchmarks.returns_tokens --no-cpu   # on a GPU alone
    python -m benchmarks.returns_tokens --host     # what Torch's calls for a GPU do in Python, without a GPU

Needs this package, numpy and numba. JAX, PyTorch, verl, OpenRLHF (its file is read, not imported), TorchRL and rlax
take part where they are installed. Ours has a mask and two λ: 0.95 for the policy, 1 for the critic. The last word of a
line says whether a program computes "all" of that, which is checked, or the "part" that it can: one λ, and no mask
where the name says so. Programs take turns and the fastest turn counts; the last number is a program's time divided by
ours. Arrays are float32.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.returns import SUM, Program, measure, optional

SHAPES = [(16, 128), (8, 2048), (2048, 128), (256, 1024), (128, 2048), (1024, 2048), (8192, 2048)]
QUICK = [(16, 128), (64, 256)]
LAMBDA = 0.95
MOST_TOKENS = 2**21  # in a batch: larger ones are left out where a program loops over tokens


def batch(size: int, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """rewards, values, mask: answers of any length, with a masked stretch in the middle of some."""
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, size, steps)).astype(np.float32)
    mask = np.arange(steps) < rng.integers(steps // 2, steps + 1, size=(size, 1))
    mask[::3, steps // 4 : steps // 3] = False
    return np.where(mask, rewards, np.float32(0.0)), values, mask


Programs = Iterator[tuple[str, str, Program]]


def numpy_programs(rewards: Any, values: Any, mask: Any) -> Programs:
    from chunked_td import returns

    yield "ours", "all", lambda: returns.token_gae(rewards, values, mask, LAMBDA, 1.0)


def jax_programs(rewards: Any, values: Any, mask: Any, device: Any) -> Programs:
    import jax
    import jax.numpy as jnp

    from chunked_td import returns

    r, v, m = (jax.device_put(x, device) for x in (rewards, values, mask))
    ours = jax.jit(lambda r, v, m: returns.token_gae(r, v, m, LAMBDA, 1.0))
    yield "ours", "all", lambda: ours(r, v, m)
    rlax = optional("rlax")
    if rlax is not None:
        each = jax.vmap(rlax.truncated_generalized_advantage_estimation, in_axes=(0, 0, None, 0))

        @jax.jit
        def theirs(r, v):
            advantages = each(r, jnp.ones_like(r), LAMBDA, jnp.pad(v, ((0, 0), (0, 1))))
            return advantages, advantages + v

        yield "rlax, vmap, no mask", "part", lambda: theirs(r, v)
    if device.platform == "gpu":
        total = jax.jit(lambda r, v: (r + v,))
        yield SUM, "", lambda: total(r, v)


def torch_programs(rewards: Any, values: Any, mask: Any, device: str) -> Programs:
    import torch

    from chunked_td import returns

    r, v, m = (torch.as_tensor(x, device=device) for x in (rewards, values, mask))
    per_token, weight = torch.full_like(r, LAMBDA), m.to(r.dtype)
    yield "ours", "all", lambda: returns.token_gae(r, v, m, LAMBDA, 1.0)
    yield "ours, λ per token", "all", lambda: returns.token_gae(r, v, m, per_token, 1.0)
    if device == "cuda":
        yield SUM, "", lambda: (r + v,)
    if r.numel() > MOST_TOKENS:
        return
    yield "loop over tokens (as in verl), twice", "all", lambda: token_loop(r, v, weight)
    verl = optional("verl.trainer.ppo.core_algos")
    if verl is not None:
        yield "verl", "part", lambda: verl.compute_gae_advantage_return(r, v, weight, 1.0, LAMBDA)
    openrlhf = openrlhf_function()
    if openrlhf is not None:
        yield "OpenRLHF", "part", lambda: openrlhf(None, v, r, weight, 1.0, LAMBDA)
    torchrl = optional("torchrl.objectives.value.functional")
    if torchrl is not None:
        following = torch.cat([v[:, 1:], torch.zeros_like(v[:, :1])], 1)
        arrays = [x[..., None] for x in (v, following, r, torch.zeros_like(m))]
        theirs = torchrl.vec_generalized_advantage_estimate
        yield "TorchRL, vectorised, no mask", "part", lambda: theirs(1.0, LAMBDA, *arrays)


def token_loop(r: Any, v: Any, m: Any) -> tuple[Any, Any]:
    """A step of the recursion at a time, once per λ; masked tokens are passed by."""
    import torch

    results = []
    for lambda_ in (LAMBDA, 1.0):
        found, following, advantage = torch.zeros_like(r), 0.0, 0.0
        for t in reversed(range(r.shape[1])):
            new = r[:, t] + following - v[:, t] + lambda_ * advantage
            advantage = m[:, t] * new + (1 - m[:, t]) * advantage
            following = m[:, t] * v[:, t] + (1 - m[:, t]) * following
            found[:, t] = m[:, t] * advantage
        results.append(found)
    return results[0], m * (results[1] + v)


def openrlhf_function() -> Any:
    """Its function, out of the file of the installed package: the rest of it imports what only a GPU has."""
    spec = importlib.util.find_spec("openrlhf")
    if spec is None or not spec.submodule_search_locations:
        return None
    name = "get_advantages_and_returns"
    path = Path(spec.submodule_search_locations[0]) / "trainer/ppo_utils/experience_maker.py"
    found = ast.walk(ast.parse(path.read_text()))
    (function,) = (x for x in found if isinstance(x, ast.FunctionDef) and x.name == name)
    space = {"torch": importlib.import_module("torch"), "Tuple": tuple}
    exec(compile(ast.Module([function], []), str(path), "exec"), space)
    return space[name]


def report(title: str, shape: tuple[int, int], programs: Programs, seconds: float) -> list[dict]:
    """Print one table; check that programs that compute all got the same numbers."""
    print(f"\n{title}, B × T = {shape[0]} × {shape[1]}")
    called = list(programs)
    kinds = {name: kind for name, kind, _ in called}
    first = [(name, lambda program=program: program()[0]) for name, _, program in called]
    measured = measure(first, seconds, queued="gpu" in title or "cuda" in title)
    (_, ours, reference), *_ = measured
    rows = []
    for name, best, result in measured:
        kind = kinds[name]
        if kind == "all" and np.abs(result - reference).max() > 1e-4 * np.abs(reference).max():
            kind = "DIFFERS"
        print(f"    {name:44} {best * 1e3:10.3f} ms   ×{best / ours:8.2f}   {kind}")
        rows.append({"title": title, "shape": shape, "program": name, "seconds": best, "ratio": best / ours})
    return rows


def host_work() -> None:
    """Print the processor time of a call for a GPU before its launch, which is left out; tensors are small."""
    import torch

    from chunked_td.returns import _torch
    from chunked_td.returns._arguments import read

    class Allocate:
        @staticmethod
        def token_gae(rewards: Any, *_: Any) -> tuple[Any, Any]:
            return torch.empty_like(rewards), torch.empty_like(rewards)

    _torch._kernels = lambda tensors: Allocate  # type: ignore[assignment]
    r, v = torch.zeros(2, 4, 8)
    yes, token = torch.ones(4, 8, dtype=torch.bool), torch.full((4, 8), LAMBDA)
    names = ("rewards", "values", "next_values", "terminated", "truncated", "discount", "lambda_")
    given: dict[str, Any] = dict(zip(names, (r, v, v, yes, yes, 0.99, token), strict=True))
    calls = {
        "a sum of two tensors": lambda: r + v,
        "token_gae, two numbers": lambda: _torch.token_gae_on_gpu((r, v, yes, LAMBDA, 1.0, 1.0, 0.0), -1),
        "token_gae, λ per token": lambda: _torch.token_gae_on_gpu((r, v, yes, token, 1.0, 1.0, 0.0), -1),
        "of which two results are made": lambda: Allocate.token_gae(r),
        "gae, arguments read": lambda: read(given, 0),
    }
    for name, call in calls.items():
        turns = []
        for _ in range(40):
            began = time.process_time()
            for _ in range(200):
                call()
            turns.append((time.process_time() - began) / 200)
        print(f"    {name:44} {min(turns) * 1e6:10.2f} µs")


def main() -> None:
    """Print a table per shape, backend and device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small shapes")
    parser.add_argument("--seconds", type=float, default=1.0, help="per table")
    parser.add_argument("--no-cpu", action="store_true", help="GPUs alone")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--host", action="store_true", help="Torch's work in Python before a launch, alone")
    options = parser.parse_args()
    if options.host:
        host_work()
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; the last number is the time divided by ours")
    rows = []
    for shape in QUICK if options.quick else SHAPES:
        for title, programs in tables(batch(*shape), options.no_cpu):
            rows += report(title, shape, programs, options.seconds)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))


def tables(data: Any, no_cpu: bool) -> Iterator[tuple[str, Programs]]:
    """One table per backend and device."""
    if not no_cpu:
        yield "NumPy", numpy_programs(*data)
    jax, torch = optional("jax"), optional("torch")
    if jax is not None:
        devices = {device.platform: device for device in [*jax.devices(), *([] if no_cpu else jax.devices("cpu"))]}
        for platform, device in devices.items():
            yield f"JAX, {platform}", jax_programs(*data, device)
    if torch is not None:
        for device in ["cuda"] * torch.cuda.is_available() + ["cpu"] * (not no_cpu):
            yield f"Torch, {device}", torch_programs(*data, device)


if __name__ == "__main__":
    main()
