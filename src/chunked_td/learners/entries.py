"""What Python calls of a learner's compiled code, once per step.

The entry points take the learner by the addresses of its arrays (`chunked_td._numba.layouts.Packed`). One set of them
is compiled per combination of bootstrap, λ source, model and view, on first use.
"""

from __future__ import annotations

import functools
from typing import Any

from chunked_td._numba import Form, entry, read
from chunked_td.learners.update import (
    Arrival,
    Rates,
    advance,
    begin,
    finish,
    known_step,
    observe,
    select_action,
    use_lambda,
    write_lambda,
)
from chunked_td.policies import only_legal

EMPTY = -2
"""Returned instead of an action where the stream of random numbers has run out; nothing has changed then."""


class Entries:
    """The entry points for learners of one form."""

    def __init__(self, form: Form, cached: bool) -> None:
        self.form, self._cached = form, cached

    @functools.cached_property
    def start(self) -> Any:
        """start(places, state, legal): the first action of an episode, or EMPTY."""
        form = self.form

        def start(places, state, legal):
            work = read(places, form)
            if work.rng.position[0] >= work.rng.block.size:
                return EMPTY
            return begin(work.agent, work.rng, state, legal, work.rates[0])

        return entry(start, self._cached)

    @functools.cached_property
    def step(self) -> Any:
        """step(places, state, action, next_state, percept, legal, ended): learn; the next action, −1 or EMPTY."""
        form = self.form

        def step(places, state, action, next_state, percept, legal, ended):
            work = read(places, form)
            if work.rng.position[0] >= work.rng.block.size:
                return EMPTY
            arrival = Arrival(state, action, work.reward, next_state, None, percept, legal, only_legal(legal), ended)
            return advance(work.agent, work.rng, arrival, Rates(work.rates[0], work.rates[1]), None)

        return entry(step, self._cached)

    @functools.cached_property
    def finish(self) -> Any:
        """finish(places, step_size): the end of an episode."""
        form = self.form

        def finish_episode(places, step_size):
            work = read(places, form)
            finish(work.agent, work.coins, step_size)

        return entry(finish_episode, self._cached)

    # ---- the parts of a step, where λ or the model is Python

    @functools.cached_property
    def select(self) -> Any:
        """select(places, state, legal, acting): the next action, −1 or EMPTY."""
        form = self.form

        def select(places, state, legal, acting):
            work = read(places, form)
            if work.rng.position[0] >= work.rng.block.size:
                return EMPTY
            return select_action(work.agent, work.rng, state, legal, only_legal(legal), work.rates[0], acting)

        return entry(select, self._cached)

    @functools.cached_property
    def observe(self) -> Any:
        """observe(places, state, action, next_state, percept, next_action, ended): train count models, write δ_t."""
        form = self.form

        def observe_step(places, state, action, next_state, percept, next_action, ended):
            work = read(places, form)
            step = known_step(work, state, action, next_state, percept, next_action)
            observe(work.agent, step, work.reward, ended)

        return entry(observe_step, self._cached)

    @functools.cached_property
    def write_lambda(self) -> Any:
        """write_lambda(places, state, action, next_state, percept, next_action): λ_t into the memory."""
        form = self.form

        def lambda_of_step(places, state, action, next_state, percept, next_action):
            work = read(places, form)
            write_lambda(work.agent, known_step(work, state, action, next_state, percept, next_action))

        return entry(lambda_of_step, self._cached)

    @functools.cached_property
    def use_lambda(self) -> Any:
        """use_lambda(places, state, action, next_state, percept, next_action, ended): learn from λ_t and δ_t."""
        form = self.form

        def learn_from_step(places, state, action, next_state, percept, next_action, ended):
            work = read(places, form)
            step = known_step(work, state, action, next_state, percept, next_action)
            use_lambda(work.agent, step, ended, work.rates[1])

        return entry(learn_from_step, self._cached)


@functools.cache
def entries_for(form: Form, cached: bool = True) -> Entries:
    """The entry points for learners of this form."""
    return Entries(form, cached)
