"""Planning: updates from a learned model, on the same table of values, after each real step.

Bootstrap, λ source, view and step size say what a real step teaches; a planner says what the model teaches besides. It
runs at the end of every step. Its model counts transitions, rewards and ends (`chunked_td.models.transitions`), the
present transition included. A backup of a row (s, a) is

    T(s,a) = Σ_{s'} P̂(s'|s,a) [r̂(s,a,s') + γ (1 − share of ends) B(s')],   B(s') = Σ_{a'} π(a'|s') Q(s',a')

with the behaviour policy π as it stands, for SARSA as for Expected-SARSA; Q-learning has B(s') = max Q(s',·). B = 0 in
states that were never acted in. For state values a row is s, and B(s') = V(s'): the model is that of the process under
the policy, as it was followed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._numba import code, dispatch, is_kernel, kernel
from chunked_td._settings import KernelSettings, grown_arrays
from chunked_td.bootstraps import STATE
from chunked_td.learners.learned_components import LearnedComponents
from chunked_td.learners.planning.expected_error import ExpectedError
from chunked_td.models.transitions import TransitionCounts, record
from chunked_td.seeding import Stream


@dataclass(frozen=True)
class Planner(KernelSettings):
    """Base of the planners: settings with a kernel `plan`.

        plan(planner, agent, row, epsilon, step_size, over)

    It is called after every transition. `row` is the row of the transition, `over` says whether the episode has ended.

    Attributes:
      direct: whether the real step's own TD update is made, too.
    """

    direct: bool = dataclasses.field(default=True, kw_only=True)

    @property
    def draws(self) -> int:
        """The most uniform numbers that one call of `plan` takes."""
        return 0


def check_planner(value: Any) -> Planner | None:
    """A planner, or None."""
    if value is None or (isinstance(value, Planner) and is_kernel(getattr(type(value), "plan", None))):
        return value
    from chunked_td.learners.planning import PLANNERS

    hint = f"; did you mean {value.__name__}()?" if isinstance(value, type) and issubclass(value, Planner) else ""
    raise ValueError(f"planner must be None, one of {', '.join(PLANNERS)}, or a Planner of yours, got {value!r}{hint}")


RewardSource = ExpectedError | LearnedComponents
"""Where the rewards of the TD errors come from."""

REWARD_SOURCES: dict[str, type] = {cls.__name__: cls for cls in (ExpectedError, LearnedComponents)}
"""Reward sources by name."""


def check_reward_source(value: Any) -> RewardSource | None:
    """A reward source, or None for the reward as it comes."""
    if value is None or isinstance(value, RewardSource):
        return value
    known = ", ".join(f"{name}(…)" for name in REWARD_SOURCES)
    raise ValueError(f"reward_source must be None or one of {known}, got {value!r}")


class PlanningStream(NamedTuple):
    """The planner's random numbers: a `Stream` that stays where it is when a run moves small arrays to the stack."""

    block: Annotated[np.ndarray, "float64[n]"]
    position: Annotated[np.ndarray, "int64[n]"]


_plan_by, _expect_by = dispatch("plan", None), dispatch("expect", None)


class Planning(NamedTuple):
    """What a learner that plans, or reads TD errors off its model, has besides."""

    planner: Any  # the compiled form of a planner, or None
    reward_source: Any  # the compiled form of a reward source, or None
    direct: bool  # whether the real step's own TD update is made
    world: TransitionCounts
    rng: PlanningStream
    target: Annotated[np.ndarray, "float64[d]"]  # scratch: a backup


# In these kernels `planning` may be None, for a learner without a model of transitions.


@kernel
def count_transition(planning, row, seen, reward, terminated):
    """Train the model; `seen` is the next state as the model sees it, or −1 if it does not look."""
    if planning is not None:
        if seen >= 0:
            record(planning.world, row, seen, reward, terminated)


@kernel
def expect_error(planning, agent, row, epsilon):
    """Replace δ_t by what the model expects, where the reward source does."""
    if planning is not None:
        _expect_by(planning.reward_source, agent, row, epsilon)


@kernel
def learns_directly(planning):
    """Whether the real step's own TD update is made."""
    return True if planning is None else planning.direct


@kernel
def plan(planning, agent, row, epsilon, step_size, over):
    """Let the planner run."""
    if planning is not None:
        _plan_by(planning.planner, agent, row, epsilon, step_size, over)


@kernel
def has_planning_room(planning, pairs, draws):
    """Whether so many new pairs fit in, and so many random numbers are there."""
    if planning is None:
        return True
    counts, rng = planning.world.counts, planning.rng
    return counts.pairs.shape[0] - counts.size[0] >= pairs and rng.block.size - rng.position[0] >= draws


@kernel
def state_of(agent, row):
    """The state that a row of the table of values belongs to."""
    return row if code(agent.rule.bootstrap) == STATE else row // code(agent.rule.n_actions)


def grown_planning(planning: Planning, planner: Planner | None, sizes: Mapping[str, int], capacity: int) -> Planning:
    """The same with room for larger tables and for more distinct transitions."""
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
    """An empty model and what goes with it; None where nothing needs it.

    Args:
      sizes: `rows` of the table of values, S states, A actions, d reward components.
      stream: the planner's random numbers.
      capacity: distinct transitions to make room for.
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
