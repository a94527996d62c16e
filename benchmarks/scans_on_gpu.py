"""The linear recursion on an NVIDIA GPU: one pass over memory against an associative scan (JAX) and doubling (Torch).

    python benchmarks/scans_on_gpu.py > benchmarks/scans_on_gpu.txt

Prints the largest difference of `gae` from its float64 value on the host, then milliseconds, results waited for, the
best of 30: of either scan alone, by shape, columns of a program and steps of a turn, and of the whole of `gae`.
The stored text is from one H200. In that run `gae` took the kernel at every shape, with 64 columns and turns of 32.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td import returns
from chunked_td.returns import _jax
from chunked_td.returns._pallas import one_pass_scan

CHECKED = [(1, 1), (7, 3), (33, 70), (200, 1000)]
TIMED = [(2048, 8192), (2048, 1024), (2048, 128), (128, 2048), (2048, 8), (128, 16)]
WAYS = [(32, 32), (64, 16), (64, 32), (64, 64), (128, 32)]
RNG = np.random.default_rng(0)


def rollout(steps: int, width: int) -> dict[str, np.ndarray]:
    shape = (steps, width)
    numbers = {name: RNG.normal(size=shape).astype(np.float32) for name in ("rewards", "values", "next_values")}
    ends = {name: RNG.random(shape) < 0.01 for name in ("terminated", "truncated")}
    return {**numbers, **ends, "lambda_": RNG.random(shape).astype(np.float32)}


def milliseconds(work: Callable[[], Any], times: int = 30) -> float:
    work()
    work()
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return round(1e3 * best, 4)


def measure(name: str, on_device: Callable, scan: Callable, rival: Callable, rival_name: str, wait: Callable) -> None:
    for shape in CHECKED:
        data = rollout(*shape)
        exact = {key: x.astype(np.float64) if x.dtype == np.float32 else x for key, x in data.items()}
        found = returns.gae(**{key: on_device(x) for key, x in data.items()}, discount=0.99)
        error = np.abs(np.asarray(found.tolist()) - returns.gae(**exact, discount=0.99)).max()
        print(name, shape, error, flush=True)
    for steps, width in TIMED:
        b = on_device(RNG.normal(size=(steps, width)).astype(np.float32))
        a = on_device(RNG.random((steps, width)).astype(np.float32))
        print(rival_name, (steps, width), milliseconds(lambda b=b, a=a: wait(rival(b, a))), flush=True)
        for columns, turn in WAYS:
            one = scan(columns, turn)
            print("one pass", (steps, width), columns, turn, milliseconds(lambda b=b, a=a, f=one: wait(f(b, a))))
        data = {key: on_device(x) for key, x in rollout(steps, width).items()}
        taken = milliseconds(lambda data=data: wait(returns.gae(**data, discount=0.99)))
        print(f"gae {name}", (steps, width), taken, flush=True)


def in_jax() -> None:
    def scan(columns: int, turn: int) -> Callable:
        run = jax.jit(functools.partial(one_pass_scan, columns=columns, turn=turn))
        return lambda b, a: run(b, a, jnp.zeros(b.shape[1]))

    rival = jax.jit(lambda b, a: _jax.associative_scan(b, a, jnp.zeros(b.shape[1])))
    measure("jax", jnp.asarray, scan, rival, "associative", jax.block_until_ready)


def in_torch() -> None:
    import torch

    from chunked_td.returns import _torch, _triton

    def scan(columns: int, turn: int) -> Callable:
        def run(b, a):
            _triton.COLUMNS, _triton.TURN = columns, turn
            return _triton.one_pass_scan(b, a, None, 0)

        return run

    def on_device(x: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(x, device="cuda")

    def wait(_: Any) -> None:
        torch.cuda.synchronize()

    measure("torch", on_device, scan, lambda b, a: _torch.doubling_scan(b, a, None, 0), "doubling", wait)


if __name__ == "__main__":
    print(jax.devices(), jax.__version__)
    in_jax()
    in_torch()
