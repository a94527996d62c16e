"""A part of every kind, from outside the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

import chunked_td as ctd
from chunked_td._link import zeros
from chunked_td.lambdas.step import WHOLE, mixture
from chunked_td.learners.planning.backups import expected_backup
from chunked_td.models import KernelModel
from chunked_td.observations.features import Features
from chunked_td.observations.indexers import DiscreteIndexer
from chunked_td.policies import epsilon_greedy
from chunked_td.seeding import uniform
from chunked_td.traces import Trace, View, clear_entries, clear_in_python, decay, grown_rows, mark, reinforce


@dataclass(frozen=True)
class Half(ctd.LambdaSource):
    """Half of the paper's λ, and an array that counts the steps."""

    factor: float = 0.5

    def asks(self, bootstrap):
        return ("mixture",)

    arrays: ClassVar[Mapping[str, str]] = {"steps": "float64[1]"}

    @ctd.kernel
    def lambda_t(source, step, i):
        return source.factor * mixture(step, WHOLE)

    @ctd.kernel
    def after_step(source, step, reward, td_error, ended):
        source.steps[0] += 1.0


@dataclass(frozen=True)
class Clipped(View):
    """Accumulating traces that never exceed a bound."""

    bound: float = 1.5

    def empty(self, rows: int, components: int, capacity: int) -> Any:
        return zeros(ClippedTrace, {"rows": rows}, entries=Trace.empty(rows, components, capacity), bound=self.bound)


class ClippedTrace(NamedTuple):
    entries: Trace
    visits: Annotated[np.ndarray, "float64[rows]"]
    bound: float

    clear, grown, end = clear_in_python, grown_rows, ctd.kernel(clear_entries)

    @ctd.kernel
    def update(trace, m, step, row, step_size, ended):
        decay(trace.entries, m.rule.discount, m.memory.lambda_t, 0.0)
        mark(trace.entries, row, False)
        trace.visits[row] += 1.0
        for k in range(trace.entries.count[0]):
            for i in range(m.memory.delta_t.size):
                trace.entries.weight[k, i] = min(trace.entries.weight[k, i], trace.bound)
        reinforce(m.tables.values, trace.entries, step_size, m.memory.delta_t)


@dataclass(frozen=True)
class Again(ctd.Planner):
    """One update by the model's expectation, of the row just left."""

    rate: float = 0.25
    arrays: ClassVar[Mapping[str, str]] = {"done": "int64[rows]"}

    @ctd.kernel
    def plan(planner, m, row, epsilon, step_size, over):
        expected_backup(m, row, epsilon)
        planner.done[row] += 1
        for i in range(m.planning.target.size):
            m.tables.values[row, i] += planner.rate * (m.planning.target[i] - m.tables.values[row, i])


@dataclass(frozen=True)
class LessAndLess(ctd.Exploration):
    """ε-greedy with ε over the square root of the visits of a state."""

    arrays: ClassVar[Mapping[str, str]] = {"visits": "float64[S]"}

    @ctd.kernel
    def probabilities(exploration, q, state, legal, rate, out):
        epsilon_greedy(q, legal, rate / (1.0 + exploration.visits[state]) ** 0.5, out)

    @ctd.kernel
    def count_action(exploration, state, action, n_actions):
        exploration.visits[state] += 1.0


@dataclass(frozen=True)
class Recent(KernelModel):
    """How probable the next state is: an average of 0 and 1 that forgets, per pair."""

    rate: float = 0.2
    arrays: ClassVar[Mapping[str, str]] = {"chances": "float64[S, A]", "latest": "int64[S, A]"}

    @ctd.kernel
    def observe(model, step, counting):
        s, a = step.state, step.action
        same = 1.0 if model.latest[s, a] == step.percept + 1 else 0.0
        model.chances[s, a] += model.rate * (same - model.chances[s, a])
        model.latest[s, a] = step.percept + 1

    @ctd.kernel
    def chance(step, action, part):
        return step.model.chances[step.state, action]


class Drift(NamedTuple):
    """A walk on a line that drifts to the right; the right end pays 1."""

    length: int
    slip: float
    nvec: tuple[int, ...] = (7,)
    n_actions: int = 2
    n_rewards: int = 1
    draws: int = 1
    horizon: int = 60

    @classmethod
    def make(cls, length=7, slip=0.3):
        return cls(length, slip, (length,))

    @ctd.kernel
    def time_limit(env):
        return 60

    @ctd.kernel
    def reset(env, rng, state):
        state[0] = 0

    @ctd.kernel
    def legal(env, state):
        return 2

    @ctd.kernel
    def step(env, rng, state, action, reward):
        right = uniform(rng) >= env.slip if action == 1 else uniform(rng) < env.slip
        state[0] = max(state[0] - 1, 0) if not right else state[0] + 1
        reward[0] = 1.0 if state[0] == env.length - 1 else 0.0
        return state[0] == env.length - 1


class Hats(Features):
    """Three overlapping hats on [0, 1], computed in a kernel."""

    kind, count, active, numbers, has_codes = "hats", 3, 3, 1, False

    def __init__(self):
        self.codes, self.rates = DiscreteIndexer(1), np.full(3, 0.5)

    def show(self, observation):
        return np.asarray(observation, np.float64)

    def compiled(self):
        return HatMap(np.array([0.0, 0.5, 1.0]))

    def initial_weights(self, value):
        return np.full(3, value)

    def state(self):
        return {"kind": self.kind}

    @classmethod
    def from_state(cls, state):
        return cls()


class HatMap(NamedTuple):
    centres: Annotated[np.ndarray, "float64[k]"]

    @ctd.kernel
    def write(hats, shown, index, value):
        found = 0
        for k in range(hats.centres.size):
            height = 1.0 - 2.0 * abs(shown[0] - hats.centres[k])
            if height > 0.0:
                index[found] = k
                value[found] = height
                found += 1
        return found


def discrete(dynamics):
    """The dynamics as a Gymnasium environment."""
    from chunked_td.envs.face import DynamicsEnv

    return DynamicsEnv(dynamics)
