"""Prioritised sweeping (Moore and Atkeson 1993; Peng and Williams 1993)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from chunked_td._checks import check_count, check_flag, check_not_negative
from chunked_td._link import kernel
from chunked_td.learners.planning.backups import expected_backup
from chunked_td.learners.planning.base import Planner, state_of
from chunked_td.models.counts import NUMBER, ORIGIN


@dataclass(frozen=True)
class PrioritisedSweeping(Planner):
    """Full backups of the rows with the largest errors, and then of their predecessors.

        Q(s,a) ← T(s,a) for the (s,a) of largest |T(s,a) − Q(s,a)|, up to n times per step

    The row of the real step enters the queue if its error is above the threshold. After each backup of a row of state
    s, so do all predecessor rows of s. The queue is kept from step to step.

    Differences from Moore and Atkeson: values are those of (s, a), and a priority is the error itself, not the bound
    P̂·|ΔV|. Peng and Williams back up single transitions by a step size. Backups here are full, and the step size is not
    used. The TD update of the real step is omitted unless `direct`.

    Args:
      steps: maximum number of backups after each real step.
      threshold: errors at or below it are ignored.
      direct: also make the TD update of the real step. Rows that it changes enter the queue at their next visit.
    """

    steps: int = 10
    threshold: float = 1e-4
    direct: bool = field(default=False, kw_only=True)

    arrays: ClassVar[Mapping[str, str]] = {
        "queue": "int64[rows] in [0, rows)",
        "place": "int64[rows]",
        "priority": "float64[rows] in [0, inf)",
        "size": "int64[1] in [0, rows]",
    }

    checks: ClassVar = {"steps": check_count, "threshold": check_not_negative, "direct": check_flag}

    def check_saved(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise a ValueError for a queue with duplicate rows."""
        queue, size = arrays["queue"], int(arrays["size"][0])
        wanted = np.zeros(queue.size, np.int64)
        wanted[queue[:size]] = np.arange(1, size + 1)
        if not np.array_equal(arrays["place"], wanted):
            raise ValueError("planner_place must be the places in planner_queue")

    @kernel
    def plan(planner, agent, row, epsilon, step_size, over):
        """Make up to `steps` backups, the largest error first."""
        _enter(planner, agent, row, epsilon)
        world, values, target = agent.planning.world, agent.tables.values, agent.planning.target
        for _ in range(planner.steps):
            if planner.size[0] == 0:
                return
            k = pop(planner)
            expected_backup(agent, k, epsilon)
            for i in range(target.size):
                values[k, i] = target[i]
            pair = world.entry[state_of(agent, k)] - 1
            while pair >= 0:
                if world.counts.pairs[pair, NUMBER] > world.ends[pair]:
                    _enter(planner, agent, world.counts.pairs[pair, ORIGIN], epsilon)
                pair = world.entering[pair] - 1


def _enter(planner, agent, row, epsilon):
    """Insert a row by its error if that is above the threshold, or update the priority of a queued row."""
    values, target = agent.tables.values, agent.planning.target
    if agent.planning.world.counts.total[row] == 0:
        return  # not counted, because of a model error
    expected_backup(agent, row, epsilon)
    error = 0.0
    for i in range(target.size):
        error = max(error, abs(target[i] - values[row, i]))
    if error > planner.threshold or planner.place[row] > 0:
        push(planner, row, error)


def push(heap, row, priority):
    """Insert a row, or change its priority.

    Args:
      heap: `queue` int64[rows], rows with the largest priority first (a binary heap); `place` int64[rows], a row's
        position in it plus one, or 0; `priority` float64[rows] by row, of equals the lower row first; `size` int64[1].
    """
    heap.priority[row] = priority
    if heap.place[row] == 0:
        heap.queue[heap.size[0]] = row
        heap.size[0] += 1
        heap.place[row] = heap.size[0]
    _rise(heap, heap.place[row] - 1)
    _sink(heap, heap.place[row] - 1)


def pop(heap):
    """Remove and return the row of largest priority; the heap must not be empty."""
    row = heap.queue[0]
    heap.size[0] -= 1
    heap.place[row] = 0
    if heap.size[0] > 0:
        last = heap.queue[heap.size[0]]
        heap.queue[0], heap.place[last] = last, 1
        _sink(heap, 0)
    return row


def _rise(heap, k):
    while k > 0 and _comes_before(heap, k, (k - 1) // 2):
        _swap(heap, k, (k - 1) // 2)
        k = (k - 1) // 2


def _sink(heap, k):
    while 2 * k + 1 < heap.size[0]:
        child = 2 * k + 1
        if child + 1 < heap.size[0] and _comes_before(heap, child + 1, child):
            child += 1
        if not _comes_before(heap, child, k):
            return
        _swap(heap, k, child)
        k = child


def _comes_before(heap, j, k):
    """Compare by priority, then by row, so that the order is unique."""
    a, b = heap.queue[j], heap.queue[k]
    return heap.priority[a] > heap.priority[b] or (heap.priority[a] == heap.priority[b] and a < b)


def _swap(heap, j, k):
    a, b = heap.queue[j], heap.queue[k]
    heap.queue[j], heap.queue[k] = b, a
    heap.place[b], heap.place[a] = j + 1, k + 1
