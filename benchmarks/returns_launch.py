"""Calls of `token_gae` and `gae` on an NVIDIA GPU: the host's share, the kernel's, and a sum of two arrays beside them.

    python -m benchmarks.returns_launch            # about a minute
    python -m benchmarks.returns_launch --blocks   # and other blocks, about a minute more
    python -m benchmarks.returns_launch --check    # `token_gae` against NumPy in float64, in many shapes and layouts

Needs torch with Triton, and NumPy. "called" is the time of a call among many that are queued, so the larger of the
host's work and the GPU's. "graph" is a CUDA graph of many calls replayed, so the GPU's work alone. Programs take turns
and the fastest turn counts. "sums" is the time divided by that of a sum of two arrays of the same size, measured in the
same way. Arrays are float32; tokens are [B, T] with a mask and two λ, rollouts are [T, B] with both flags.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from chunked_td import returns
from chunked_td.returns import _triton

SHAPES = [(16, 128), (8, 2048), (256, 1024), (128, 2048), (1024, 2048), (8192, 2048)]
LAMBDA, GAMMA, CALLS, TURNS = 0.95, 0.99, 20, 30
LARGEST_LOOP = 2**19  # tokens in a batch that a loop over tokens is timed on

Program = Callable[[], Any]


def tokens(batch: int, steps: int) -> list[torch.Tensor]:
    """rewards, values, mask [B, T]: answers of any length, a tool's output in the middle of some."""
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, batch, steps)).astype(np.float32)
    mask = np.arange(steps) < rng.integers(steps // 2, steps + 1, size=(batch, 1))
    mask[::3, steps // 4 : steps // 3] = False
    return [torch.as_tensor(x, device="cuda") for x in (np.where(mask, rewards, np.float32(0)), values, mask)]


def rollout(batch: int, steps: int) -> list[torch.Tensor]:
    """rewards, values, next_values, terminated, truncated [T, B]."""
    rng = np.random.default_rng(0)
    reals = rng.normal(size=(3, steps, batch)).astype(np.float32)
    return [torch.as_tensor(x, device="cuda") for x in (*reals, *(rng.random((2, steps, batch)) < 0.01))]


def token_loop(rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A token at a time, once per λ, as trainers do it."""
    kept, results = mask.to(rewards.dtype), []
    for lambda_ in (LAMBDA, 1.0):
        found, later, advantage = torch.zeros_like(rewards), 0.0, 0.0
        for t in reversed(range(rewards.shape[1])):
            new = rewards[:, t] + later - values[:, t] + lambda_ * advantage
            advantage = kept[:, t] * new + (1 - kept[:, t]) * advantage
            later = kept[:, t] * values[:, t] + (1 - kept[:, t]) * later
            found[:, t] = kept[:, t] * advantage
        results.append(found)
    return results[0]


def programs(batch: int, steps: int) -> dict[str, Program]:
    """What is timed; results are compared with those of the CPU."""
    r, v, mask = tokens(batch, steps)
    per_token, five = torch.full_like(r, LAMBDA), rollout(batch, steps)
    first = [x.T.contiguous() for x in (r, v, mask)]
    last = 0 * r
    last[:, -1] = 1.0
    found = {
        "a sum": lambda: r + v,
        "token_gae": lambda: returns.token_gae(r, v, mask, LAMBDA, 1.0).advantages,
        "token_gae, λ per token": lambda: returns.token_gae(r, v, mask, per_token, 1.0).advantages,
        "token_gae, reward masked": lambda: returns.token_gae(last, v, mask, LAMBDA, 1.0).advantages,
        "token_gae, no mask": lambda: returns.token_gae(r, v, None, LAMBDA, 1.0).advantages,
        "token_gae, time first": lambda: returns.token_gae(*first, LAMBDA, 1.0, time_axis=0).advantages,
        "gae": lambda: returns.gae(*five, GAMMA, LAMBDA),
    }
    host = [x.cpu() for x in (r, v, mask)]
    check("token_gae", found["token_gae"](), returns.token_gae(*host, LAMBDA, 1.0).advantages)
    check("reward", found["token_gae, reward masked"](), returns.token_gae(last.cpu(), *host[1:], LAMBDA, 1.0)[0])
    check("time first", found["token_gae, time first"]().T, returns.token_gae(*host, LAMBDA, 1.0).advantages)
    check("gae", found["gae"](), returns.gae(*(x.cpu() for x in five), GAMMA, LAMBDA))
    return found


def check(name: str, got: torch.Tensor, expected: torch.Tensor) -> None:
    """Raise if the numbers differ."""
    if not torch.allclose(got.cpu(), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max())):
        raise AssertionError(f"{name}: off by {(got.cpu() - expected).abs().max()}")


def queued(program: Program, calls: int = CALLS) -> float:
    """Seconds of a call among many that are queued."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        program()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / calls


def captured(program: Program) -> Program:
    """A CUDA graph of many calls."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            program()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            program()
    return graph.replay


def fastest(ways: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The best turn of each."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(TURNS):
        for name, way in ways.items():
            best[name] = min(best[name], way())
    return best


def on_the_gpu(program: Program) -> Callable[[], float]:
    """Time of one call of a graph of many."""
    replay = captured(program)
    return lambda: queued(replay, 1) / CALLS


def table(batch: int, steps: int) -> None:
    """One shape."""
    called = programs(batch, steps)
    calls = fastest({name: lambda p=p: queued(p) for name, p in called.items()})
    graphs = fastest({name: on_the_gpu(p) for name, p in called.items()})
    print(f"\nB × T = {batch} × {steps}{'called':>28}{'sums':>8}{'graph':>11}{'sums':>8}")
    for name in called:
        numbers = (x[name] * 1e6 for x in (calls, graphs))
        ratios = (x[name] / x["a sum"] for x in (calls, graphs))
        line = "".join(f"{t:9.1f} µs{ratio:7.2f}" for t, ratio in zip(numbers, ratios, strict=True))
        print(f"    {name:32}{line}")
    if batch * steps <= LARGEST_LOOP:
        loop = min(queued(lambda: token_loop(*tokens(batch, steps)), 1) for _ in range(2))
        print(f"    {'a loop over tokens, twice':32}{loop * 1e6:9.0f} µs")


def host_share() -> None:
    """Processor time of calls on arrays so small that the GPU is done before the next one comes."""
    r, v, mask = tokens(2, 8)
    five = rollout(2, 8)
    calls: dict[str, Program] = {
        "a sum": lambda: r + v,
        "two empty arrays": lambda: (torch.empty_like(r), torch.empty_like(r)),
        "token_gae": lambda: returns.token_gae(r, v, mask, LAMBDA, 1.0),
        "gae": lambda: returns.gae(*five, GAMMA, LAMBDA),
    }
    print("\nwork of the host, without waiting")
    for name, best in fastest({name: lambda p=p: queued(p, 200) for name, p in calls.items()}).items():
        print(f"    {name:32}{best * 1e6:9.1f} µs")


def blocks(batch: int, steps: int) -> None:
    """Other blocks of both kernels, by the GPU's work alone."""
    r, v, mask = tokens(batch, steps)
    five = rollout(batch, steps)
    base = fastest({"a sum": on_the_gpu(lambda: r + v)})["a sum"]
    print(f"\nblocks at B × T = {batch} × {steps}, a sum {base * 1e6:.1f} µs")
    kept = _triton.ROWS, _triton.NARROW, _triton.WIDE, _triton.TURN
    for parts, warps in [(32, 1), (64, 1), (64, 2), (128, 1), (128, 2), (128, 4), (256, 4)]:
        _triton.ROWS = ((parts, 1, True), warps)
        best = fastest({"": on_the_gpu(lambda: returns.token_gae(r, v, mask, LAMBDA, 1.0))})[""]
        print(f"    token_gae {4 * parts:5} tokens, {warps:2} warps {best * 1e6:9.1f} µs{best / base:7.2f}")
    for columns, parts, turn in [(32, 8, 8), (16, 16, 8), (16, 8, 8), (8, 16, 8), (8, 8, 8), (8, 16, 4), (4, 16, 8)]:
        _triton.NARROW = _triton.WIDE = (columns, parts)
        _triton.TURN = turn
        best = fastest({"": on_the_gpu(lambda: returns.gae(*five, GAMMA, LAMBDA))})[""]
        print(f"    gae {columns:3} columns × {parts:2} parts × {turn} {best * 1e6:9.1f} µs{best / base:7.2f}")
    _triton.ROWS, _triton.NARROW, _triton.WIDE, _triton.TURN = kept


def compared() -> None:
    """Print the largest relative difference of `token_gae` from NumPy's in float64."""
    rng, differences = np.random.default_rng(0), []
    for batch, steps, axis in itertools.product((1, 2, 33, 1030), (1, 2, 3, 5, 127, 129, 1000, 2049), (-1, 0)):
        for shape, masked, spilt in itertools.product([(), (batch, 1), (batch, steps)], (False, True), (False, True)):
            rewards, values = rng.normal(size=(2, batch, steps)).astype(np.float32)
            mask = rng.random((batch, steps)) < 0.7 if masked else None
            if mask is not None:
                rewards = rewards if spilt else np.where(mask, rewards, np.float32(0))
                values = np.where(mask, values, np.float32(np.nan))
            lambdas = rng.random((2, *shape)).astype(np.float32)
            last = rng.normal(size=(batch, 1)).astype(np.float32)
            exact = [np.asarray(x, np.float64) for x in (rewards, values, *lambdas, last)]
            expected = returns.token_gae(*exact[:2], mask, *exact[2:4], discount=GAMMA, last_values=exact[4])

            def brought(x: Any, axis: int = axis) -> Any:
                if x is None or np.ndim(x) == 0:
                    return x if x is None else float(x)
                tensor = torch.as_tensor(x, device="cuda")
                return tensor.T.contiguous() if axis == 0 else tensor

            given = [brought(x) for x in (rewards, values, mask, *lambdas, last)]
            found = returns.token_gae(*given[:5], discount=GAMMA, last_values=given[5], time_axis=axis)
            for ours, theirs in zip(found[:2], expected[:2], strict=True):
                each = ours.T if axis == 0 else ours
                differences.append(np.abs(each.cpu().numpy() - theirs).max() / max(1.0, np.abs(theirs).max()))
    print(f"{len(differences):,} results, the largest relative difference {max(differences):.1e}")


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", action="store_true", help="other blocks of the kernels")
    parser.add_argument("--check", action="store_true", help="compare results, and time nothing")
    options = parser.parse_args()
    if options.check:
        return compared()
    import triton  # pyright: ignore[reportMissingImports]  (comes with torch for GPUs)

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    host_share()
    for batch, steps in SHAPES:
        table(batch, steps)
    for batch, steps in [(8, 2048), (256, 1024), (1024, 2048), (8192, 2048)] if options.blocks else []:
        blocks(batch, steps)


if __name__ == "__main__":
    main()
