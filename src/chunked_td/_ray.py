"""Sweep runs as Ray tasks. Workers return tables; the caller writes them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any

WINDOW = 4
"""Submitted tasks per core of the cluster; Ray is slower with very many."""


def results_from_ray(
    make: Callable[[Any], Any], calls: Sequence[Any], *, gpus: float, retries: int, modules: Sequence[Any]
) -> Generator[Any]:
    """Yield `make(call)` for these calls in the order in which they finish.

    Args:
      gpus: GPUs of each task. retries: repetitions of a task whose worker or node died.
      modules: the caller's own modules, sent to nodes that do not have them.
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
    """Result of a task; an error of the run is raised unchanged."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from error


@contextlib.contextmanager
def connected(ray: Any) -> Iterator[None]:
    """Connect to Ray unless the caller has: to RAY_ADDRESS, or to a cluster started here for the sweep."""
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
    """Send functions and classes of these modules with their code during the `with` block."""
    for module in modules:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            with contextlib.suppress(ValueError):
                ray.cloudpickle.unregister_pickle_by_value(module)
