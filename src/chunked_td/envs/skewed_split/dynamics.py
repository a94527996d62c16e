"""Skewed split, a control problem of this package: the smallest one in which an outcome-dependent λ biases the values.

A certain lead-in, then a branch: A, with probability p, has reward 0, and B has reward R. A learner whose λ is the
probability of the sampled outcome weights A's errors by p and B's by 1 − p. It converges to V(s₀) ≠ V^π even with a
perfect model. For p = 0.9 and R = 10, V^π(s₀) = 1 and the fixed point of Chunked-TD (Alg. 1) is 0.28.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_finite, check_probability, check_whole
from chunked_td._link import kernel
from chunked_td.envs.protocol import Outcome, begin_at_zero
from chunked_td.seeding import Stream, uniform


class SkewedSplit(NamedTuple):
    """Dynamics of the skewed split. Build with `SkewedSplit.make`.

    One state component: 0..length along the lead-in, with the branch at its end; length + 1 is A and length + 2 is B.
    Every state has one action.
    """

    length: int
    likely: float  # probability of A
    prize: float  # reward of B

    @classmethod
    def make(cls, probability: float = 0.9, reward: float = 10.0, length: int = 1) -> SkewedSplit:
        """Check the sizes and build the dynamics; the arguments are those of `chunked_td.envs.SkewedSplitEnv`."""
        length = check_whole("length", length, 0)
        return cls(length, check_probability("probability", probability), check_finite("reward", reward))

    @property
    def nvec(self) -> tuple[int, ...]:
        """One component."""
        return (self.length + 3,)

    n_actions = 1  # one action in every state
    n_rewards = 1  # a scalar reward
    reset = kernel(begin_at_zero)
    draws = 1  # the branch takes one number

    @property
    def horizon(self) -> int:
        """The lead-in and the branch."""
        return self.length + 1

    @kernel
    def step(env: Any, rng: Stream, state: np.ndarray, action: int, reward: np.ndarray) -> bool:
        """Follow the lead-in, then branch."""
        s = state[0]
        reward[0] = 0.0
        if s < env.length:
            state[0] = s + 1
            return False
        if uniform(rng) < env.likely:
            state[0] = s + 1
        else:
            state[0] = s + 2
            reward[0] = env.prize
        return True

    @kernel
    def legal(env: Any, state: np.ndarray) -> int:
        """Count the actions: always one."""
        return 1

    @kernel
    def probability(env: Any, state: np.ndarray, action: int, next_state: np.ndarray, out: np.ndarray) -> None:
        """Write P(s' | s) into out[0]."""
        s, s_next = state[0], next_state[0]
        out[0] = 0.0
        if s < env.length:
            out[0] = 1.0 if s_next == s + 1 else 0.0
        elif s == env.length and s_next == s + 1:
            out[0] = env.likely
        elif s == env.length and s_next == s + 2:
            out[0] = 1.0 - env.likely

    def outcomes(self, state: tuple[int, ...], action: int) -> list[Outcome]:
        """List the transitions out of `state`."""
        (s,) = state
        if s > self.length:
            return []
        if s < self.length:
            return [(1.0, (s + 1,), (0.0,), False)]
        branches = [(self.likely, (s + 1,), (0.0,), True), (1 - self.likely, (s + 2,), (self.prize,), True)]
        return [branch for branch in branches if branch[0] > 0]
