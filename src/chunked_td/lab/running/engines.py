"""Where batches execute. An engine takes batches and yields a `BatchResult` for each as it completes, in any order.

    local   the compiled simulation's threads on this machine (default)
    ray     a Ray cluster (`--address`), or Ray started here

An engine never changes a result: a run depends on its settings and seed alone. An error inside a batch is its result
and does not stop the others. Ray repeats a batch whose worker or node died.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from chunked_td._loading import USER_MODULES
from chunked_td.lab.errors import UsageError
from chunked_td.lab.running.batches import Batch, NetworkRunner, execute, programs_of, runner_of, silent
from chunked_td.lab.study import Columns

_POLL = 0.1  # seconds between polls; Ctrl-C is seen in between


@dataclass(frozen=True)
class BatchResult:
    """The result of a batch: its columns, or the text of its error."""

    batch: Batch
    columns: Columns | None
    error: str | None = None
    seconds: float = 0.0
    host: str = ""

    def log_line(self, engine: str) -> dict[str, Any]:
        """The log's line about a finished batch; `BatchRecord` reads it."""
        return {
            "protocol": self.batch.protocol.id,
            "arm": self.batch.arm.id,
            "kind": self.batch.kind,
            "runs": len(self.batch.pairs),
            "steps": self.batch.steps,
            "seconds": round(self.seconds, 3),
            "host": self.host,
            "engine": engine,
        }


class Engine:
    """Runs batches."""

    name = ""

    def run(self, batches: Sequence[Batch]) -> Iterator[BatchResult]:
        """Yield a result per batch, as they complete. Closing the iterator abandons the rest."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what the engine holds."""


def attempt(
    program: Sequence[Batch],
    threads: int | None,
    report: Callable[[str], None] = silent,
    networks: NetworkRunner | None = None,
) -> list[BatchResult]:
    """Execute a program; an exception becomes the result of its batches, its time is divided by their runs."""
    start = time.perf_counter()
    found: Sequence[Columns | None] = [None] * len(program)
    error = None
    try:
        found = runner_of(program[0], networks).run(program, threads, report)
    except Exception as problem:
        last = traceback.extract_tb(problem.__traceback__)[-1]
        error = f"{type(problem).__name__}: {problem} (in {last.name}, {last.filename}:{last.lineno})"
    seconds, host = (time.perf_counter() - start) / sum(len(batch.pairs) for batch in program), socket.gethostname()
    pairs = zip(program, found, strict=True)
    return [BatchResult(batch, columns, error, seconds * len(batch.pairs), host) for batch, columns in pairs]


@contextlib.contextmanager
def compiling_side_by_side(batches: Sequence[Batch]) -> Iterator[None]:
    """Meanwhile, other processes compile what the last batches need, the last kind first, and keep it on disk."""
    first: dict[Any, Batch] = {}
    for batch in batches:
        own, runner = batch.protocol.batch_runner, str(batch.protocol.runner)
        ours = runner.startswith("chunked_td.") and batch.arm.kind != "network"  # others may do more than compute
        if ours if own is None else own.compiles_as(batch) is not None:
            first.setdefault(_compiles_as(batch), batch)
    waiting = list(first.values())[:0:-1]  # this process begins with the first kind
    helpers = min((os.cpu_count() or 1) - 1, len(waiting) // 2)
    with contextlib.ExitStack() as stack:
        if helpers > 0:
            from chunked_td._numba.caching import elsewhere, kept_on_disk
            from chunked_td.simulation.kernels import play_block

            if hasattr(play_block, "for_python") and kept_on_disk(play_block) < len(first):
                letters = [_letter(batch) for batch in waiting]
                for k in range(helpers):
                    stack.enter_context(elsewhere(_compile, letters[k::helpers], wait=False))
        yield


def _letter(batch: Batch) -> bytes:
    """The smallest batch that compiles as this one does; nothing where it cannot be sent."""
    try:
        return pickle.dumps(replace(batch, pairs=batch.pairs[:1], episodes=1, record_at=(1,)))
    except Exception:
        return b""


def _compile(letters: Sequence[bytes]) -> None:
    for letter in letters:
        with contextlib.suppress(Exception):
            batch = pickle.loads(letter)
            problem, source = batch.protocol.environment.build(), batch.arm.source()
            if getattr(problem, "dynamics", problem) is not None and getattr(source, "is_compiled", True):
                execute(batch, 1)


class LocalEngine(Engine):
    """One program after the other, each on all threads.

    Programs run in a daemon thread, so that the main thread can answer Ctrl-C while compiled code is busy.

    Args:
      threads: of the compiled simulation. networks: how arms with networks run, if not the default.
      report: called with the batches of a program and a text about its progress.
    """

    name = "local"

    def __init__(
        self,
        threads: int | None = None,
        networks: NetworkRunner | None = None,
        report: Callable[[Sequence[Batch], str], None] | None = None,
    ):
        self.threads, self.networks, self.report = threads, networks, report

    def run(self, batches: Sequence[Batch]) -> Iterator[BatchResult]:
        """See `Engine.run`."""
        results: queue.Queue[BatchResult] = queue.Queue()
        stop = threading.Event()
        kinds = list(dict.fromkeys(_compiles_as(batch) for batch in batches))
        notice = _notice()

        def work() -> None:
            with compiling_side_by_side(batches):
                for program in programs_of(batches, self.networks):
                    if stop.is_set():
                        return
                    report = silent if self.report is None else partial(self.report, program)
                    name = f"{kinds.index(_compiles_as(program[0])) + 1} of {len(kinds)}: {program[0].arm.label}"
                    with contextlib.nullcontext() if notice is None else notice.calling(name):
                        for result in attempt(program, self.threads, report, self.networks):
                            results.put(result)

        try:
            threading.Thread(target=work, name="batches", daemon=True).start()
            for _ in batches:
                yield _wait(results)
        except BaseException:  # Ctrl-C, or nobody asks for more
            if notice is not None:
                notice.give_up()
            raise
        finally:
            stop.set()


def _compiles_as(batch: Batch) -> Any:
    """The same for batches that one compiled loop runs."""
    if (own := batch.protocol.batch_runner) is not None:
        return own.compiles_as(batch) or str(batch.protocol.runner)
    learner, *others = batch.arm.compiles_as
    return (learner == "td", *others) if _is_one_loop(batch.protocol.environment) else (learner, *others)


_ONE_LOOP: dict[str, bool] = {}


def _is_one_loop(environment: Any) -> bool:
    """Whether one compiled loop serves every bootstrap on action values; see `chunked_td.envs.protocol`."""
    key = repr(environment)
    if key not in _ONE_LOOP:
        _ONE_LOOP[key] = False
        with contextlib.suppress(Exception):  # what is wrong with it is said when the batch is run
            problem = environment.build()
            _ONE_LOOP[key] = getattr(getattr(problem, "dynamics", problem), "one_loop", False)
    return _ONE_LOOP[key]


def _notice() -> Any:
    """What says that something is being compiled; None on a host without Numba."""
    try:
        from chunked_td._numba.caching import NOTICE
    except ModuleNotFoundError:
        return None
    return NOTICE


class RayEngine(Engine):
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
        self.threads, self.retries = threads or 1, retries
        self._started = not ray.is_initialized()
        if self._started:
            _check_address(address)
            ray.init(address=address, include_dashboard=None if address else False, log_to_driver=False)

    def run(self, batches: Sequence[Batch]) -> Iterator[BatchResult]:
        """See `Engine.run`."""
        for name, module in list(sys.modules.items()):
            if name.startswith(USER_MODULES):  # other nodes do not have users' files, so their code is sent
                self.ray.cloudpickle.register_pickle_by_value(module)
        results: queue.Queue[BatchResult] = queue.Queue()
        references = [self._submit(program, results) for program in programs_of(batches)]
        left = len(batches)
        try:
            while left:
                yield _wait(results)
                left -= 1
        finally:
            for reference in references if left else ():
                self.ray.cancel(reference, force=True)

    def _submit(self, program: Sequence[Batch], results: queue.Queue[BatchResult]) -> Any:
        gpus = 1 if program[0].kind == "network" and self.ray.cluster_resources().get("GPU", 0) >= 1 else 0
        task = self.ray.remote(num_cpus=self.threads, num_gpus=gpus, max_retries=self.retries)(attempt)
        reference = task.remote(program, self.threads)

        def done(future: Any) -> None:
            try:
                found = future.result()
            except Exception as problem:
                text = str(problem).strip().splitlines() or [type(problem).__name__]
                found = [BatchResult(batch, None, f"{type(problem).__name__}: {text[0]}") for batch in program]
            for batch, result in zip(program, found, strict=True):
                results.put(replace(result, batch=batch))

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
        with contextlib.suppress(queue.Empty):
            return results.get(timeout=_POLL)
