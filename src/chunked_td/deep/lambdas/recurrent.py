"""Percept model with memory: λ is a probability of the next percept given the whole history, in the forms of
`DeepPercepts`.

A streaming agent with a `RecurrentMemory` has such a model already, and λ comes from it. On rollouts (PPO,
`RolloutLambda`) the source trains a model of its own: it reads a rollout from where the one before ended, and learns
from windows of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chunked_td._checks import check_choice, check_whole
from chunked_td.deep.lambdas.base import DeepLambda, SourceSizes, Transitions
from chunked_td.deep.lambdas.percepts import FORMS
from chunked_td.deep.recurrent import PerceptWindow, RecurrentModel, RecurrentPercepts


class RolloutMemory(NamedTuple):
    """The model, and (state, action before) at both ends of the latest rollout: [B, hidden], [B, A]."""

    model: RecurrentModel
    begin: tuple[jax.Array, jax.Array]
    end: tuple[jax.Array, jax.Array]


@dataclass(frozen=True)
class DeepRecurrent(DeepLambda):
    """The recurrent percept model.

    Args:
      form: "expected" or "realised". model: settings of the network, and window: steps per update; both for rollouts
      only, since agents with a memory bring their own.
    """

    form: str = "expected"
    model: RecurrentPercepts = field(default_factory=RecurrentPercepts)
    window: int = 16

    def __post_init__(self) -> None:
        check_choice("form", self.form, FORMS)
        check_whole("window", self.window, 1)

    @property
    def needs_memory(self) -> bool:
        """A single transition holds no history."""
        return True

    def init(self, key: jax.Array, sizes: SourceSizes) -> Any:
        """Nothing where the agent has a memory."""
        if sizes.memory:
            return ()
        ends = (jnp.zeros((sizes.batch, self.model.hidden)), jnp.zeros((sizes.batch, sizes.n_actions)))
        return RolloutMemory(self.model.init(key, sizes), ends, ends)

    def learn(self, state: Any, transitions: Transitions) -> Any:
        """An update per window of the rollout; the last window may be shorter."""
        if state == ():
            return state
        whole, model = _window(state.end, transitions), state.model
        hidden = state.end[0]
        for first in range(0, len(whole.action), self.window):
            part = jax.tree.map(lambda x, first=first: x[first : first + self.window], whole)
            model = self.model.learn(model, hidden, part)
            hidden = self.model.unroll(model, hidden, part)[-1]
        last = jax.nn.one_hot(transitions.action[-1], transitions.policy.shape[-1])
        return RolloutMemory(model, state.end, (hidden, last))

    def lambdas(self, state: Any, transitions: Transitions) -> jax.Array:
        """In the form chosen, of the rollout that was learned last."""
        if state == ():
            if transitions.recalled is None:
                raise ValueError("recalled: got none; an agent with a memory says what it expected")
            return transitions.recalled[FORMS.index(self.form)]
        return self._both(state.model, state.begin, transitions)[FORMS.index(self.form)]

    def check(self, state: Any, transitions: Transitions) -> tuple[jax.Array, jax.Array]:
        """As `DeepPercepts.check`, of a rollout that has not been learned."""
        taken = jax.nn.one_hot(transitions.action, transitions.policy.shape[-1])
        realised, expected = self._both(state.model, state.end, transitions._replace(policy=taken))
        return expected, realised

    def _both(self, model: RecurrentModel, ends: Any, transitions: Transitions) -> tuple[jax.Array, jax.Array]:
        states = self.model.unroll(model, ends[0], _window(ends, transitions))
        return self.model.forms(model, states, transitions, transitions.inputs)


def _window(ends: tuple[jax.Array, jax.Array], t: Transitions) -> PerceptWindow:
    """A rollout as a window; the action before its first step comes from the rollout before."""
    actions = jax.nn.one_hot(t.action, t.policy.shape[-1])
    before = jnp.where(t.start[..., None], 0.0, jnp.concatenate([ends[1][None], actions[:-1]]))
    return PerceptWindow(t.inputs, before, t.start, t.action, t.next_codes, t.valid)
