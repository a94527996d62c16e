"""Planning: updates from a learned model, on the same table of values, after each real step.

Bootstrap, λ source, view and step size determine the update from a real step; a planner makes extra updates from the
model. It runs at the end of every step. Its model counts transitions, rewards and terminations
(`chunked_td.models.transitions`), including the current transition. A backup of a row (s, a) is

    T(s,a) = Σ_{s'} P̂(s'|s,a) [r̂(s,a,s') + γ (1 − P̂(end|s,a,s')) B(s')],   B(s') = Σ_{a'} π(a'|s') Q(s',a')

with the current behaviour policy π, for SARSA and Expected-SARSA; for Q-learning B(s') = max Q(s',·). B = 0 in states
without a recorded action. For state values a row is s, and B(s') = V(s'): the model is that of the process under the
policy that acted. P̂(end|s,a,s') is the fraction of these transitions that terminated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import PlanningStream, Stream, is_kernel, slot
from chunked_td._settings import KernelSettings, grown_arrays
from chunked_td.bootstraps import STATE
from chunked_td.learners.learned_components import LearnedComponents
from chunked_td.learners.planning.expected_error import ExpectedError
from chunked_td.models.transitions import TransitionCounts, record


@dataclass(frozen=True)
class Planner(KernelSettings):
    """Base class of planners: settings with a kernel `plan`.

        plan(planner, agent, row, epsilon, step_size, over)

    It is called after every transition. `row` is the row of the transition, `over` whether the episode has ended.

    Attributes:
      direct: whether the TD update of the real step is also made.
    """

    direct: bool = dataclasses.field(default=True, kw_only=True)


def check_planner(value: Any) -> Planner | None:
    """Check a planner; None is allowed."""
    if value is None or (isinstance(value, Planner) and is_kernel(getattr(type(value), "plan", None))):
        return value
    from chunked_td.learners.planning import PLANNERS

    hint = f"; did you mean {value.__name__}()?" if isinstance(value, type) and issubclass(value, Planner) else ""
    raise ValueError(f"planner must be None, one of {', '.join(PLANNERS)}, or a Planner of yours, got {value!r}{hint}")


RewardSource = ExpectedError | LearnedComponents
"""Modifications of the rewards or TD errors."""

REWARD_SOURCES: dict[str, type] = {cls.__name__: cls for cls in (ExpectedError, LearnedComponents)}
"""Reward sources by name."""


def check_reward_source(value: Any) -> RewardSource | None:
    """Check a reward source; None is for rewards as received."""
    if value is None or isinstance(value, RewardSource):
        return value
    known = ", ".join(f"{name}(…)" for name in REWARD_SOURCES)
    raise ValueError(f"reward_source must be None or one of {known}, got {value!r}")


_plan_by, _expect_by = slot("planner", "plan", None), slot("reward_source", "expect", None)


class Planning(NamedTuple):
    """Additional state of a learner that plans or uses expected TD errors."""

    planner: Any  # the compiled form of a planner, or None
    reward_source: Any  # the compiled form of a reward source, or None
    direct: bool  # whether the TD update of the real step is made
    world: TransitionCounts
    rng: PlanningStream
    target: Annotated[np.ndarray, "float64[d]"]  # scratch: a backup


# In these kernels `planning` may be None, for a learner without a model of transitions.


def count_transition(planning, row, seen, reward, terminated):
    """Train the model; `seen` is the next state with its model error, or −1 to skip this transition."""
    if planning is not None:
        if seen >= 0:
            record(planning.world, row, seen, reward, terminated)


def expect_error(planning, agent, row, epsilon):
    """Replace δ_t by its expectation under the model, if the reward source does."""
    if planning is not None:
        _expect_by(planning.reward_source, agent, row, epsilon)


def learns_directly(planning):
    """Return whether the TD update of the real step is made."""
    return True if planning is None else planning.direct


def plan(planning, agent, row, epsilon, step_size, over):
    """Run the planner."""
    if planning is not None:
        _plan_by(planning.planner, agent, row, epsilon, step_size, over)


def state_of(agent, row):
    """Return the state of a row of the table of values."""
    return row if agent.rule.bootstrap == STATE else row // agent.rule.n_actions


def grown_planning(planning: Planning, planner: Planner | None, sizes: Mapping[str, int], capacity: int) -> Planning:
    """Return the same state with room for larger tables and for more distinct transitions."""
    larger = planning._replace(world=planning.world.grown(sizes["rows"], sizes["S"], capacity))
    if getattr(planning.reward_source, "guard", 0.0) > 0.0:
        kept = grown_arrays(planning.reward_source, {"gap": "float64[rows, 2]"}, sizes)
        larger = larger._replace(reward_source=kept)
    if planner is None:
        return larger
    return larger._replace(planner=grown_arrays(planning.planner, planner.arrays, sizes))


def make_planning(
    planner: Planner | None, reward_source: Any, sizes: Mapping[str, int], stream: Stream, capacity: int = 256
) -> Planning | None:
    """Return an empty planning state, or None if neither a planner nor `ExpectedError` needs it.

    Args:
      sizes: `rows` of the table of values, S states, A actions, d reward components.
      stream: the planner's random numbers.
      capacity: initial room for distinct transitions.
    """
    modelled = reward_source if isinstance(reward_source, ExpectedError) else None
    if planner is None and modelled is None:
        return None
    return Planning(
        planner=None if planner is None else planner.compiled(sizes),
        reward_source=None if modelled is None else modelled.compiled(sizes),
        direct=planner is None or planner.direct,
        world=TransitionCounts.empty(sizes["rows"], sizes["S"], sizes["d"], capacity),
        rng=PlanningStream(*stream),
        target=np.zeros(sizes["d"]),
    )
