"""Returns with a λ per step, in every backend, against other libraries' functions that can take one.

    python -m benchmarks.returns            # all shapes; on a CUDA device too, where JAX or Torch finds one
    python -m benchmarks.returns --quick    # small shapes
    python -m benchmarks.returns --no-cpu   # on a GPU alone

Needs numpy, numba, jax and this package; PyTorch, rlax, TorchRL and Stable-Baselines3 take part where they are
installed. Programs take turns, the fastest turn counts, and each line ends in a program's time divided by ours (above
1: ours is faster). Wall time, all threads. On a GPU the calls of a turn are queued, as in a training loop, and the last
result is waited for; a sum of two arrays in the same turns says how fast its memory is. Arrays are float32, [T, B].
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SHAPES = [(128, 16), (2048, 8), (128, 2048), (2048, 128), (2048, 1024), (2048, 8192)]
QUICK = [(128, 16), (256, 64)]
GAMMA = 0.99
TURN = 0.003  # seconds
SUM = "a sum of two arrays, for comparison"
MOST_NUMBERS = 2**28  # 1 GiB of float32: larger rivals are left out


def optional(name: str) -> Any:
    """A module, or None where it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rivals use what JAX and Torch have deprecated
            return importlib.import_module(name)
    except ImportError:
        return None


def rollout(steps: int, batch: int) -> dict[str, np.ndarray]:
    """Random arrays of a rollout; next values are those of the next step, so that all rivals compute the same."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(steps + 1, batch)).astype(np.float32)
    terminated = rng.random((steps, batch)) < 0.01
    return {
        "rewards": rng.normal(size=(steps, batch)).astype(np.float32),
        "values": values[:-1].copy(),
        "next_values": values[1:].copy(),
        "terminated": terminated,
        "truncated": np.zeros_like(terminated),
        "lambda_": rng.uniform(0.5, 1.0, size=(steps, batch)).astype(np.float32),
    }


Program = Callable[[], Any]
NAMES = ("rewards", "values", "next_values", "terminated", "truncated", "lambda_")


def numpy_programs(data: dict[str, np.ndarray]) -> Iterator[tuple[str, Program]]:
    """Ours, and the loop of Stable-Baselines3's buffer with a λ per step put in."""
    from chunked_td import returns

    arrays = {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in data.items()}
    yield "ours", lambda: returns.gae(**arrays, discount=GAMMA)
    yield "loop over steps (as in Stable-Baselines3)", lambda: numpy_loop(**data)


def numpy_loop(rewards, values, next_values, terminated, truncated, lambda_):
    """As Stable-Baselines3 writes it, with lambda_[step + 1] for gae_lambda."""
    advantages, last = np.zeros_like(rewards), 0.0
    for step in reversed(range(len(rewards))):
        going_on = 1.0 - terminated[step].astype(np.float32)
        delta = rewards[step] + GAMMA * next_values[step] * going_on - values[step]
        lam = lambda_[min(step + 1, len(rewards) - 1)]
        last = delta + GAMMA * lam * going_on * last
        advantages[step] = last
    return advantages


def jax_programs(data: dict[str, np.ndarray], device: Any) -> Iterator[tuple[str, Program]]:
    """Ours as it is, with either scan, and rlax's function for every trajectory of the batch."""
    import jax
    import jax.numpy as jnp

    from chunked_td import returns
    from chunked_td.returns import _formulas, _jax
    from chunked_td.returns._arguments import next_step

    arrays = {name: jax.device_put(x, device) for name, x in data.items()}

    def ours(arrays):
        return returns.gae(**arrays, discount=GAMMA)

    def with_scan(scan, arrays):
        d = arrays
        *first, lambda_ = (d[name] for name in NAMES)
        b, a = _formulas.GAE.coefficients(jnp, *first, GAMMA, next_step(jnp, lambda_, 0))
        return scan(b, a, jnp.zeros(b.shape[1:], b.dtype))

    yield from _jitted("ours", ours, arrays)
    yield from _jitted("associative scan", functools.partial(with_scan, _jax.associative_scan), arrays)
    if device.platform == "gpu":
        from chunked_td.returns._pallas import one_pass

        def kernel(d):
            parts = (*(d[name] for name in NAMES[:5]), jnp.full((1, 1), GAMMA), d["lambda_"])
            return one_pass(
                functools.partial(_formulas.GAE.coefficients, jnp), parts, jnp.zeros(parts[0].shape[1]), ahead=6
            )

        yield from _jitted("one pass", kernel, arrays)
        yield from _jitted(SUM, lambda d: d["rewards"] + d["values"], arrays)
    for unroll in (1, 32) if device.platform == "gpu" else (1, 4, 8, 16, 32):
        scan = functools.partial(_jax.serial_scan, unroll=unroll)
        yield from _jitted(f"serial scan, {unroll} steps a turn", functools.partial(with_scan, scan), arrays)
    rlax = optional("rlax")
    if rlax is not None:
        trajectories = jax.vmap(rlax.truncated_generalized_advantage_estimation, in_axes=1, out_axes=1)

        def theirs(d):
            values = jnp.concatenate([d["values"], d["next_values"][-1:]])
            lambda_t = jnp.concatenate([d["lambda_"][1:], d["lambda_"][-1:]])
            return trajectories(d["rewards"], GAMMA * (1.0 - d["terminated"]), lambda_t, values)

        yield from _jitted("rlax, vmap", theirs, arrays)


def _jitted(name: str, function: Any, arrays: Any) -> Iterator[tuple[str, Program]]:
    import jax

    compiled = jax.jit(function)
    yield name, lambda: compiled(arrays)


def torch_programs(data: dict[str, np.ndarray], device: str, compiled: bool) -> Iterator[tuple[str, Program]]:
    """Ours as it is, by doubling, compiled; a loop as in CleanRL; TorchRL's function that takes a λ per step."""
    import torch

    from chunked_td import returns
    from chunked_td.returns import _formulas, _torch
    from chunked_td.returns._arguments import next_step

    tensors = {name: torch.as_tensor(x, device=device) for name, x in data.items()}

    def ours(t):
        return returns.gae(**t, discount=GAMMA)

    def with_scan(scan, t):
        *first, lambda_ = (t[name] for name in NAMES)
        gamma = torch.full((), GAMMA, device=device)
        b, a = _formulas.GAE.coefficients(torch, *first, gamma, next_step(torch, lambda_, 0))
        return scan(b, a, None, 0)

    yield "ours", lambda: ours(tensors)
    yield "doubling scan", lambda: with_scan(_torch.doubling_scan, tensors)
    if device == "cuda":
        yield SUM, lambda: tensors["rewards"] + tensors["values"]
    if compiled:
        by_torch = torch.compile(ours)
        yield "ours, torch.compile", lambda: by_torch(tensors)
    yield "loop over steps (as in CleanRL)", lambda: cleanrl_loop(tensors)
    yield from torchrl_programs(tensors)


def cleanrl_loop(t):
    """The loop of CleanRL's ppo.py, with lambda_[t + 1] for args.gae_lambda."""
    import torch

    advantages, last = torch.zeros_like(t["rewards"]), 0
    steps = len(advantages)
    for step in reversed(range(steps)):
        going_on = 1.0 - t["terminated"][step].float()
        delta = t["rewards"][step] + GAMMA * t["next_values"][step] * going_on - t["values"][step]
        lam = t["lambda_"][min(step + 1, steps - 1)]
        advantages[step] = last = delta + GAMMA * lam * going_on * last
    return advantages


def torchrl_programs(t) -> Iterator[tuple[str, Program]]:
    """TorchRL's functions with a λ per step, that of the state entered. The vectorised one needs B × T × T numbers."""
    functional = optional("torchrl.objectives.value.functional")
    if functional is None:
        return
    import torch

    lambda_next = torch.cat([t["lambda_"][1:], t["lambda_"][-1:]])
    # Theirs is batch-major with a last axis of size 1.
    named = {"next_state_value": t["next_values"], "reward": t["rewards"], "done": t["terminated"]}
    moved = {name: x.T.unsqueeze(-1).contiguous() for name, x in named.items()}
    lam, value = (x.T.unsqueeze(-1).contiguous() for x in (lambda_next, t["values"]))

    def theirs():
        targets = functional.td_lambda_return_estimate(GAMMA, lam, **moved, terminated=moved["done"])
        return (targets - value).squeeze(-1).T

    yield "TorchRL, serial", theirs
    batch, steps = moved["reward"].shape[:2]
    if batch * steps * steps <= MOST_NUMBERS:
        names = ("next_state_value", "reward", "done", "done")
        rest = (value, *(moved[name] for name in names))

        def vectorised():
            return functional.vec_generalized_advantage_estimate(GAMMA, lam, *rest)[0].squeeze(-1).T

        yield "TorchRL, vectorised", vectorised


def measure(programs: list[tuple[str, Program]], seconds: float, queued: bool) -> list[tuple[str, float, Any]]:
    """(name, seconds of a call in the fastest turn, result) of each; programs take turns until the time is up."""
    results = []
    for name, program in programs:
        try:
            program()
            results.append((name, program, np.asarray(as_numpy(program()))))
        except Exception as error:
            print(f"    {name}: left out ({type(error).__name__}: {str(error).splitlines()[0][:80]})")
    best = [float("inf")] * len(results)
    calls = [1] * len(results)
    end = time.perf_counter() + seconds
    turns = 0
    while turns < 3 or time.perf_counter() < end:
        for k, (_, program, _) in enumerate(results):
            begin = time.perf_counter()
            for _ in range(calls[k]):
                result = program()
                if not queued:
                    wait(result)
            wait(result)
            best[k] = min(best[k], (time.perf_counter() - begin) / calls[k])
            calls[k] = max(1, int(TURN / best[k]))  # short programs are called several times a turn
        turns += 1
    return [(name, best[k], result) for k, (name, _, result) in enumerate(results)]


def wait(result: Any) -> None:
    """Until it has been computed."""
    if hasattr(result, "block_until_ready"):
        result.block_until_ready()
    elif getattr(result, "is_cuda", False):
        sys.modules["torch"].cuda.synchronize()


def as_numpy(result: Any) -> np.ndarray:
    """A result of any backend on the host."""
    return result.cpu().numpy() if hasattr(result, "cpu") else np.asarray(result)


def report(title: str, shape: tuple[int, int], programs: Iterator[tuple[str, Program]], seconds: float) -> list[dict]:
    """Print one table; check that all programs computed the same numbers."""
    print(f"\n{title}, T × B = {shape[0]} × {shape[1]}")
    rows, measured = [], measure(list(programs), seconds, queued="gpu" in title or "cuda" in title)
    (_, ours, reference), *_ = measured
    # What has to move at least: four float32 and two bool in, one float32 out.
    traffic = shape[0] * shape[1] * (4 * 4 + 2 + 4)
    for name, best, result in measured:
        moved, verdict = traffic, ""
        if name == SUM:
            moved = 3 * 4 * shape[0] * shape[1]
        elif (wrong := float(np.abs(result - reference).max() / np.abs(reference).max())) >= 1e-4:
            verdict = f"   DIFFERS by {wrong:.1e}"
        print(f"    {name:44} {best * 1e3:10.3f} ms   {moved / best / 1e9:8.1f} GB/s   ×{best / ours:6.2f}{verdict}")
        rows.append({"title": title, "shape": shape, "program": name, "seconds": best, "ratio": best / ours})
    return rows


def main() -> None:
    """Print a table per shape, backend and device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small shapes")
    parser.add_argument("--seconds", type=float, default=2.0, help="per table")
    parser.add_argument("--compile", action="store_true", help="torch.compile too (needs a C++ compiler or Triton)")
    parser.add_argument("--only", choices=["numpy", "jax", "torch"], help="one backend")
    parser.add_argument("--no-cpu", action="store_true", help="GPUs alone")
    parser.add_argument("--shapes", nargs="*", help="such as 128x16")
    parser.add_argument("--out", type=Path, help="a JSON file")
    options = parser.parse_args()
    shapes = QUICK if options.quick else SHAPES
    if options.shapes:
        shapes = [tuple(int(n) for n in text.split("x")) for text in options.shapes]
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}; the last column is the time divided by ours")
    rows = []
    for shape in shapes:
        data = rollout(*shape)
        for title, programs in backends(data, options):
            rows += report(title, shape, programs, options.seconds)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))


def backends(data: dict[str, np.ndarray], options: Any) -> Iterator[tuple[str, Iterator[tuple[str, Program]]]]:
    """One table per backend and device."""
    if options.only in (None, "numpy") and not options.no_cpu:
        yield "NumPy", numpy_programs(data)
    jax = optional("jax") if options.only in (None, "jax") else None
    if jax is not None:
        host = [] if options.no_cpu else jax.devices("cpu")
        platforms = {device.platform: device for device in [*jax.devices(), *host]}
        for platform, device in platforms.items():
            yield f"JAX, {platform}", jax_programs(data, device)
    torch = optional("torch") if options.only in (None, "torch") else None
    if torch is not None:
        for device in ["cuda"] * torch.cuda.is_available() + ["cpu"] * (not options.no_cpu):
            yield f"Torch, {device}", torch_programs(data, device, options.compile)


if __name__ == "__main__":
    main()
