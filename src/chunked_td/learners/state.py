"""Compiled state of a learner: its choices, its tables, its memory of the episode; built and enlarged here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import enlarged, static, zeros
from chunked_td._settings import grown_arrays
from chunked_td.bootstraps import EXPECTED_SARSA, Q_LEARNING, SARSA, STATE
from chunked_td.lambdas.base import MODEL, LambdaSource
from chunked_td.lambdas.episode import Episode
from chunked_td.learners.count_models import component_parts, count_origins, kind_of_counts, make_counts, pairs_per_step
from chunked_td.learners.learned_components import LearnedComponents
from chunked_td.learners.linear_values import LinearTrace
from chunked_td.learners.planning.base import grown_planning, make_planning
from chunked_td.learners.planning.expected_error import ExpectedError
from chunked_td.learners.views import empty_trace, trace_with_room
from chunked_td.models import KernelModel
from chunked_td.models.errors import ModelError
from chunked_td.policies import GREEDY, UNIFORM
from chunked_td.seeding import Stream
from chunked_td.traces import LIMIT, View

NO_NUMBER, NO_LAMBDA = 1, 2
"""Failures of an update, as bits of `AgentState.watch`: an update that is not finite or is beyond
`chunked_td.traces.LIMIT`, and a λ outside [0, 1]."""

SLACK = 1.0e-6
"""Tolerance for a λ outside [0, 1], for rounding."""

_PAIRS = 4096  # initial room for distinct transitions, in small problems


class Rule(NamedTuple):
    """Choices of a learner, and their parameters.

    Fields marked * are static, or plain numbers if one compiled loop is used for every bootstrap (`one_loop`).
    """

    bootstrap: Any  # * see chunked_td.bootstraps
    policy: Any  # static: GREEDY, UNIFORM or GIVEN
    per_component: Any  # static: 1 if every reward component has a λ of its own
    keeps_policy: Any  # * 1 if λ needs π(·|x_t)
    keeps_legal: Any  # * 1 if λ or a planner needs the legal actions of other states
    chooses_late: Any  # * 1 if a_{t+1} is chosen after update t, see `learners.core`
    checks_lambda: Any  # static: 1 if the λ source is a user's, and might return λ outside [0, 1]
    n_actions: Any  # A
    discount: float  # γ
    cutoff: float  # traces at or below it are dropped; 0 is exact
    replacing: bool  # replacing instead of accumulating traces
    sampled: bool  # λ_t replaced by 1 with probability λ_t, else 0 (§3.1)


class Tables(NamedTuple):
    """Learned values, and properties of the states."""

    values: Annotated[np.ndarray, "float64[rows, d]"]  # row = s (state values) or s·A + a
    legal: Annotated[np.ndarray, "bool[S, A]"]  # [0, A] if not needed
    nvec: Annotated[np.ndarray, "int64[n], unsaved"]  # sizes of the state components
    parts: Annotated[np.ndarray, "bool[d, c], unsaved"]  # which state components decide reward i
    exploration: Any = None  # the compiled form of an `Exploration`; None is ε-greedy


class Memory(NamedTuple):
    """Memory of a learner within an episode."""

    policy: Annotated[np.ndarray, "float64[A] in [0, 1]"]  # π(·|x_t), as it was when a_t was drawn
    next_policy: Annotated[np.ndarray, "float64[A]"]  # π(·|x_{t+1})
    scratch: Annotated[np.ndarray, "float64[A], unsaved"]
    lambda_t: Annotated[np.ndarray, "float64[d], unsaved"]
    delta_t: Annotated[np.ndarray, "float64[d], unsaved"]
    previous: Annotated[np.ndarray, "int64[one] in [-1, pairs)"]  # s_{t−1}·A + a_{t−1}, or −1 at the start
    rows: Annotated[np.ndarray, "int64[T] in [0, rows)"]  # the episode so far, for updates at its end
    delta: Annotated[np.ndarray, "float64[T, d]"]
    lambda_: Annotated[np.ndarray, "float64[T, d]"]
    length: Annotated[np.ndarray, "int64[one], unsaved"]

    @classmethod
    def empty(cls, n_actions: int, components: int, capacity: int) -> Memory:
        """Return the memory before an episode."""
        sizes = {"A": n_actions, "d": components, "T": capacity, "one": 1}
        return zeros(cls, sizes, previous=np.full(1, -1, np.int64))


class AgentState(NamedTuple):
    """Arrays and settings that the update reads and writes."""

    rule: Rule
    source: Any  # the compiled form of a λ source
    model: Any  # ForwardCounts, PartCounts, BackwardCounts, Oracle, Predictions, or None
    tables: Tables
    trace: Any  # a kind of trace (`learners.views`), or None for updates at the end of an episode
    memory: Memory
    watch: Annotated[np.ndarray, "int64[one]"]  # 0 while all is well, else NO_NUMBER, NO_LAMBDA or both
    episode: Any = None  # Episode, if the λ source learns from whole episodes
    planning: Any = None  # Planning, if the learner plans or uses expected TD errors
    error: Any = None  # the compiled form of a deliberate model error, or None
    division: Any = None  # the compiled form of `LearnedComponents`, or None


def _check_choices(bootstrap: int, source: LambdaSource, view: str | View, replacing: bool) -> None:
    """Raise a ValueError for choices that cannot be combined."""
    name = f"lambda_source {type(source).__name__}()"
    other = "Expected-SARSA" if bootstrap == EXPECTED_SARSA else "Q-learning"
    if source.per_component and bootstrap == SARSA:
        raise ValueError(f"{name} requires state values, Expected-SARSA or Q-learning, got SARSA")
    if "legal" in source.inputs(bootstrap) and bootstrap == STATE:
        raise ValueError(f"{name} requires action values (the ε-greedy policy of other states), got state values")
    if view == "sampled" and bootstrap not in (STATE, SARSA):
        raise ValueError(f"view={view!r} requires state values or SARSA (§3.1, App. B.1), got {other}; use 'offline'")
    if replacing and view != "traces":
        raise ValueError(f"replacing=True requires view='traces', got view={view!r}")


def _make_rule(learner: Any, n_actions: Any, policy: int | None, one_loop: bool) -> Rule:
    """Check and return the choices of a learner; planning requires the policy in all states."""
    bootstrap, source, view = learner.bootstrap, learner.lambda_source, learner.view
    _check_choices(bootstrap, source, view, learner.replacing)
    inputs = source.inputs(bootstrap)
    plans = learner.planner is not None or isinstance(learner.reward_source, ExpectedError)
    changes = plans or view not in ("offline", "sampled")  # else values are fixed during an episode
    late = bootstrap in (EXPECTED_SARSA, Q_LEARNING) and view != "true_online" and changes
    chosen = int if one_loop else static
    return Rule(
        bootstrap=chosen(bootstrap),
        policy=static((UNIFORM if bootstrap == STATE else GREEDY) if policy is None else policy),
        per_component=static(int(source.per_component)),
        keeps_policy=chosen(int("policy" in inputs or not source.is_compiled)),  # a step in plain Python has it
        keeps_legal=chosen(int("legal" in inputs or (plans and bootstrap != STATE))),
        chooses_late=chosen(int(late)),
        checks_lambda=static(int(not type(source).__module__.startswith("chunked_td."))),
        n_actions=n_actions,
        discount=float(learner.discount),
        cutoff=float(learner.cutoff),
        replacing=bool(learner.replacing),
        sampled=view == "sampled",
    )


def reward_components(reward_source: Any, nvec: Sequence[int] | None, paid: int, per_component: bool) -> int:
    """Return d, the number of reward components of a learner; `paid` is the number of the environment."""
    if not isinstance(reward_source, LearnedComponents):
        return paid
    reward_source.check(nvec, paid, per_component)
    return len(nvec or ()) + 1


def build_state(
    learner: Any, n_actions: Any, nvec: Sequence[int] | None, states: int, room: int, stream: Stream, *,
    model: Any = "counts", known_states: int = 0, policy: int | None = None, source: Any = None, one_loop: bool = False,
) -> AgentState:  # fmt: skip
    """Return the compiled state of a learner before its first step, for `Learner` and for the simulation.

    Args:
      learner: has the settings of a `Learner` as attributes.
      n_actions: A, or `static(A)`. nvec: sizes of the state components, or None.
      states, room: number of states of the tables, and initial room for transitions.
      stream: the planner's random numbers.
      model: "counts", a model error to apply to the counts, the compiled form of a model, or None.
      known_states: number of states of a model error and of a prior.
      policy: GREEDY, UNIFORM or GIVEN; by default the first for action values, the second for state values.
      source: the compiled λ source; by default compiled from the learner's.
      one_loop: whether one compiled loop is used for every bootstrap.
    """
    bootstrap, own, reward_source = learner.bootstrap, learner.lambda_source, learner.reward_source
    A, d = n_actions, reward_components(reward_source, nvec, learner.n_paid, own.per_component)
    components = np.array(nvec if nvec is not None and len(nvec) else (1,), np.int64)
    rule = _make_rule(learner, n_actions, policy, one_loop)
    divides, error = isinstance(reward_source, LearnedComponents), model if isinstance(model, ModelError) else None
    parts = component_parts(own, d, components.size, rest=divides)
    sizes = table_sizes(bootstrap, states, A, d)
    values = np.zeros((sizes["rows"], d))  # the system allocates memory when a row is first written
    if learner.initial_value:
        values[:] = learner.initial_value
    legal = np.zeros((states if rule.keeps_legal else 0, A), bool)
    explored = None if learner.exploration is None else learner.exploration.compiled(sizes)
    if learner.features is None:
        trace = empty_trace(learner.view, sizes["rows"], d, min(sizes["rows"], room))
    else:
        width = 1 if bootstrap == STATE else A
        trace = LinearTrace.of(learner.features, learner.view, width, d, learner.initial_value)
    pairs = max(room, min(4 * states * A, _PAIRS))
    if error is not None or isinstance(model, str):
        model = make_counts(
            kind_of_counts(own, bootstrap), bootstrap, states, A, parts, components, prior=learner.prior,
            known_states=max(known_states, 1), capacity=pairs,
        )  # fmt: skip
    if isinstance(model, KernelModel):
        model = model.compiled(sizes) if own.inputs(bootstrap) & MODEL else None
    episode = None
    if own.learns_from_episodes:
        episode = zeros(Episode, {"T": room, "k": d}, discount=rule.discount, bootstrap=rule.bootstrap)
    return AgentState(
        rule=rule,
        source=own.compiled(sizes) if source is None and own.is_compiled else source,
        model=model,
        tables=Tables(values, legal, components, parts, explored),
        trace=trace,
        memory=Memory.empty(A, d, room if trace is None else 1),
        watch=np.zeros(1, np.int64),
        episode=episode,
        planning=make_planning(learner.planner, reward_source, sizes, stream, pairs),
        error=None if error is None else error.compiled({"S": known_states, "A": A}),
        division=reward_source.compiled(components) if divides else None,
    )


def table_sizes(bootstrap: int, states: int, n_actions: int, rewards: int) -> dict[str, int]:
    """Return the dimensions of arrays of λ sources, explorations and planners."""
    rows = states if bootstrap == STATE else states * n_actions
    return {"S": states, "A": n_actions, "d": rewards, "rows": rows}


def with_room(agent: AgentState, steps: int) -> AgentState:
    """Return the same state with room for n more transitions; itself if there is room."""
    new: dict[str, Any] = {}
    memory, episode, model, planning = agent.memory, agent.episode, agent.model, agent.planning
    if agent.trace is not None:
        new["trace"] = trace_with_room(agent.trace, agent.tables.values.shape[0], steps)
    elif memory.rows.size - memory.length[0] < steps:
        new["memory"] = enlarged(memory, T=2 * memory.rows.size + steps)
    if episode is not None and episode.states.size - episode.length[0] < steps:
        new["episode"] = enlarged(episode, T=2 * episode.states.size + steps)
    pairs = steps * pairs_per_step(model)
    if pairs and model.counts.room < pairs:
        counts = model.counts.grown(model.counts.head.size, 2 * model.counts.pairs.shape[0] + pairs)
        new["model"] = model._replace(counts=counts)
    if planning is not None and planning.world.counts.room < steps:
        world = planning.world
        world = world.grown(world.counts.head.size, world.entry.size, 2 * world.counts.pairs.shape[0] + steps)
        new["planning"] = planning._replace(world=world)
    changed = any(part is not getattr(agent, name) for name, part in new.items())
    return agent._replace(**new) if changed else agent


def with_states(
    agent: AgentState, states: int, source: LambdaSource, exploration: Any, planner: Any, initial_value: float, own: Any
) -> AgentState:
    """Return the same state with room for more states; `own` is the learner's model."""
    tables, bootstrap, A = agent.tables, agent.rule.bootstrap, agent.rule.n_actions
    sizes = table_sizes(bootstrap, states, A, tables.values.shape[1])
    values = np.full((sizes["rows"], sizes["d"]), initial_value)
    values[: tables.values.shape[0]] = tables.values
    legal = np.zeros((states if tables.legal.shape[0] else 0, A), bool)
    legal[: tables.legal.shape[0]] = tables.legal
    explored, trace, model, planning = tables.exploration, agent.trace, agent.model, agent.planning
    if exploration is not None:
        explored = grown_arrays(explored, exploration.arrays, sizes)
    if trace is not None:
        trace = trace.grown(sizes["rows"], getattr(trace, "entries", trace).rows.size)
    if planning is not None:
        planning = grown_planning(planning, planner, sizes, planning.world.counts.pairs.shape[0])
    if isinstance(own, KernelModel):
        model = None if model is None else grown_arrays(model, own.arrays, sizes)
    elif hasattr(model, "counts"):
        origins = count_origins(type(model), bootstrap, states, A, sizes["d"])
        model = model._replace(counts=model.counts.grown(origins, model.counts.pairs.shape[0]))
    return agent._replace(
        tables=tables._replace(values=values, legal=legal, exploration=explored),
        source=None if agent.source is None else grown_arrays(agent.source, source.arrays, sizes),
        trace=trace,
        planning=planning,
        model=model,
    )


class Diverged(FloatingPointError):
    """Learning has diverged: values or TD errors are NaN, infinite or too large."""


class DivergenceWarning(RuntimeWarning):
    """A run was stopped because learning diverged."""


def divergence_text(watch: int, step_size: float, lambda_source: Any) -> str:
    """Return the cause of the divergence and the settings to change.

    Args:
      watch: the bits that the update left in `AgentState.watch`.
      step_size: α of the episode.
    """
    if watch & NO_LAMBDA:
        return f"{lambda_source!r} returned a λ that is not a number in [0, 1]: correct its lambda_t"
    return (
        f"an update was not finite, or beyond {LIMIT:g}: step_size {step_size:g} is too large for "
        f"{lambda_source!r}, for these rewards, or for a λ near 1 if episodes revisit states; use a "
        f"smaller step_size, a smaller λ or replacing traces"
    )


def parts_of(state: Any, source: Any, choices: Any, dynamics: Any = None) -> dict[str, Any]:
    """Return the classes that have the kernels of a learner, by role.

    Args:
      state: AgentState. source: a λ source, or None for a source in plain Python. choices: has the settings of a
        `Learner` as attributes. dynamics: the class of the simulation's dynamics.
    """
    planning = state.planning
    return {
        "source": type(source),
        "model": type(choices.model) if isinstance(choices.model, KernelModel) else type(state.model),
        "view": type(state.trace) if state.trace is not None else None,
        "features": type(choices.features.compiled()) if choices.features is not None else None,
        "exploration": type(choices.exploration) if choices.exploration is not None else None,
        "planner": type(choices.planner) if planning is not None else None,
        "reward_source": type(choices.reward_source) if planning is not None and planning.reward_source else None,
        "division": type(choices.reward_source) if state.division is not None else None,
        "error": type(choices.error) if state.error is not None else None,
        "dynamics": dynamics,
    }
