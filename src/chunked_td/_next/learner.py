"""Learners on the linked core: what `chunked_td.learners.learner.Learner` is, with other entries beneath.

A step is one call. Where Python has a part in it, that part comes before or between the entries:

- a model object is asked before the step: its answers depend on neither a_{t+1} nor δ_t, and lie in arrays then;
- a λ source in plain Python comes between `step_before_lambda` and `step_after_lambda`;
- an action that is given, and a factor of λ_t (Retrace), are arguments of the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chunked_td as ctd
from chunked_td._next import core
from chunked_td._next.arrays import Packed, fixed, reader
from chunked_td._next.core import CUT, FREE, ONGOING, TERMINATED, TRUNCATED, Work
from chunked_td._next.link import link
from chunked_td._next.pcg import Draws
from chunked_td._next.program import Program, parts_of
from chunked_td._next.run import NO_STREAM, with_stream
from chunked_td.bootstraps import STATE
from chunked_td.lambdas.plain import checked_lambda
from chunked_td.learners import learner as present
from chunked_td.learners import sutton_singh
from chunked_td.learners.inputs import check_action, check_end
from chunked_td.learners.learner import in_use
from chunked_td.learners.python_steps import _ask, _plain_step
from chunked_td.learners.schedule import at_episode
from chunked_td.learners.state import build_state, with_states
from chunked_td.models.errors import ModelError
from chunked_td.models.predictions import Predictions
from chunked_td.policies import GIVEN
from chunked_td.seeding import split_seed

_ROOM = 64  # transitions to make room for at a time


class Linked(present.Learner):
    """The learner; its public face is that of `Learner`."""

    compiled = True
    _program: Program | None = None

    # ---- set-up

    def _build(self) -> Any:
        model: Any = self.model if isinstance(self.model, ModelError) else "counts"
        if self._asks_model():
            parts = present.Needs.PARTS in self.lambda_source.needs_with(self.bootstrap)
            model = Predictions.empty(self.n_actions, len(self.indexer.nvec or (1,)) if parts else 1)
        given = self.bootstrap == STATE and not isinstance(self.policy, str)
        state = build_state(
            self, self.n_actions, self.indexer.nvec, self._capacity, _ROOM, NO_STREAM, model=model,
            known_states=self.indexer.size, policy=GIVEN if given else None,
        )  # fmt: skip
        return fixed(with_stream(state, self.plan_draws))

    @property
    def error(self) -> ModelError | None:
        """What is wrong with the count models, if anything."""
        return self.model if isinstance(self.model, ModelError) else None

    def _allocate(self) -> None:
        seeds = split_seed(self.seed)
        self._capacity = max(self.indexer.size, _ROOM)
        self.policy_draws, self.chunk_draws, self.plan_draws = map(Draws.of, seeds[1:])
        self._state = self._build()
        self.percepts = {}
        self.episode, self.state, self.action = 0, -1, -1
        self.env_state = self.trained_in = self._unfinished_in = self._copies = None
        self._mask_seen = False
        self._cut = 1.0
        self._reward, self._rates = np.zeros(self.n_paid), np.array([0.0, 0.0, 1.0])
        self._all_legal, self._legal_now = np.ones(self.n_actions, bool), np.ones(self.n_actions, bool)
        self._all_shown = True
        self._room, self._packed, self._program = 0, None, None
        self._busy = self._training = False

    def _set_plan_draws(self, draws: Any) -> None:
        self.plan_draws = draws
        self._state, self._packed = with_stream(self._state, draws), None

    def _grow_states(self) -> None:
        self._capacity = 2 * max(self.indexer.size, self._capacity)
        settings = self.lambda_source, self.exploration, self.planner, self.initial_value
        self._state, self._packed = with_states(self._state, self._capacity, *settings), None

    def _entries(self) -> Any:
        """The learner's arrays by address, with its entries; made anew where arrays have moved."""
        if self._packed is None:
            self._packed = self._pack()
        return self._packed

    def _pack(self) -> Any:
        streams = self.policy_draws.stream, self.chunk_draws.stream
        tree = Work.of(self._state, *streams, self._reward, self._rates, self._legal_now)
        packed: Any = Packed(tree, self.compiled)
        source = self.lambda_source if self.lambda_source.is_compiled else None
        packed.program = self._program_for(tree, parts_of(self._state, source, self))
        in_python = not self.lambda_source.is_compiled
        packed.step = packed.program(core.step, 6) if not in_python else None
        return packed

    def _program_for(self, tree: Any, parts: Any) -> Program:
        """The entries; those of before where arrays have moved and no type has changed."""
        text, before = reader(tree)[0], self._program
        if before is None or before.form != text or {**parts, "rng": before.parts["rng"]} != before.parts:
            before = self._program = Program(tree, parts, compiled=self.compiled)
        return before

    # ---- one transition at a time

    def start(self, observation: Any, info: Any = None, *, action: int | None = None) -> int:
        if self._busy:
            raise in_use(self)
        self._busy = True
        try:
            self._check_watch()
            legal = self._legal(info)
            given = FREE
            if action is not None:
                given = check_action("action", action, self.n_actions, self.action_start, legal)
            state = self._index(observation)
            self._given_policy(observation, legal)
            self._abandon()
            self._rates[:2] = at_episode(self.exploring_rate, self.episode), at_episode(self.step_size, self.episode)
            self._show_legal(legal)
            self.state, self.action = state, self._begin(state, given)
            return self.action + self.action_start
        finally:
            self._busy = False

    def _show_legal(self, legal: np.ndarray) -> None:
        """Write down the legal actions for the entries, unless they are all legal and were so before."""
        if legal is not self._all_legal or not self._all_shown:
            self._legal_now[:] = legal
            self._all_shown = legal is self._all_legal

    def _begin(self, state: int, given: int) -> int:
        packed = self._entries()
        enter = packed.step or packed.program(core.step, 6)
        return int(enter(packed.address, -1, -1, state, 0, ONGOING, given))

    def step(
        self, reward: Any, observation: Any, terminated: bool, truncated: bool = False, info: Any = None, *,
        action: int | None = None, next_action: int | None = None,
    ) -> int | None:  # fmt: skip
        if self._busy:  # nothing is called between these two lines, so no other thread can come in between
            raise in_use(self)
        self._busy = True
        try:
            if self.state < 0:
                raise RuntimeError("step() before start(): begin every episode with action = agent.start(observation)")
            if type(terminated) is not bool or type(truncated) is not bool:
                terminated, truncated = check_end("terminated", terminated), check_end("truncated", truncated)
            if action is not None:
                self._check_credited(action)
            self._take_reward(reward)
            ended = TERMINATED if terminated else (TRUNCATED if truncated else ONGOING)
            legal = self._all_legal if info is None or ended == TERMINATED else self._legal(info)
            given = FREE
            if next_action is not None and ended == ONGOING:
                given = check_action("next_action", next_action, self.n_actions, self.action_start, legal)
            state = self._index(observation)
            self._room -= 1
            if self._room < 0:
                self._make_room()
            if self.policy is not None and ended != TERMINATED:
                self._given_policy(observation, legal)
            percept = state if self.percept == "state" else self._percept(state)
            self._show_legal(legal)
            chosen = self._update(state, percept, legal, ended, given)
            if ended:
                self._finish()
                return None
            self.state, self.action = state, int(chosen)
            return self.action + self.action_start
        finally:
            self._busy = False

    def _update(self, state: int, percept: int, legal: np.ndarray, ended: int, given: Any) -> int:
        """Learn from the transition to `state`; returns the next action, or −1."""
        if type(self._state.model) is Predictions:
            _ask(self, state, ended)  # the answers may need more room
        packed: Any = self._packed or self._entries()
        here = packed.address, self.state, self.action, state, percept, ended, given
        if packed.step is not None:
            self._rates[CUT] = self._cut
            return packed.step(*here)
        return self._step_in_python(packed, here)

    def _step_in_python(self, packed: Any, here: tuple[Any, ...]) -> int:
        """A step whose λ comes from a source that is plain Python.

        An error in the user's code leaves the learner as it was, apart from what models have observed and an
        exploration has counted.
        """
        source: Any = self.lambda_source
        words, policy = self.policy_draws.stream.words.copy(), self.memory.next_policy.copy()
        try:
            action = int(packed.program(core.step_before_lambda, 6)(*here))
            given = source.lambda_t(_plain_step(self, here[3], here[4], action, here[5]))
            self.memory.lambda_t[:] = self._cut * checked_lambda(self.lambda_source, given, self.n_rewards)
        except BaseException:
            self.policy_draws.stream.words[:] = words
            self.memory.next_policy[:] = policy
            raise
        return int(packed.program(core.step_after_lambda, 7)(*here, action))

    def _finish(self) -> None:
        if self.trace is None or self._state.episode is not None:
            packed = self._entries()
            packed.program(core.end, 0)(packed.address)
        self._check_watch()
        self._forget()

    def _make_room(self) -> None:
        self._check_watch()  # for episodes that do not end
        larger = present.with_room(self._state, _ROOM)
        if larger is not self._state:
            self._state, self._packed = larger, None
        self._room = _ROOM - 1

    # ---- read-only queries

    def act(self, observation: Any, info: Any = None, *, explore: bool = False) -> int:
        legal = self._legal(info)
        if explore or self.bootstrap == STATE:
            probabilities = self.policy_probabilities(observation, info)
            return self.policy_draws.choice(self.n_actions, probabilities) + self.action_start
        values = np.where(legal, self.q_values(observation), -np.inf)
        return int(np.argmax(values)) + self.action_start


class _Averaging(Linked):
    """Sutton and Singh's learners on the linked core; the rest of them is `SuttonSingh`'s."""

    def _begin(self, state: int, given: int) -> int:
        return self._select(True) if given < 0 else given

    def _select(self, acting: bool) -> int:
        packed = self._entries()
        return int(packed.program(core.select, 2)(packed.address, max(self.state, 0), int(acting)))

    def _update(self, state: int, percept: int, legal: np.ndarray, ended: int, given: Any) -> int:
        action = -1 if given < 0 else given
        if ended != TERMINATED and given < 0:
            action = self._select(ended == ONGOING)
        own: Any = self
        learned = self.tables.values, self.trace, own.counts, own.stale
        averages = sutton_singh.Averages(*learned, own._scratch, self._state.watch)
        terminated = ended == TERMINATED
        learn = link(sutton_singh.sutton_singh_step, {}, compiled=self.compiled)
        pair = learn(averages, own.algorithm, self.discount, self.state, state, self._reward, terminated)
        if own.algorithm == sutton_singh.CORRECTED and not terminated:
            own.visited.append((int(pair), state))
        return action


def _linked(cls: Any) -> Any:
    """The learner of this name on the linked core."""
    if issubclass(cls, sutton_singh.SuttonSingh):
        own = {name: vars(_Averaging)[name] for name in ("_begin", "_select", "_update")}
        return type(cls.__name__, (cls, Linked), {**own, "__doc__": cls.__doc__, "__module__": __name__})
    return type(cls.__name__, (Linked, cls), {"__doc__": cls.__doc__, "__module__": __name__})


LEARNERS: dict[str, Any] = {name: _linked(getattr(ctd, name)) for name in ctd.LEARNERS}
