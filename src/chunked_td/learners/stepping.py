"""One transition at a time: what `start` and `step` check, and the compiled update that they call."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np

from chunked_td.learners.divergence import Diverged, divergence_text
from chunked_td.learners.entries import EMPTY
from chunked_td.learners.inputs import (
    check_action,
    check_end,
    check_id,
    check_reward,
    check_reward_vector,
    legal_actions,
    policy_row,
)
from chunked_td.learners.python_steps import advance_in_python
from chunked_td.learners.schedule import Schedule, at_episode
from chunked_td.learners.storage import Storage
from chunked_td.learners.update import ONGOING, TERMINATED, TRUNCATED
from chunked_td.models.asked import Answers

LOG = logging.getLogger("chunked_td")
"""What a learner says by itself. Python prints it to standard error unless `logging` is told otherwise."""


class Stepping(Storage):
    """A learner as a loop of the user's own sees it."""

    step_size: float | Schedule
    percept: str
    action_mask: bool | None
    reward_weights: np.ndarray | None
    _reward: np.ndarray

    def start(self, observation: Any, info: dict[str, Any] | None = None, *, action: int | None = None) -> int:
        """Begin an episode; returns the first action.

        An episode that was under way is abandoned without its updates at the end.

        Args:
          observation, info: as returned by `env.reset`. `info["action_mask"]` is obeyed, see `action_mask`.
          action: the first action, where it is not the learner's to choose (recorded episodes).
        """
        if self._busy:
            raise in_use(self)
        self._busy = True
        try:
            return self._start(observation, info, action)
        finally:
            self._busy = False

    def _start(self, observation: Any, info: dict[str, Any] | None, action: int | None) -> int:
        self._check_watch()
        legal = self._legal(info)
        given = None if action is None else check_action("action", action, self.n_actions, self.action_start, legal)
        state = self._index(observation)
        self._given_policy(observation, legal)
        self._abandon()
        self._rates[:] = at_episode(self.exploring_rate, self.episode), at_episode(self.step_size, self.episode)
        self.policy_draws.reserve(1)
        places, entries = self._entries()
        if given is None:
            self.state, self.action = state, int(entries.start(places, state, legal))
            return self.action + self.action_start
        entries.select(places, state, legal, False)  # the policy's probabilities, and no draw
        self.memory.policy[:] = self.memory.next_policy if self.rule.keeps_policy.value else np.nan
        self.state, self.action = state, given
        return given + self.action_start

    def step(
        self,
        reward: Any,
        observation: Any,
        terminated: bool,
        truncated: bool = False,
        info: dict[str, Any] | None = None,
        *,
        action: int | None = None,
        next_action: int | None = None,
    ) -> int | None:
        """Learn from a transition; returns the next action, or None at the end of an episode.

        The transition is credited to the action that `start` or the previous `step` returned. Where another one was
        taken, as in recorded episodes, say it in advance: `start(…, action=…)`, `step(…, next_action=…)`; or use
        `learn_from`.

        Args:
          reward: a finite number, or float[d] where rewards have components.
          observation, terminated, truncated, info: as returned by `env.step`. `info["action_mask"]` is obeyed, see
            `action_mask`.
          action: the action that led here. It is checked: an error if it is not the one that would be credited.
          next_action: the action taken in `observation`, where it is not the learner's to choose.
        """
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
            given = None
            if next_action is not None and ended == ONGOING:
                given = check_action("next_action", next_action, self.n_actions, self.action_start, legal)
            state = self._index(observation)
            self._room -= 1
            if self._room < 0:
                self._make_room()
            if self.planner is not None:
                self.plan_draws.reserve(self.planner.draws)
            if self.policy is not None and ended != TERMINATED:
                self._given_policy(observation, legal)
            percept = state if self.percept == "state" else self._percept(state)
            chosen = self._update(state, percept, legal, ended, given)
            if ended:
                self._finish()
                return None
            self.state, self.action = state, int(chosen)
            return self.action + self.action_start
        finally:
            self._busy = False

    def _check_credited(self, action: int) -> None:
        if action != self.action + self.action_start:
            raise ValueError(
                f"action: got {action!r}, but the learner chose {self.action + self.action_start} and would credit "
                f"that; say what is taken in advance, start(…, action=…) and step(…, next_action=…), or use learn_from"
            )

    def _update(self, state: int, percept: int, legal: np.ndarray, ended: int, given: int | None) -> int:
        """Learn from the transition to `state`; returns the next action, or −1."""
        in_python = self._state.source is None or type(self._state.model) is Answers
        if in_python or given is not None or self._cut != 1.0:
            return advance_in_python(self, state, percept, legal, ended, given)
        places, entries = self._entries()
        action = entries.step(places, self.state, self.action, state, percept, legal, ended)
        if action == EMPTY:
            self.policy_draws.reserve(1)
            action = entries.step(places, self.state, self.action, state, percept, legal, ended)
        return action

    def _finish(self) -> None:
        """Make the updates that wait for the end of an episode."""
        if self.trace is None or self._state.episode is not None:
            coins = self.chunk_draws.stream
            if self.view == "sampled" and self.chunk_draws.reserve(int(self.memory.length[0])) is not coins:
                self._packed = None
            places, entries = self._entries()
            entries.finish(places, self._rates[1])
        self._check_watch()
        self._forget()

    def _check_watch(self) -> None:
        """Refuse to go on where learning has diverged."""
        watch = self._state.watch[0]
        if watch:
            reason = divergence_text(int(watch), float(self._rates[1]), self.lambda_source)
            raise Diverged(f"learning diverged in episode {self.episode}: {reason}")

    def _abandon(self) -> None:
        """Leave an unfinished episode without the updates at its end. It counts for the schedules."""
        if self.state >= 0:
            self._forget()

    def _forget(self) -> None:
        """Nothing of this episode is carried into the next."""
        if self.trace is not None:
            self.trace.clear()
        self.memory.length[0], self.memory.previous[0] = 0, -1
        if self._state.episode is not None:
            self._state.episode.length[0] = 0
        self.state = self.action = -1
        self._unfinished_in = None
        self.episode += 1

    def _take_reward(self, reward: Any) -> None:
        if self.n_paid == 1:
            value = reward if type(reward) is float else check_reward(reward)
            if not math.isfinite(value):
                raise ValueError(f"reward must be finite, got {reward!r}")
            self._reward[0] = value
        else:
            self._reward[:] = check_reward_vector(reward, self.n_paid)
        if self.reward_weights is not None:
            self._reward *= self.reward_weights

    def _legal(self, info: dict[str, Any] | None) -> np.ndarray:
        mask = None if info is None or self.action_mask is False else info.get("action_mask")
        if mask is None:
            return self._all_legal
        legal = legal_actions(mask, self.n_actions)
        if not self._mask_seen and not legal.all():
            self._mask_seen = True
            if self.action_mask is None:
                LOG.warning(
                    "chunked_td: info['action_mask'] is obeyed: forbidden actions are never taken. action_mask=False "
                    "ignores it, action_mask=True says no more"
                )
        return legal

    def _given_policy(self, observation: Any, legal: np.ndarray) -> None:
        """Write a user's policy for this observation where the kernels expect it."""
        if self.policy is not None and not isinstance(self.policy, str):
            self.memory.next_policy[:] = self._given_row(observation, legal)

    def _given_row(self, observation: Any, legal: np.ndarray) -> np.ndarray:
        """A user's policy for this observation, over the legal actions."""
        given: Any = self.policy
        row = given(observation) if callable(given) else given[self.indexer.find(observation)]
        return policy_row(row, legal)

    def _index(self, observation: Any) -> int:
        state = self.indexer(observation)
        if type(state) is int and 0 <= state < self._capacity:
            return state
        state = check_id(state, self.indexer)
        if state >= self._capacity:
            self._grow_states()
        return state

    def _percept(self, state: int) -> int:
        """An id for the pair of reward and state."""
        return self.percepts.setdefault((*self._reward.tolist(), state), len(self.percepts))


def in_use(agent: Any) -> RuntimeError:
    """The error where a learner is called while it is in the middle of something."""
    return RuntimeError(
        f"{type(agent).__name__} is in use: it was called in the middle of a step or of learn, by another thread or by "
        f"its own model, policy or λ source. A learner serves one thread; give others a copy (copy.deepcopy)"
    )
