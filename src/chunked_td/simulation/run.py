"""One run of the simulation: its arrays, its random numbers and its progress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from chunked_td._link import Counted, Packed, Program, static, zeros
from chunked_td.bootstraps import BOOTSTRAPS
from chunked_td.envs.protocol import Dynamics, independent_copy, legal_masks
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.plain import PlainStep, checked_lambda
from chunked_td.learners.core import Work
from chunked_td.learners.count_models import pairs_per_step
from chunked_td.learners.state import build_state, parts_of, with_room
from chunked_td.models.oracle import Oracle, TableOracle
from chunked_td.seeding import Draws, split_seed
from chunked_td.simulation.play import (
    NO_ACTIONS,
    NO_DRAWS,
    NO_END,
    NO_STATE,
    LambdaSums,
    Record,
    Scene,
    Stage,
    Totals,
    play,
)
from chunked_td.traces import View

_UNUSED = {"prior": 0.0, "cutoff": 0.0, "initial_value": 0.0, "features": None}  # settings of a `Learner`, not of a run
KNOWN = {"word": 5, "three": 3, "one": 1}
"""Lengths of axes that are constants in every program."""


class Run:
    """One run. Arguments as in `simulate`.

    Args:
      model: "counts", "oracle", or None for a λ that needs no model or is computed elsewhere (`lockstep`).
      error: a `ModelError` of the count models, or None.
      source: kernels of the λ source if they are not those of `lambda_source`. record: keep the latest episode.
      sum_lambda: sum λ over steps. program: of another run with the same settings. compiled: False plays in Python.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        *,
        learner: str,
        lambda_source: LambdaSource,
        model: str | None,
        view: str | View,
        step_size: float,
        discount: float,
        epsilons: np.ndarray,
        seed: int,
        replacing: bool = False,
        planner: Any = None,
        reward_source: Any = None,
        exploration: Any = None,
        error: Any = None,
        source: Any = None,
        record: bool = False,
        sum_lambda: bool = False,
        program: Program | None = None,
        compiled: bool = True,
    ):
        self.name, self.env = type(dynamics).__name__, independent_copy(dynamics)
        nvec, bootstrap = np.array(dynamics.nvec, np.int64), BOOTSTRAPS[learner]
        A, T, d, one_loop = dynamics.n_actions, dynamics.horizon, dynamics.n_rewards, getattr(dynamics, "one_loop", 0)
        seeds = split_seed(seed)
        self.draws = [Draws.of(sequence) for sequence in seeds]  # environment, policy, coins, planner
        choices = SimpleNamespace(
            bootstrap=bootstrap, lambda_source=lambda_source, view=view, replacing=replacing, discount=discount,
            planner=planner, reward_source=reward_source, exploration=exploration, n_paid=d, error=error, model=model,
            **_UNUSED,
        )  # fmt: skip
        known: Any = true_model(dynamics, lambda_source, bootstrap) if model == "oracle" else model
        state = self.agent = build_state(
            choices, A if one_loop else static(A), dynamics.nvec, int(nvec.prod()), T, self.draws[3].stream,
            model=error or known, known_states=int(nvec.prod()), source=source, one_loop=bool(one_loop),
        )  # fmt: skip
        if record:  # λ is computed after the episode, from the policies during it
            self.agent = state._replace(rule=state.rule._replace(keeps_policy=static(1)))
        trusted = type(dynamics).__module__.startswith("chunked_td.")
        sizes = {"c": nvec.size, "p": d, "d": state.tables.values.shape[1], "A": A}
        strides = np.append(np.cumprod(nvec[:0:-1])[::-1], 1).astype(np.int64)
        kept = zeros(Record, {**sizes, "k": T + 1, "T": T}) if record else None
        self.stage = zeros(
            Stage, sizes, strides=strides, legal=legal_masks(dynamics), horizon=T, draws=dynamics.draws * (T + 1),
            pairs=T * pairs_per_step(state.model), trusted=static(trusted), record=kept,
            lambdas=zeros(LambdaSums, {}) if sum_lambda else None,
        )  # fmt: skip
        self.totals, self.epsilons = zeros(Totals, {}), np.ascontiguousarray(epsilons)
        self.work = {
            "rng": self.draws[1].stream, "coins": self.draws[2].stream, "reward": np.zeros(d),
            "rates": np.array([0.0, step_size, 1.0]), "legal": np.ones(A, bool),
        }  # fmt: skip
        self.packed: Packed | None = None
        self.episode, self.diverged = 0, -1
        if one_loop:
            del sizes["A"]
        parts = parts_of(state, lambda_source if source is None else source, choices, type(dynamics))
        if not lambda_source.is_compiled:
            parts["source"], compiled = InPython(lambda_source), False
        scopes = {} if trusted else {"dynamics": {"rng": Counted}}
        self.program = program or Program(self.scene, parts, sizes | KNOWN, scopes=scopes, compiled=compiled)
        if hasattr(dynamics, "prepare"):
            self._play(-1, -1)
            if not trusted and self.draws[0].stream.words[4] > dynamics.draws:
                check_dynamics(self.name, NO_DRAWS, 0)

    @property
    def scene(self) -> Scene:
        """Current arrays."""
        parts: Any = self.agent
        m = Work(*parts, **self.work)
        return Scene(m, self.env, self.draws[0].stream, self.stage, self.totals, self.epsilons)

    def _play(self, first: int, last: int) -> int:
        if self.packed is None:
            self.packed = Packed(self.scene, self.program.compiled)
        return self.program(play, 2)(self.packed.address, first, last)

    def play_to(self, episode: int) -> None:
        """Play until `episode` episodes are finished or learning diverges; then `diverged` is that episode."""
        while self.episode < episode and self.diverged < 0:
            larger = with_room(self.agent, self.stage.horizon)
            if larger is not self.agent:
                self.agent, self.packed = larger, None
            self.episode = self._play(self.episode, episode)
            if self.agent.watch[0]:
                check_dynamics(self.name, int(self.agent.watch[0]), self.episode - 1)
                self.diverged = self.episode - 1

    @property
    def values(self) -> np.ndarray:
        """The table of values, float64[rows, d]."""
        return self.agent.tables.values

    def take_lambda(self) -> float:
        """Mean λ since the previous call; NaN if no step had a λ."""
        sums = self.stage.lambdas
        mean = float(sums.total[0] / sums.steps[0]) if sums.steps[0] else np.nan
        sums.total[0], sums.steps[0] = 0.0, 0
        return mean


class InPython:
    """Kernels of a λ source in plain Python, for an uncompiled run."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def write_lambda(self, m: Any, step: Any) -> None:
        """Write λ_t into `memory.lambda_t`."""
        given = self.source.lambda_t(PlainStep.of(step))
        m.memory.lambda_t[:] = checked_lambda(self.source, given, m.memory.lambda_t.size)


def check_dynamics(name: str, watch: int, episode: int) -> None:
    """Raise ValueError for dynamics that violate their declarations; compiled code has stopped there."""
    faults = {
        NO_STATE: "wrote a state component outside 0..nvec − 1",
        NO_ACTIONS: "returned a number of legal actions outside 1..n_actions",
        NO_END: "did not end the episode within horizon transitions",
        NO_DRAWS: "took more random numbers than draws",
    }
    for bit, fault in faults.items():
        if watch & bit:
            raise ValueError(f"dynamics {name} {fault}, in episode {episode}")


def true_model(dynamics: Any, source: LambdaSource, bootstrap: int) -> Any:
    """Compiled form of the true model."""
    if hasattr(dynamics, "transition_lists"):
        return TableOracle.make(*dynamics.transition_lists())
    inputs = source.inputs(bootstrap)
    everything = {"all_actions": "policy" in inputs, "all_outcomes": bool(inputs & {"overlaps", "outcomes"})}
    return Oracle.empty(np.array(dynamics.nvec, np.int64), dynamics.n_actions, **everything)
