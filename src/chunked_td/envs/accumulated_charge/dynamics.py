"""Accumulated-Charge (Section 4.2, App. A.2): a small bonus for the first action, under accumulated noise."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_finite, check_flag, check_probability, check_whole
from chunked_td._link import kernel
from chunked_td.envs.protocol import Outcome, begin_at_zero, not_first_action
from chunked_td.seeding import Stream, uniform

_GUIDE = 256  # entries of the table of start indices for the search in the distribution function


class AccumulatedCharge(NamedTuple):
    """Dynamics of Accumulated-Charge. Build with `AccumulatedCharge.make`, then `prepare` to draw the charging steps.

    State (first action was a₁, charge, time). A transition that leaves a charging time step adds Binomial(n, p) to the
    charge, n = H/k; the transition to time H has the reward b·[a₁] + c₀·charge − c₀·p·H and ends the episode.
    """

    horizon: int
    points: int
    trials: int
    success: float
    bonus: float
    slope: float  # c₀ after a₁; after a₂ it is −slope
    pmf: np.ndarray  # float64[n + 1], of Binomial(n, p)
    cdf: np.ndarray  # float64[n + 1]
    guide: np.ndarray  # int64[256]: no u with ⌊256·u⌋ = i has a charge below guide[i]
    charging: np.ndarray  # uint8[H], 1 at the charging steps; written by prepare

    @classmethod
    def make(
        cls,
        horizon: int = 200,
        points: int = 10,
        success: float = 0.5,
        bonus: float = 0.1,
        mirrored: bool = False,
    ) -> AccumulatedCharge:
        """Check the sizes and build the dynamics; the arguments are those of `chunked_td.envs.AccumulatedChargeEnv`."""
        horizon, points = check_whole("horizon", horizon, 2), check_whole("points", points, 1)
        if points >= horizon:
            raise ValueError(f"points must be less than horizon = {horizon}, got {points}")
        if horizon % points:
            raise ValueError(f"points must divide horizon = {horizon}, got {points}")
        success, bonus = check_probability("success", success), check_finite("bonus", bonus)
        slope = -0.5 if check_flag("mirrored", mirrored) else 0.5
        pmf = _binomial(horizon // points, success)
        cdf = np.minimum(np.cumsum(pmf), 1.0)
        cdf[-1] = 1.0  # every uniform is below it: the search ends
        guide = np.searchsorted(cdf, np.arange(_GUIDE) / _GUIDE, side="right")
        charging = np.zeros(horizon, dtype=np.uint8)
        return cls(horizon, points, horizon // points, success, bonus, slope, pmf, cdf, guide, charging)

    @property
    def nvec(self) -> tuple[int, ...]:
        """First action, charge, time."""
        return (2, self.horizon + 1, self.horizon + 1)

    n_actions = 2  # two at time 0, one afterwards
    n_rewards = 1  # a scalar reward
    reset = kernel(begin_at_zero)  # at time 0 without charge
    miss = kernel(not_first_action)  # forgoes the bonus

    @property
    def draws(self) -> int:
        """One number per charging step in `prepare`, one per charging step taken."""
        return self.points

    @kernel
    def prepare(env: Any, rng: Stream) -> None:
        """Sample k distinct time steps from 1..H−1, every set equally likely (Floyd's method)."""
        env.charging[:] = 0
        for last in range(env.horizon - env.points, env.horizon):
            t = 1 + int(uniform(rng) * last)
            env.charging[last if env.charging[t] else t] = 1

    @kernel
    def step(env: Any, rng: Stream, state: np.ndarray, action: int, reward: np.ndarray) -> bool:
        """Record the first action or add charge; give the reward at time H."""
        t = state[2]
        state[2] = t + 1
        reward[0] = 0.0
        if t == 0:
            state[0] = 1 - action
        elif env.charging[t]:
            u = uniform(rng)
            charge = env.guide[int(u * _GUIDE)]
            while u >= env.cdf[charge]:
                charge += 1
            state[1] += charge
        if t + 1 < env.horizon:
            return False
        surplus = env.slope * (state[1] - env.success * env.horizon)
        reward[0] = env.bonus + surplus if state[0] == 1 else -surplus
        return True

    @kernel
    def legal(env: Any, state: np.ndarray) -> int:
        """Count the actions: two at time 0, one afterwards."""
        return 2 if state[2] == 0 else 1

    @kernel
    def probability(env: Any, state: np.ndarray, action: int, next_state: np.ndarray, out: np.ndarray) -> None:
        """Write the probability of each component's next value into `out`."""
        t = state[2]
        gained = next_state[1] - state[1]
        first = 1 - action if t == 0 else state[0]
        out[0] = 1.0 if next_state[0] == first else 0.0
        if t < env.horizon and env.charging[t]:
            out[1] = env.pmf[gained] if 0 <= gained <= env.trials else 0.0
        else:
            out[1] = 1.0 if gained == 0 else 0.0
        out[2] = 1.0 if next_state[2] == t + 1 else 0.0

    def outcomes(self, state: tuple[int, ...], action: int) -> list[Outcome]:
        """List the transitions of (state, action), from the definition in App. A.2."""
        if int(self.charging.sum()) != self.points:
            raise ValueError("the charging steps are not sampled: call prepare, or reset the environment, first")
        first, charge, t = state
        if t == self.horizon:
            return []
        if t == 0:
            first = int(action == 0)
        n, p, ended = self.trials, self.success, t + 1 == self.horizon
        gains = {0: 1.0}
        if self.charging[t]:
            gains = {j: math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(n + 1)}
        c_0 = self.slope if first else -self.slope

        def paid(charge: int) -> float:
            return self.bonus * first + c_0 * charge - c_0 * p * self.horizon if ended else 0.0

        charges = [(chance, charge + gain) for gain, chance in gains.items() if chance > 0]
        return [(chance, (first, after, t + 1), (paid(after),), ended) for chance, after in charges]


def _binomial(trials: int, success: float) -> np.ndarray:
    """Probabilities of Binomial(trials, success), computed trial by trial, since factorials would overflow."""
    pmf = np.ones(1)
    for _ in range(trials):
        pmf = np.append(pmf * (1 - success), 0.0) + np.append(0.0, pmf * success)
    return pmf
