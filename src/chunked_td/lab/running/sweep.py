"""Running a plan: every result goes into the store and the log as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chunked_td.lab.running.engines import BatchResult, Engine
from chunked_td.lab.running.plan import SweepPlan
from chunked_td.lab.running.progress import SweepProgress
from chunked_td.lab.store.batch_store import Store


@dataclass
class SweepOutcome:
    """The outcome of a sweep: how many batches finished, and the results of those that failed."""

    finished: int = 0
    failures: list[BatchResult] = field(default_factory=list)


def run_plan(
    plan: SweepPlan, store: Store, engine: Engine, progress: SweepProgress, listeners: Sequence[Any] = ()
) -> SweepOutcome:
    """Run the batches of a plan and store each result as it comes. A batch that fails does not stop the others."""
    outcome = SweepOutcome()
    log = store.directory.log
    for result in engine.run(plan.batches):
        if result.columns is None:
            outcome.failures.append(result)
            log.write("failure", batch=result.batch.name, error=result.error)
        else:
            path = store.write(result.batch.settings, result.columns)
            outcome.finished += 1
            log.write("batch", file=str(path.relative_to(store.directory.path)), **log_entry(result, engine))
            for listener in listeners:
                listener.batch_done(result)
        progress.batch_done(result)
    return outcome


def log_entry(result: BatchResult, engine: Engine) -> dict[str, Any]:
    """The log's line about a finished batch; `BatchRecord` reads it."""
    return {
        "protocol": result.batch.protocol.id,
        "arm": result.batch.arm.id,
        "kind": result.batch.kind,
        "runs": len(result.batch.pairs),
        "steps": result.batch.steps,
        "seconds": round(result.seconds, 3),
        "host": result.host,
        "engine": engine.name,
    }
