"""Division of a scalar reward among the components of the next state, by least squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunked_td._checks import check_positive
from chunked_td._link import kernel
from chunked_td._settings import KernelSettings, form_of


@dataclass(frozen=True)
class LearnedComponents(KernelSettings):
    """Reward as a sum of functions of the components of the next state, learned online, plus a remainder.

        r_{t+1} = Σ_i f_i(x_{t+1}^i) + rest,   f = argmin Σ_{k ≤ t+1} (r_k − Σ_i f_i(x_k^i))² + ridge Σ f²

    A learner on states with c components then has c + 1 reward components: f_i with the λ of state component i, and the
    rest with the undivided λ, the probability of all components together. f is fitted to all transitions so far,
    including the current one, by recursive least squares: (n₁ + … + n_c)² multiplications a step, where component i
    takes n_i values. The f_i are unique up to constants that sum to 0; the constants minimise Σ f².

    The parts always sum to the received reward, so the sum of the values has the same target as without them.

    Args:
      ridge: pull of every f_i(x^i) to 0, in transitions.
    """

    ridge: float = 0.01

    arrays: ClassVar[Mapping[str, str]] = {"parts": "float64[features]", "inverse": "float64[features, features]"}

    checks: ClassVar = {"ridge": check_positive}

    def check(self, nvec: Sequence[int] | None, paid: int, per_component: bool) -> None:
        """Raise a ValueError for states without components, vector rewards, or one λ for all reward components.

        Args:
          nvec: sizes of the state components, or None. paid: number of reward components of the environment.
          per_component: whether the λ source has a λ for every reward component.
        """
        if nvec is None or len(nvec) < 2:
            has = "none" if nvec is None else f"{len(nvec)}"
            raise ValueError(f"reward_source {self!r} requires states with two countable components or more, got {has}")
        if paid != 1:
            raise ValueError(f"reward_source {self!r} requires scalar rewards, got {paid} components; leave it out")
        if not per_component:
            raise ValueError(f"reward_source {self!r} requires a λ per reward component, such as FactoredLambda()")

    def compiled(self, nvec: np.ndarray) -> Any:  # type: ignore[override]
        """Return the compiled form before the first transition."""
        n, c = int(nvec.sum()), nvec.size
        arrays = {
            "first": np.cumsum(nvec) - nvec,
            "active": np.zeros(c, np.int64),
            "parts": np.zeros(n),
            "inverse": np.eye(n) / self.ridge,
            "gain": np.zeros(n),
            "reward": np.zeros(c + 1),
        }
        return form_of(self, arrays)

    @kernel
    def divide(form, step, reward):
        """Learn from the transition, and write the c + 1 reward components to `form.reward`."""
        activate(form, step.components, step.tables.nvec, step.next_state)
        error = reward[0]
        for j in form.active:
            error -= form.parts[j]
        spread = take_gain(form)
        move = error / spread
        for j in range(form.parts.size):
            form.parts[j] += move * form.gain[j]
        shrink(form, spread)
        rest = reward[0]
        for i in range(form.active.size):
            form.reward[i] = form.parts[form.active[i]]
            rest -= form.reward[i]
        form.reward[form.active.size] = rest


def activate(form, components, nvec, state):
    """Write the features of a state that are 1, one per component, to `active`.

    Args:
      components: int64[c], those of `state`; None if only its id is known.
    """
    below = 1
    for i in range(nvec.size - 1, -1, -1):
        form.active[i] = form.first[i] + (state // below % nvec[i] if components is None else components[i])
        below *= nvec[i]


def take_gain(form):
    """Write P φ to `gain`, for features φ that are 0 or 1; return 1 + φᵀ P φ. P is stored as an upper triangle."""
    form.gain[:] = 0.0
    for j in form.active:
        for k in range(j):
            form.gain[k] += form.inverse[k, j]
        for k in range(j, form.gain.size):
            form.gain[k] += form.inverse[j, k]
    spread = 1.0
    for j in form.active:
        spread += form.gain[j]
    return spread


def shrink(form, spread):
    """P ← P − (P φ)(P φ)ᵀ / spread."""
    for j in range(form.gain.size):
        weight = form.gain[j] / spread
        for k in range(j, form.gain.size):
            form.inverse[j, k] -= weight * form.gain[k]
