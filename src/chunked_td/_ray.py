"""Runs of a sweep as Ray tasks. Workers return tables; the caller writes them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any

WINDOW = 4
"""Tasks that wait or run, per core of the cluster: Ray is slower with very many."""


def results_from_ray(
    make: Callable[[Any], Any], calls: Sequence[Any], *, gpus: float, retries: int, modules: Sequence[Any]
) -> Generator[Any]:
    """Yield `make(call)` for these calls, as they finish.

    Args:
      gpus, retries: of each task, and how often it is repeated after its worker or node died.
      modules: the caller's own, which other nodes do not have; they are sent along.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        from chunked_td._loading import with_extra

        raise with_extra('sweep(engine="ray")', error) from None
    waiting, running = iter(calls), []
    with connected(ray), by_value(ray, modules):
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=retries)(make)
        try:
            while True:
                room = max(64, WINDOW * int(ray.cluster_resources().get("CPU", 1))) - len(running)
                running += [task.remote(call) for call in islice(waiting, max(0, room))]
                if not running:
                    return
                ready, running = ray.wait(running, timeout=1.0)
                for reference in ready:
                    yield outcome(ray, reference)
        finally:
            for reference in running:
                with contextlib.suppress(Exception):
                    ray.cancel(reference, force=True)


def outcome(ray: Any, reference: Any) -> Any:
    """What a task returned; the error of a run is raised as it was."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from error


@contextlib.contextmanager
def connected(ray: Any) -> Iterator[None]:
    """Connect to Ray if the caller has not: to RAY_ADDRESS, or to a cluster started here for the sweep."""
    if ray.is_initialized():
        yield
        return
    ray.init(log_to_driver=False, logging_level="ERROR")
    try:
        yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def by_value(ray: Any, modules: Sequence[Any]) -> Iterator[None]:
    """Meanwhile, functions and classes of these modules are sent with their code."""
    for module in modules:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            with contextlib.suppress(ValueError):
                ray.cloudpickle.unregister_pickle_by_value(module)
