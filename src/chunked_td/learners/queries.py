"""Read-only queries of a trained learner: values, policies, greedy actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from chunked_td.bootstraps import STATE
from chunked_td.learners.schedule import Schedule, at_episode
from chunked_td.policies import write_policy

if TYPE_CHECKING:
    from chunked_td.indexing import Indexer
    from chunked_td.learners.exploration import Exploration
    from chunked_td.learners.state import Tables
    from chunked_td.seeding import Draws


class Queries:
    """What can be asked of a learner's tables. `Learner` adds how they are filled."""

    bootstrap: ClassVar[int]
    n_actions: int
    action_start: int
    n_rewards: int
    episode: int
    policy: Any
    initial_value: float
    epsilon: float | Schedule
    exploration: Exploration | None
    indexer: Indexer
    policy_draws: Draws

    @property
    def tables(self) -> Tables:
        """The tables of values."""
        raise NotImplementedError

    def _legal(self, info: dict[str, Any] | None) -> np.ndarray:
        raise NotImplementedError

    def _given_row(self, observation: Any, legal: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def act(self, observation: Any, info: dict[str, Any] | None = None, *, explore: bool = False) -> int:
        """Choose an action without learning: greedy (first of ties), or drawn from the behaviour policy.

        Args:
          observation: what the environment shows. info: what it adds; `info["action_mask"]` is obeyed.
          explore: draw from the behaviour policy with the learner's own random numbers.
        """
        legal = self._legal(info)
        if explore or self.bootstrap == STATE:
            probabilities = self.policy_probabilities(observation, info)
            return int(self.policy_draws.sync().choice(self.n_actions, p=probabilities)) + self.action_start
        values = np.where(legal, self.q_values(observation), -np.inf)
        return int(np.argmax(values)) + self.action_start

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[int, Any]:
        """`act` as Stable-Baselines3 calls it: (action, state); greedy if `deterministic`."""
        return self.act(observation, explore=not deterministic), state

    def policy_probabilities(self, observation: Any, info: dict[str, Any] | None = None) -> np.ndarray:
        """π(·|observation) of the behaviour policy as it stands, float[A]."""
        legal = self._legal(info)
        if self.bootstrap == STATE:
            if isinstance(self.policy, str):
                return legal / legal.sum()
            return self._given_row(observation, legal)
        q = self.q_values(observation)
        if self.exploration is not None:
            return self._explored(observation, legal)
        there = legal & ~np.isnan(q)  # learning may have diverged; then an action without a value is not greedy
        epsilon, greedy = at_episode(self.epsilon, self.episode), legal
        if there.any():
            greedy = there & (q == q[there].max())
        return epsilon * legal / legal.sum() + (1.0 - epsilon) * greedy / greedy.sum()

    @property
    def exploring_rate(self) -> float | Schedule:
        """The number by which the learner explores: ε, or what `exploration` has in its place."""
        return self.epsilon if self.exploration is None else self.exploration.rate_with(self.epsilon)

    def _explored(self, observation: Any, legal: np.ndarray) -> np.ndarray:
        """π(·|observation) of an `Exploration`."""
        state, out = self.indexer.find(observation), np.zeros(self.n_actions)
        form, q = self.tables.exploration, self.q_values(observation, components=True)
        if not self._has_row(state):  # nothing was tried there
            state, sizes = 0, {"S": 1, "A": self.n_actions, "d": self.n_rewards, "rows": self.n_actions}
            form = self.exploration.compiled(sizes)  # type: ignore[union-attr]
        write_policy(form, q, state, legal, at_episode(self.exploring_rate, self.episode), out)
        return out

    def q_values(self, observation: Any, *, components: bool = False) -> np.ndarray:
        """Q(observation, ·), float[A]; with `components`, float[A, d], one number per reward component."""
        if self.bootstrap == STATE:
            raise TypeError(f"{type(self).__name__} learns state values: ask for values(observation)")
        state = self.indexer.find(observation)
        if not self._has_row(state):
            rows = np.full((self.n_actions, self.n_rewards), self.initial_value)
        else:
            rows = self.tables.values[state * self.n_actions : (state + 1) * self.n_actions].copy()
        return rows if components else rows.sum(axis=1)

    def values(self, observation: Any, *, components: bool = False) -> Any:
        """V(observation): learned directly, or Σ_a π(a) Q(observation, a) for action-value learners.

        Args:
          observation: what the environment shows.
          components: one number per reward component, float[d], instead of their sum.
        """
        if self.bootstrap != STATE:
            row = self.policy_probabilities(observation) @ self.q_values(observation, components=True)
        else:
            state = self.indexer.find(observation)
            row = (
                self.tables.values[state].copy()
                if self._has_row(state)
                else np.full(self.n_rewards, self.initial_value)
            )
        return row if components else float(row.sum())

    def _has_row(self, state: int) -> bool:
        """Whether a state has a place in the tables (one just seen may not have it yet)."""
        rows = self.tables.values.shape[0]
        return 0 <= state < (rows if self.bootstrap == STATE else rows // self.n_actions)
