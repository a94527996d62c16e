"""Causes of a cut of credit: facts of the run that the λ source reads, as short texts.

| cause | fact |
|---|---|
| exploration | the action in λ had a small probability; or, if λ is an expectation, the policy is random |
| chance | several outcomes of the action were counted (for the value kernel: of different value) |
| cells | the same, if states are cells of observations: stochastic, or the cell is too coarse |
| first visit | the action was new here, and the prior or the formula does not take it for certain |
| junction | the state has several predecessors |

Only what the source reads can be a cause (`LambdaSource.inputs`). Outcomes and predecessors come from counts; other
models give no causes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.bootstraps import SARSA, STATE
from chunked_td.lambdas.base import FORWARD
from chunked_td.lambdas.expected import ExpectedLambda
from chunked_td.lambdas.factored import FactoredLambda
from chunked_td.lambdas.forward import ForwardLambda
from chunked_td.lambdas.value import ValueLambda
from chunked_td.lambdas.watkins import WatkinsLambda
from chunked_td.learners.learner import Learner
from chunked_td.models.counts import NUMBER, ORIGIN, TARGET, BackwardCounts, ForwardCounts, PartCounts
from chunked_td.observations.codebook import Codebook
from chunked_td.observations.discretise import Discretise

BREAK = 0.5
"""A chunk breaks before a step with a λ below this (§3.1)."""

CERTAIN = 0.95
"""A step counts as certain from this share of its λ in a deterministic environment, under the policy's ε."""

AT = {
    "exploration": "exploratory actions",
    "chance": "chance",
    "cells": "cells that lead to several others",
    "first visit": "first visits",
    "junction": "junctions",
    "coin": "coins of sampled chunks",
}
"""Places of the cuts, in words, by cause."""


def certain_lambda(agent: Learner) -> float:
    """The least λ of a certain step of this learner: its policy's ε lowers the greatest possible λ."""
    source, A = agent.lambda_source, agent.n_actions
    if agent.bootstrap == STATE or agent.exploration is not None or not getattr(source, "policy_noise", False):
        return CERTAIN
    other = float(agent._rates[0]) / A
    most = 1.0 - (A - 1) * other
    if isinstance(source, ExpectedLambda):
        return CERTAIN * (most**2 + (A - 1) * other**2)
    return CERTAIN * (most if isinstance(source, ForwardLambda | FactoredLambda) else 1.0)


class StepFacts:
    """Facts read before a transition is learned from; call `causes` after it."""

    def __init__(self, agent: Learner, left: list[int]):
        self.agent, self.state, self.action = agent, agent.state, agent.action
        self.previous = left[-1] if left else -1
        self.policy = agent.memory.next_policy.copy()
        self.pair, model = self.state * agent.n_actions + self.action, agent._state.model
        self.forward = isinstance(model, ForwardCounts | PartCounts)
        self.parts = model.latest.size if isinstance(model, PartCounts) else 1
        self.new = self.forward and bool(model.counts.total[self.pair * self.parts] == 0)

    def causes(self, i: int, ended: bool) -> tuple[str, ...]:
        """Every cause of a small λ of reward component i, most telling first; () if none is known."""
        source = self.agent.lambda_source
        inputs = self.agent.inputs
        found = self._exploration(source, inputs, ended), self._chance(source, inputs, i), self._junction(inputs)
        return tuple(text for text in found if text)

    def _exploration(self, source: Any, inputs: frozenset[str], ended: bool) -> str:
        sarsa = self.agent.bootstrap == SARSA and not isinstance(source, WatkinsLambda)
        modelled = bool(inputs & FORWARD)
        if sarsa:
            reads = modelled and not ended and getattr(source, "policy_noise", False)
            reads = reads and not isinstance(source, ValueLambda)
        else:
            reads = "policy" in inputs and (modelled or isinstance(source, WatkinsLambda))
        if not reads:
            return ""
        policy = self.agent.memory.next_policy if sarsa else self.policy
        if inputs & {"overlaps", "outcomes"}:
            same = float((policy**2).sum())
            return f"exploration: two draws from the policy agree with probability {same:.2g}" if same < BREAK else ""
        action = self.agent.action if sarsa else self.action
        probable = float(policy[action])
        if not probable < (BREAK if modelled else float(policy.max())):
            return ""
        which = "the next action" if sarsa else "the action"
        kind = f"{which} was a random one" if probable < policy.max() else f"{which} is one of several"
        return f"exploration: {kind}, of probability {probable:.2g}"

    def _chance(self, source: Any, inputs: frozenset[str], i: int) -> str:
        agent = self.agent
        model: Any = agent._state.model
        if not self.forward or not inputs & FORWARD:
            return ""
        in_parts, counts = isinstance(model, PartCounts), model.counts
        origin = self.pair * self.parts + (i if in_parts else 0)
        seen = counts.pairs[: int(counts.size[0])]
        outcomes = seen[seen[:, ORIGIN] == origin]
        if self.new:
            literal = getattr(source, "literal", False)
            return "first visit: this action was new in this state" if counts.prior[0] > 0.0 or literal else ""
        share = outcomes[:, NUMBER] / max(int(counts.total[origin]), 1)
        if inputs & {"overlaps", "outcomes"}:
            likely = float((share**2).sum())
        else:
            came = model.value[i] if in_parts else counts.pairs[model.latest[0], TARGET]
            likely = float(share[outcomes[:, TARGET] == came].sum())
        if len(outcomes) < 2 or likely >= CERTAIN:
            return ""
        cells = agent.features is not None or isinstance(agent.indexer, Discretise | Codebook)
        text = f"{'cells' if cells else 'chance'}: {len(outcomes)} outcomes of this action are known"
        if in_parts or agent.percept != "state":
            return text
        worth = self._worth(outcomes[:, TARGET])
        if isinstance(source, ValueLambda) and worth.max() == worth.min():
            return ""
        ends = dict.fromkeys((f"{worth.min():.2g}", f"{worth.max():.2g}"))
        return f"{text}, worth {' to '.join(ends)}"

    def _worth(self, states: np.ndarray) -> np.ndarray:
        """V(x'), or max_a Q(x', a); reward components summed."""
        values = self.agent.tables.values.sum(axis=1)
        if self.agent.bootstrap == STATE:
            return values[states]
        return values.reshape(-1, self.agent.n_actions)[states].max(axis=1)

    def _junction(self, inputs: frozenset[str]) -> str:
        agent, counts = self.agent, self.agent.counts
        backward = isinstance(agent._state.model, BackwardCounts) and "predecessors" in inputs
        if self.previous < 0 or counts is None or not backward:
            return ""
        seen = counts.pairs[: int(counts.size[0])]
        ways = np.count_nonzero(seen[:, ORIGIN] == (self.pair if agent.bootstrap == SARSA else self.state))
        return f"junction: {ways} ways lead into this state" if ways > 1 else ""
