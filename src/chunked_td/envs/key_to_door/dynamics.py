"""Key-to-Door with factored rewards (Section 4.3, App. A.3): an early choice, distractors, and a late reward."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_finite, check_flag, check_whole
from chunked_td._link import kernel
from chunked_td.envs.protocol import Outcome, begin_at_zero
from chunked_td.seeding import Stream, uniform

PICK_KEY, UNLOCK = 0, 1


class KeyToDoor(NamedTuple):
    """Dynamics of Key-to-Door. Build with `KeyToDoor.make`.

    State (key, door, d₁..d_n, treasure, time). Every state has two actions: "pick key" sets `key` at time 0; `door` is
    on at time H−1, where "unlock" with the key sets `treasure`. Every episode ends at time H. The distractors are
    independent fair coins at every time step except 0, H−1 and H, where they are off. The paper does not define the
    distractors of a final state without treasure; with "off" its numbers are reproduced.

    One reward per state component: the next state, weighted by 0.01/n for each distractor and 0.01 for the treasure.
    With `scalar_reward` the reward is their sum.
    """

    horizon: int
    distractors: int
    scalar_reward: bool
    weights: np.ndarray  # float64[n + 4]

    @classmethod
    def make(
        cls,
        horizon: int = 100,
        distractors: int = 4,
        treasure_reward: float = 0.01,
        distractor_reward: float = 0.01,
        scalar_reward: bool = False,
    ) -> KeyToDoor:
        """Check the sizes and build the dynamics; the arguments are those of `chunked_td.envs.KeyToDoorEnv`."""
        horizon, distractors = check_whole("horizon", horizon, 2), check_whole("distractors", distractors, 0, 32)
        each = check_finite("distractor_reward", distractor_reward) / max(distractors, 1)
        treasure = check_finite("treasure_reward", treasure_reward)
        weights = np.array([0.0, 0.0] + [each] * distractors + [treasure, 0.0])
        return cls(horizon, distractors, check_flag("scalar_reward", scalar_reward), weights)

    @property
    def nvec(self) -> tuple[int, ...]:
        """Key, door, distractors, treasure, time."""
        return (2,) * (self.distractors + 3) + (self.horizon + 1,)

    n_actions = 2  # pick key (0) and unlock (1)
    reset = kernel(begin_at_zero)  # at time 0 with everything off

    @property
    def n_rewards(self) -> int:
        """One per state component, or their sum."""
        return 1 if self.scalar_reward else self.distractors + 4

    draws = 1  # the leading bits of one number are the coins of a step

    @kernel
    def step(env: Any, rng: Stream, state: np.ndarray, action: int, reward: np.ndarray) -> bool:
        """Apply the action, toss the coins, and write the reward of the next state."""
        n, h = env.distractors, env.horizon
        t = state[n + 3] + 1
        if t == 1 and action == PICK_KEY:
            state[0] = 1
        state[1] = 1 if t == h - 1 else 0
        coins = int(uniform(rng) * (1 << n)) if t < h - 1 else 0
        on = 0
        for i in range(n):
            coin = (coins >> i) & 1
            on += coin
            state[2 + i] = coin
            if not env.scalar_reward:
                reward[2 + i] = coin * env.weights[2 + i]
        opened = 1 if t == h and action == UNLOCK and state[0] == 1 else 0
        state[n + 2] = opened
        state[n + 3] = t
        if env.scalar_reward:
            reward[0] = on * env.weights[2] + opened * env.weights[n + 2]
        else:
            reward[0] = 0.0
            reward[1] = 0.0
            reward[n + 2] = opened * env.weights[n + 2]
            reward[n + 3] = 0.0
        return t == h

    @kernel
    def legal(env: Any, state: np.ndarray) -> int:
        """Count the actions: always two."""
        return 2

    @kernel
    def miss(env: Any, first_action: int, state: np.ndarray) -> bool:
        """Whether the episode ended without the treasure."""
        return state[env.distractors + 2] == 0

    @kernel
    def probability(env: Any, state: np.ndarray, action: int, next_state: np.ndarray, out: np.ndarray) -> None:
        """Write the probability of each component's next value into `out`."""
        n, h = env.distractors, env.horizon
        t = state[n + 3] + 1
        key = 1 if t == 1 and action == PICK_KEY else state[0]
        opened = 1 if t == h and action == UNLOCK and state[0] == 1 else 0
        out[0] = 1.0 if next_state[0] == key else 0.0
        out[1] = 1.0 if next_state[1] == (1 if t == h - 1 else 0) else 0.0
        for i in range(2, n + 2):
            out[i] = 0.5 if t < h - 1 else (1.0 if next_state[i] == 0 else 0.0)
        out[n + 2] = 1.0 if next_state[n + 2] == opened else 0.0
        out[n + 3] = 1.0 if next_state[n + 3] == t else 0.0

    def outcomes(self, state: tuple[int, ...], action: int) -> list[Outcome]:
        """List the transitions of (state, action), from the definition in App. A.3."""
        key, time = state[0], state[-1]
        if time == self.horizon:
            return []
        at_door = time == self.horizon - 1
        treasure = int(at_door and key == 1 and action == UNLOCK)
        if time == 0:
            key = int(action == PICK_KEY)
        door = int(time + 1 == self.horizon - 1)
        noisy = time + 1 < self.horizon - 1
        tosses = itertools.product((0, 1), repeat=self.distractors) if noisy else [(0,) * self.distractors]
        chance_of_toss = 0.5**self.distractors if noisy else 1.0
        successors = [(key, door, *toss, treasure, time + 1) for toss in tosses]
        weights = self.weights.tolist()
        paid = [tuple(x * w for x, w in zip(s, weights, strict=True)) for s in successors]
        if self.scalar_reward:
            paid = [(sum(r),) for r in paid]
        return [(chance_of_toss, s, r, at_door) for s, r in zip(successors, paid, strict=True)]
