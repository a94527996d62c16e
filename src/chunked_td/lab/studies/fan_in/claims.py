"""Claims of the study of backward models; their rule is in the package's docstring."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from chunked_td.lab.studies.fan_in.protocol import AGENTS, FORWARD
from chunked_td.lab.studies.fan_in.results import FanInResults
from chunked_td.lab.studies.luck.claims import together
from chunked_td.lab.study import Claim, Verdict


def beats_forward(agent: str, results: FanInResults, _: Mapping[str, Any]) -> Verdict:
    """The claim "backward"."""
    return results.missing(agent) or together(results, agent, FORWARD)


CLAIMS = tuple(
    Claim(
        f"backward-{agent}",
        "ours",
        f"Where many ways meet, {agent} learns faster with λ from a backward network than from a forward one.",
        "Its mean over tasks lies above that of the forward network, intervals disjoint, and it is worse on none, for "
        "both forms of the forward network. In part: for one, or better on a task.",
        (),
        partial(beats_forward, agent),
        f"{agent}: a backward network beats a forward one at fan-in",
        figure=f"figures/fan-in-{agent}.svg",
    )
    for agent in AGENTS
)
