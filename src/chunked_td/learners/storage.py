"""The arrays of a learner: what is allocated for its choices, and how it grows with the states that come."""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td._numba import Packed, is_cacheable
from chunked_td.bootstraps import STATE
from chunked_td.lambdas.base import MODEL, LambdaSource, Needs, grown_arrays, new_array
from chunked_td.learners.count_models import (
    component_parts,
    count_origins,
    kind_of_counts,
    make_counts,
    pairs_per_step,
)
from chunked_td.learners.entries import Entries, entries_for
from chunked_td.learners.learned_components import LearnedComponents
from chunked_td.learners.planning.base import Planner, PlanningStream, grown_planning, make_planning
from chunked_td.learners.planning.expected_error import ExpectedError
from chunked_td.learners.queries import Queries
from chunked_td.learners.reward_sources import RewardSource
from chunked_td.learners.state import AgentState, Memory, Rule, Tables, empty_episode, make_rule
from chunked_td.learners.update import Workspace
from chunked_td.learners.views import View, empty_trace
from chunked_td.models.asked import Answers
from chunked_td.models.counts import Counts
from chunked_td.models.errors import ModelError
from chunked_td.policies import GIVEN, GREEDY, UNIFORM
from chunked_td.seeding import Draws, generator, split_seed

_ROOM = 64


class Storage(Queries):
    """The tables, traces, models and random numbers of a learner whose settings have been checked."""

    seed: int
    discount: float
    lambda_source: LambdaSource
    model: Any
    planner: Planner | None
    reward_source: RewardSource | None
    view: View
    prior: float
    cutoff: float
    replacing: bool
    n_paid: int

    def _check_watch(self) -> None:
        raise NotImplementedError

    def _asks_model(self) -> bool:
        """Whether λ comes from a model object."""
        if self.model is None or isinstance(self.model, ModelError):
            return False
        return bool(self.lambda_source.needs_with(self.bootstrap) & MODEL)

    def _make_rule(self) -> Rule:
        policy = GREEDY if self.bootstrap != STATE else (UNIFORM if isinstance(self.policy, str) else GIVEN)
        return make_rule(
            self.bootstrap,
            self.lambda_source,
            self.view,
            self.n_actions,
            self.discount,
            policy=policy,
            cutoff=self.cutoff,
            replacing=self.replacing,
            plans=self.planner is not None or isinstance(self.reward_source, ExpectedError),
        )

    def _allocate(self) -> None:
        A, d = self.n_actions, self.n_rewards
        self._capacity = states = max(self.indexer.size, _ROOM)
        rule, trace = self._make_rule(), empty_trace(self.view, self._rows(states), d, _ROOM)
        nvec = np.array(self.indexer.nvec if self.indexer.nvec else (1,), np.int64)
        legal = np.zeros((states if rule.keeps_legal.value else 0, A), bool)
        divided = self.reward_source if isinstance(self.reward_source, LearnedComponents) else None
        parts = component_parts(self.lambda_source, d, nvec.size, rest=divided is not None)
        source, seeds = self.lambda_source, split_seed(self.seed)
        self.plan_draws = Draws(generator(seeds.planning), self._plan_block())
        self._state = AgentState(
            rule=rule,
            source=source.compiled(self._sizes()) if source.is_compiled else None,
            model=self._make_model(parts, nvec),
            tables=Tables(self._new_values(), legal, nvec, parts, self._make_exploration()),
            trace=trace,
            memory=Memory.empty(A, d, _ROOM if trace is None else 1),
            watch=np.zeros(1, np.int64),
            episode=empty_episode(source, rule, d, _ROOM),
            planning=make_planning(self.planner, self.reward_source, self._sizes(), self.plan_draws.stream, _ROOM),
            error=self.model.compiled(self.indexer.size, A) if isinstance(self.model, ModelError) else None,
            division=None if divided is None else divided.compiled(nvec),
        )
        self.policy_draws = Draws(generator(seeds.policy))
        self.chunk_draws = Draws(generator(seeds.model), _ROOM)
        self.percepts: dict[tuple[Any, ...], int] = {}
        self.episode, self.state, self.action = 0, -1, -1
        self.env_state: Any = None  # the environment's random numbers after `learn`; of a vector, a list
        self.trained_in: Any = None
        self._unfinished_in: Any = None  # the environment in which `learn(steps=)` stopped during an episode
        self._copies: Any = None  # the episodes under way in a vector environment
        self._mask_seen = False  # whether a mask has forbidden an action
        self._cut = 1.0  # factor of the next λ, for data of another policy
        self._reward, self._rates = np.zeros(self.n_paid), np.zeros(2)
        self._all_legal = np.ones(A, bool)
        self._room = 0
        self._packed: Packed | None = None
        self._busy = self._training = False

    def _new_values(self) -> np.ndarray:
        """A table of values before learning."""
        values = np.zeros((self._rows(self._capacity), self.n_rewards))  # memory is taken when a row is first written
        if self.initial_value:
            values[:] = self.initial_value
        return values

    def _make_exploration(self) -> Any:
        """The compiled form of the exploration; None for ε-greedy."""
        return None if self.exploration is None else self.exploration.compiled(self._sizes())

    def _make_model(self, parts: np.ndarray, nvec: np.ndarray) -> Any:
        """The compiled form of the model: counts, or a place for the answers of a model object."""
        needs = self.lambda_source.needs_with(self.bootstrap)
        if self._asks_model():
            return Answers.empty(self.n_actions, nvec.size if Needs.PARTS in needs else 1)
        return make_counts(
            kind_of_counts(self.lambda_source, self.bootstrap),
            self.bootstrap,
            self._capacity,
            self.n_actions,
            parts,
            nvec,
            prior=self.prior,
            known_states=max(self.indexer.size, 1),
            capacity=_ROOM,
        )

    # ---- state

    @property
    def rule(self) -> Rule:
        """The learner's choices, as compiled code sees them."""
        return self._state.rule

    @property
    def tables(self) -> Tables:
        """The tables of values."""
        return self._state.tables

    @property
    def trace(self) -> Any:
        """The eligibility traces; None for updates at the end of an episode."""
        return self._state.trace

    @property
    def memory(self) -> Memory:
        """What is carried from step to step within an episode."""
        return self._state.memory

    @property
    def counts(self) -> Counts | None:
        """The count model's table; None where λ is not counted."""
        return getattr(self._state.model, "counts", None)

    @property
    def learned(self) -> dict[str, np.ndarray]:
        """What the λ source has learned: its arrays by name, as copies, for the states that have an id."""
        states, found = self.indexer.size, {}
        sizes = {**self._sizes(), "S": states, "rows": self._rows(states)}
        for name, layout in self.lambda_source.arrays.items():
            shape = new_array(layout, sizes).shape
            found[name] = getattr(self._state.source, name)[tuple(map(slice, shape))].copy()
        return found

    @property
    def reward_parts(self) -> list[np.ndarray] | None:
        """f_i of `LearnedComponents` as learned so far, float64[n_i] per state component; None without it."""
        division = self._state.division
        return None if division is None else np.split(division.parts.copy(), division.first[1:])

    def _replace(self, **parts: Any) -> None:
        """Put other arrays in place of some; compiled code learns of it at the next step."""
        self._state, self._packed = self._state._replace(**parts), None

    def _sizes(self) -> dict[str, int]:
        """Dimensions of the arrays that a λ source or a planner may have."""
        rows = self._rows(self._capacity)
        return {"S": self._capacity, "A": self.n_actions, "d": self.n_rewards, "rows": rows}

    def _plan_block(self) -> int:
        """How many random numbers to draw ahead for the planner."""
        return 0 if self.planner is None else 2 * self.planner.draws

    def _rows(self, states: int) -> int:
        return states if self.bootstrap == STATE else states * self.n_actions

    def _make_room(self) -> None:
        """Grow what the next steps might overfill. Every step adds at most one entry (d count pairs) to each."""
        self._check_watch()  # for episodes that do not end
        trace, memory, counts = self.trace, self.memory, getattr(self._state.model, "counts", None)
        if trace is not None:
            if trace.room < _ROOM:
                self._replace(trace=trace.grown(self._rows(self._capacity), 2 * trace.capacity + _ROOM))
        elif memory.rows.size - memory.length[0] < _ROOM:
            self._replace(memory=memory.grown(2 * memory.rows.size + _ROOM))
        episode = self._state.episode
        if episode is not None and episode.states.size - episode.length[0] < _ROOM:
            self._replace(episode=episode.grown(2 * episode.states.size + _ROOM))
        if counts is not None and counts.room < _ROOM * pairs_per_step(self._state.model):
            capacity = 2 * counts.pairs.shape[0] + _ROOM * pairs_per_step(self._state.model)
            self._replace_counts(counts.grown(counts.head.size, capacity))
        planning = self._state.planning
        if planning is not None and planning.world.counts.room < _ROOM:
            self._grow_planning(2 * planning.world.counts.pairs.shape[0] + _ROOM)
        self._room = _ROOM - 1

    def _grow_states(self) -> None:
        """Room for twice as many states (observations that get ids on first sight)."""
        old, self._capacity = self._capacity, 2 * max(self.indexer.size, self._capacity)
        values = self._new_values()
        values[: self._rows(old)] = self.tables.values
        legal = np.zeros((self._capacity if self.tables.legal.shape[0] else 0, self.n_actions), bool)
        legal[: self.tables.legal.shape[0]] = self.tables.legal
        self._replace(tables=self.tables._replace(values=values, legal=legal))
        if self.trace is not None:
            self._replace(trace=self.trace.grown(values.shape[0], self.trace.capacity))
        self._grow_source()
        if self.exploration is not None:
            grown = grown_arrays(self.tables.exploration, self.exploration.arrays, self._sizes())
            self._replace(tables=self.tables._replace(exploration=grown))
        if self._state.planning is not None:
            self._grow_planning(self._state.planning.world.counts.pairs.shape[0])
        counts = getattr(self._state.model, "counts", None)
        if counts is not None:
            kind = type(self._state.model)
            origins = count_origins(kind, self.bootstrap, self._capacity, self.n_actions, self.n_rewards)
            self._replace_counts(counts.grown(origins, counts.pairs.shape[0]))

    def _replace_counts(self, counts: Counts) -> None:
        self._replace(model=self._state.model._replace(counts=counts))

    def _grow_planning(self, capacity: int) -> None:
        self._replace(planning=grown_planning(self._state.planning, self.planner, self._sizes(), capacity))

    def _set_plan_draws(self, draws: Draws) -> None:
        """Let the planner read other random numbers."""
        self.plan_draws = draws
        if self._state.planning is not None:
            self._replace(planning=self._state.planning._replace(rng=PlanningStream(*draws.stream)))

    def _grow_source(self) -> None:
        if self._state.source is not None:
            arrays = self.lambda_source.arrays
            self._replace(source=grown_arrays(self._state.source, arrays, self._sizes()))

    def _entries(self) -> tuple[Any, Entries]:
        """Where the learner's arrays lie, and the compiled code for its combination of choices."""
        if self._packed is None:
            streams = self.policy_draws.stream, self.chunk_draws.stream
            packed = Packed(Workspace(self._state, *streams, self._reward, self._rates))
            outside = self._state.source, self.tables.exploration, *(self._state.planning or ())
            packed.entries = entries_for(packed.form, is_cacheable(*outside))
            self._packed = packed
        return self._packed.places, self._packed.entries
