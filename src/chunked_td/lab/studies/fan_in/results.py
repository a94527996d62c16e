"""Stored runs of the study as one table, and what pairs of arms come to."""

from __future__ import annotations

from functools import partial

from chunked_td.lab.studies.deep.criteria import FIXED
from chunked_td.lab.studies.deep.results import collect_runs
from chunked_td.lab.studies.fan_in.protocol import BACKWARD, FORWARD, TASKS, fan_in_protocols
from chunked_td.lab.studies.luck.results import PairedResults


class FanInResults(PairedResults):
    """Results of the study of backward models: the backward network beside each form of the forward one."""

    needed = frozenset({*map(str, FIXED), BACKWARD, *FORWARD})
    tasks = TASKS
    beside = tuple((rival, BACKWARD, rival) for rival in FORWARD)


COLLECT, LOAD = partial(collect_runs, protocols=fan_in_protocols), FanInResults.load
