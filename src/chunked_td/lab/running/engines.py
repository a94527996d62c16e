"""Where batches execute. An engine takes batches and yields a `BatchResult` for each as it completes, in any order.

    local   the compiled simulation's threads on this machine (default)
    ray     a Ray cluster (`--address`), or Ray started here

An engine never changes a result: a run depends on its settings and seed alone. An error inside a batch is its result
and does not stop the others. Ray repeats a batch whose worker or node died.
"""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from chunked_td._numba.caching import NOTICE
from chunked_td.lab.errors import UsageError
from chunked_td.lab.experiments import USER_MODULES
from chunked_td.lab.running.batches import Batch, execute
from chunked_td.lab.store.settings import Columns

_POLL = 0.1  # seconds between polls; Ctrl-C is seen in between


@dataclass(frozen=True)
class BatchResult:
    """The result of a batch: its columns, or the text of its error."""

    batch: Batch
    columns: Columns | None
    error: str | None = None
    seconds: float = 0.0
    host: str = ""


class Engine(Protocol):
    """Runs batches."""

    name: str

    def run(self, batches: Sequence[Batch]) -> Iterator[BatchResult]:
        """Yield a result per batch, as they complete. Closing the iterator abandons the rest."""
        ...

    def close(self) -> None:
        """Release what the engine holds."""
        ...


def attempt(batch: Batch, threads: int | None) -> BatchResult:
    """Execute a batch; an exception becomes its result."""
    start = time.perf_counter()
    columns = error = None
    try:
        columns = execute(batch, threads)
    except Exception as problem:
        last = traceback.extract_tb(problem.__traceback__)[-1]
        error = f"{type(problem).__name__}: {problem} (in {last.name}, {last.filename}:{last.lineno})"
    return BatchResult(batch, columns, error, time.perf_counter() - start, socket.gethostname())


class LocalEngine:
    """One batch after the other, each on all threads.

    Batches run in a daemon thread, so that the main thread can answer Ctrl-C while compiled code is busy.
    """

    name = "local"

    def __init__(self, threads: int | None = None):
        self.threads = threads

    def run(self, batches: Sequence[Batch]) -> Iterator[BatchResult]:
        """See `Engine.run`."""
        results: queue.Queue[BatchResult] = queue.Queue()
        stop = threading.Event()
        kinds = list(dict.fromkeys(batch.arm.compiles_as for batch in batches))

        def work() -> None:
            for batch in batches:
                if stop.is_set():
                    return
                with NOTICE.calling(f"{kinds.index(batch.arm.compiles_as) + 1} of {len(kinds)}: {batch.arm.label}"):
                    results.put(attempt(batch, self.threads))

        threading.Thread(target=work, name="batches", daemon=True).start()
        try:
            for _ in batches:
                yield _wait(results)
        finally:
            stop.set()

    def close(self) -> None:
        """Nothing to release."""


class RayEngine:
    """Batches as Ray tasks.

    Args:
      address: of a running cluster ("auto", "ray://host:10001", "host:6379"); None starts Ray on this machine.
      threads: CPU cores per batch.
      retries: how often a batch is repeated when its worker or node dies.
    """

    name = "ray"

    def __init__(self, address: str | None = None, threads: int | None = None, retries: int = 5):
        try:
            import ray
        except ImportError:
            raise UsageError("the ray engine needs Ray: pip install 'chunked-td[ray]'") from None
        self.ray: Any = ray
        self.threads = threads or 1
        self.retries = retries
        self._started = not ray.is_initialized()
        if self._started:
            _check_address(address)
            ray.init(address=address, include_dashboard=None if address else False, log_to_driver=False)

    def run(self, batches: Sequence[Batch]) -> Iterator[BatchResult]:
        """See `Engine.run`."""
        _send_user_modules(self.ray)
        results: queue.Queue[BatchResult] = queue.Queue()
        references = [self._submit(batch, results) for batch in batches]
        left = len(references)
        try:
            while left:
                yield _wait(results)
                left -= 1
        finally:
            for reference in references if left else ():
                self.ray.cancel(reference, force=True)

    def _submit(self, batch: Batch, results: queue.Queue[BatchResult]) -> Any:
        gpus = 1 if batch.arm.kind == "network" and self.ray.cluster_resources().get("GPU", 0) >= 1 else 0
        task = self.ray.remote(num_cpus=self.threads, num_gpus=gpus, max_retries=self.retries)(attempt)
        reference = task.remote(batch, self.threads)

        def done(future: Any) -> None:
            try:
                results.put(replace(future.result(), batch=batch))
            except Exception as problem:
                text = str(problem).strip().splitlines() or [type(problem).__name__]
                results.put(BatchResult(batch, None, f"{type(problem).__name__}: {text[0]}"))

        reference.future().add_done_callback(done)
        return reference

    def close(self) -> None:
        """Disconnect, and stop Ray if it was started here."""
        if self._started:
            self.ray.shutdown()


def _check_address(address: str | None) -> None:
    """Refuse an address that does not answer. Ray itself would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not port.isdigit():  # nothing, "auto", or a name that Ray knows
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as problem:
        raise UsageError(f"--address {address}: no Ray cluster answers there ({problem})") from None


def make_engine(name: str, *, address: str | None = None, threads: int | None = None) -> Engine:
    """The engine called `name`."""
    if name == "local":
        if address is not None:
            raise UsageError(f"--address must come with --engine ray, got {address} with the local engine")
        return LocalEngine(threads)
    if name == "ray":
        return RayEngine(address, threads)
    raise UsageError(f"--engine must be local or ray, got {name!r}")


def _wait(results: queue.Queue[BatchResult]) -> BatchResult:
    """The next result. It polls, because a blocked main thread would not see Ctrl-C."""
    while True:
        try:
            return results.get(timeout=_POLL)
        except queue.Empty:
            continue


def _send_user_modules(ray: Any) -> None:
    """Make Ray send the code of users' experiments: other nodes do not have those files."""
    for name, module in list(sys.modules.items()):
        if name.startswith(USER_MODULES):
            ray.cloudpickle.register_pickle_by_value(module)
