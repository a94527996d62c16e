"""The `api` of the golden cases for the code as it is: names of the package, and what studies add from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import chunked_td as ctd
from chunked_td import kernel
from chunked_td.envs import dynamics
from chunked_td.envs.linear_key_to_door.dynamics import linear_key_to_door
from chunked_td.envs.t_maze.timed import TimedTMaze
from chunked_td.lambdas.base import LambdaSource
from chunked_td.simulation import simulate
from chunked_td.simulation.lockstep import LockstepRuns
from studies.credit.exploration import ReturnBonus
from studies.memory.exploration import EpsilonPerStay
from studies.runner.averaged import Averaged, Corrected
from studies.wrong_models.errors import CorruptedModel, PermutedModel, StaleModel


@dataclass(frozen=True)
class TiltedLambda(LambdaSource):
    """The stand-in for the network of Accumulated-Charge (its study has the text)."""

    high: float = 0.975
    low: float = 0.94
    noisy: float = 0.015
    expected: bool = False
    trial: int = 0

    arrays: ClassVar[Mapping[str, str]] = {"visits": "float64[S]", "times": "float64[S]", "mean": "float64[S]"}

    @kernel
    def lambda_t(source, step, i):
        times, charges = step.tables.nvec[2], step.tables.nvec[1]
        charge, after = step.state // times % charges, step.next_state // times % charges
        if source.visits[step.state] < source.trial:
            return 1.0
        if after != charge:
            return source.noisy
        p = source.high if charge > source.mean[step.state % times] else source.low
        return p * p if source.expected else p

    @kernel
    def after_step(source, step, reward, td_error, ended):
        times, charges = step.tables.nvec[2], step.tables.nvec[1]
        t, charge = step.state % times, step.state // times % charges
        source.visits[step.state] += 1.0
        source.times[t] += 1.0
        source.mean[t] += (charge - source.mean[t]) / source.times[t]


@dataclass(frozen=True)
class FallingLambda(LambdaSource):
    """λ = 1/√k in episode k."""

    arrays: ClassVar[Mapping[str, str]] = {"episodes": "float64[1]"}

    @kernel
    def lambda_t(source, step, i):
        return 1.0 / max(source.episodes[0], 1.0) ** 0.5

    @kernel
    def after_step(source, step, reward, td_error, ended):
        if step.previous < 0:
            source.episodes[0] += 1.0


@dataclass(frozen=True)
class PlainLambda(LambdaSource):
    """Plain Python, which asks for everything that a plain source may ask."""

    def asks(self, bootstrap):
        return ("mixture",)

    def lambda_t(self, step):
        return 0.5 * step.mixture() + 0.25 * (1.0 - step.policy[step.action])


class PlainModel:
    """A model object: counts in a dict."""

    def __init__(self, n_actions):
        self.n_actions, self.seen = n_actions, {}

    def observe(self, state, action, reward, next_state, terminated):
        row = self.seen.setdefault((state, action), {})
        row[next_state] = row.get(next_state, 0) + 1

    def distribution(self, state, action):
        row = self.seen.get((state, action), {})
        total = sum(row.values())
        return {target: number / (total + 1) for target, number in row.items()}

    def probabilities(self, state, next_state, reward):
        return np.array([self.distribution(state, a).get(next_state, 0.0) for a in range(self.n_actions)])


class Api:
    """Names of the package; a name that is not here is one of `chunked_td`."""

    simulate = staticmethod(simulate)
    TiltedLambda, FallingLambda, PlainLambda, PlainModel = TiltedLambda, FallingLambda, PlainLambda, PlainModel
    EpsilonPerStay, ReturnBonus, Averaged, Corrected = EpsilonPerStay, ReturnBonus, Averaged, Corrected
    CorruptedModel, PermutedModel, StaleModel = CorruptedModel, PermutedModel, StaleModel
    TimedTMaze, linear_key_to_door = TimedTMaze, staticmethod(linear_key_to_door)
    ChainAndSplit, AccumulatedCharge = dynamics.ChainAndSplit, dynamics.AccumulatedCharge
    KeyToDoor, SkewedSplit = dynamics.KeyToDoor, dynamics.SkewedSplit

    def __getattr__(self, name):
        return getattr(ctd, name)

    @staticmethod
    def table(agent):
        """float64[rows, d]: the values of the states that have an id."""
        return agent.tables.values[: agent._rows(agent.indexer.size)].copy()

    @staticmethod
    def weights(agent):
        """The weights of features."""
        return agent.trace.weights.copy()

    @staticmethod
    def lambda_t(agent):
        """float64[d]: λ of the latest transition."""
        return agent.memory.lambda_t.copy()

    lockstep = LockstepRuns

    @classmethod
    def replay(cls, dynamics, *, learner, source, discount, epsilons, seeds, step_sizes, columns, answers):
        """Runs whose λs were recorded: float32[E, B, T, m] → values float64[B, rows, d] and totals."""
        runs = cls.lockstep(
            dynamics,
            learner=learner,
            lambda_source=source,
            part_source=source,
            discount=discount,
            epsilons=epsilons,
            seeds=seeds,
            step_sizes=step_sizes,
            columns=columns,
            threads=1,
        )
        returned = []
        for answer in answers:
            runs.roll_out()
            runs.learn(answer)
            returned.append(runs.totals.returned[:, 0].copy())
        return {
            "values": runs.values.copy(),
            "misses": runs.totals.misses[:, 0].copy(),
            "returned": np.array(returned),
            "steps": runs.totals.steps[:, 0].copy(),
        }


api = Api()
