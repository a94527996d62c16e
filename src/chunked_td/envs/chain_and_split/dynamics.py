"""Chain-and-Split (Section 4.1, App. A.1): a certain distant reward against a noisy near one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_finite, check_whole
from chunked_td._link import kernel
from chunked_td.envs.protocol import Outcome, begin_at_zero, not_first_action
from chunked_td.seeding import Stream, uniform


class ChainAndSplit(NamedTuple):
    """Dynamics of Chain-and-Split. Build with `ChainAndSplit.make`.

    One state component, numbered: 0 the start; 1..H−1 along the chain and H its end; H+1 the state s_L before the
    split; H+2..H+1+w the leaves. The start offers n actions, every other state one.
    """

    horizon: int
    n_actions: int
    width: int
    chain_reward: float
    leaf_rewards: np.ndarray  # float64[w], evenly spaced on [−1, 1]

    @classmethod
    def make(cls, horizon: int = 20, actions: int = 10, width: int = 101, chain_reward: float = 0.01) -> ChainAndSplit:
        """Check the sizes and build the dynamics; the arguments are those of `chunked_td.envs.ChainAndSplitEnv`."""
        horizon, actions = check_whole("horizon", horizon, 2), check_whole("actions", actions, 2)
        width = check_whole("width", width, 2)
        spaced = np.linspace(-1.0, 1.0, width)
        # Antisymmetric to the last bit, so that the rewards of the leaves sum to exactly zero in pairs.
        leaf_rewards = (spaced - spaced[::-1]) / 2
        return cls(horizon, actions, width, check_finite("chain_reward", chain_reward), leaf_rewards)

    @property
    def nvec(self) -> tuple[int, ...]:
        """One component."""
        return (self.horizon + 2 + self.width,)

    n_rewards = 1  # a scalar reward
    reset = kernel(begin_at_zero)
    miss = kernel(not_first_action)  # does not enter the chain
    draws = 1  # the split takes one number

    @kernel
    def step(env: Any, rng: Stream, state: np.ndarray, action: int, reward: np.ndarray) -> bool:
        """Choose a branch, then follow it."""
        s = state[0]
        reward[0] = 0.0
        if s == 0:
            state[0] = 1 if action == 0 else env.horizon + 1
            return False
        if s < env.horizon:
            state[0] = s + 1
            if s + 1 < env.horizon:
                return False
            reward[0] = env.chain_reward
            return True
        leaf = int(uniform(rng) * env.width)  # below w, even after rounding
        state[0] = env.horizon + 2 + leaf
        reward[0] = env.leaf_rewards[leaf]
        return True

    @kernel
    def legal(env: Any, state: np.ndarray) -> int:
        """Count the actions: n in the start state, one elsewhere."""
        return env.n_actions if state[0] == 0 else 1

    @kernel
    def probability(env: Any, state: np.ndarray, action: int, next_state: np.ndarray, out: np.ndarray) -> None:
        """Write P(s' | s, a) into out[0]."""
        s, s_next = state[0], next_state[0]
        if s == 0:
            out[0] = 1.0 if s_next == (1 if action == 0 else env.horizon + 1) else 0.0
        elif s < env.horizon:
            out[0] = 1.0 if s_next == s + 1 else 0.0
        elif s == env.horizon + 1 and s_next > s:
            out[0] = 1.0 / env.width
        else:
            out[0] = 0.0

    def outcomes(self, state: tuple[int, ...], action: int) -> list[Outcome]:
        """List the transitions of (state, action), from the definition in App. A.1."""
        (s,) = state
        chain_end, split = self.horizon, self.horizon + 1
        if s == chain_end or s > split:
            return []
        if s == split:
            leaves = range(self.width)
            return [(1 / self.width, (split + 1 + j,), (-1 + 2 * j / (self.width - 1),), True) for j in leaves]
        successor = split if s == 0 and action != 0 else s + 1
        pays = self.chain_reward if successor == chain_end else 0.0
        return [(1.0, (successor,), (pays,), successor == chain_end)]
