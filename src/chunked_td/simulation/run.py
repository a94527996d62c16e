"""One run of the simulation: its tables, its random numbers, and how far it has come. See `chunked_td.seeding`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from chunked_td._numba import check_layout, formed, is_cacheable, static, static_if_small, zeros
from chunked_td.bootstraps import BOOTSTRAPS
from chunked_td.envs.protocol import Dynamics, independent_copy, legal_masks, prepare
from chunked_td.lambdas.base import LambdaSource, Needs
from chunked_td.learners.count_models import pairs_per_step
from chunked_td.learners.exploration import Exploration
from chunked_td.learners.planning.base import Planner, PlanningStream, RewardSource
from chunked_td.learners.state import build_state, with_room
from chunked_td.learners.views import View
from chunked_td.models.errors import ModelError
from chunked_td.models.oracle import Oracle, TableOracle
from chunked_td.seeding import Draws, GuardedStream, SeedSequences, Stream, generator, split_seed
from chunked_td.simulation.kernels import (
    NO_ACTIONS,
    NO_DRAWS,
    NO_END,
    NO_STATE,
    LambdaSums,
    Record,
    Room,
    Stage,
    Streams,
    Totals,
    play_block,
)

_BLOCK = 1 << 14  # uniforms drawn ahead per stream
_UNUSED = {"prior": 0.0, "cutoff": 0.0, "initial_value": 0.0, "features": None}  # settings of a `Learner`, not of a run


def compiled_for(loop: Any, *forms: Any) -> Any:
    """`loop` for arguments of these forms; kept on disk unless a form has no source that could be read."""
    return loop.for_python(is_cacheable(*forms)) if hasattr(loop, "for_python") else loop


class Run:
    """One run. Arguments as in `simulate`.

    Args:
      model: "counts", "oracle", or None for a λ that needs no model or comes from outside (`lockstep`).
      error: what is wrong with the count models, if anything.
      source: the compiled λ source, where it is not `lambda_source`'s own.
      record: keep the states, actions and policies of the latest episode in `stage.record`.
      sum_lambda: add up λ in `stage.lambdas`.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        *,
        learner: str,
        lambda_source: LambdaSource,
        model: str | None,
        view: View,
        step_size: float,
        discount: float,
        epsilons: np.ndarray,
        seed: int,
        replacing: bool = False,
        planner: Planner | None = None,
        reward_source: RewardSource | None = None,
        exploration: Exploration | None = None,
        error: ModelError | None = None,
        source: Any = None,
        record: bool = False,
        sum_lambda: bool = False,
    ):
        self.name, self.env = type(dynamics).__name__, formed(independent_copy(dynamics))
        self.step_size, self.epsilons = float(step_size), epsilons
        A, T = dynamics.n_actions, dynamics.horizon
        nvec, bootstrap = np.array(dynamics.nvec, np.int64), BOOTSTRAPS[learner]
        states, seeds = int(nvec.prod()), split_seed(seed)
        one_loop = getattr(dynamics, "one_loop", False)
        n_actions = A if one_loop else static_if_small(A)
        draws = 0 if planner is None else planner.draws * T
        self.plan_draws = Draws(generator(seeds.planning), max(_BLOCK, 2 * draws) if draws else 0)
        choices = SimpleNamespace(
            bootstrap=bootstrap,
            lambda_source=lambda_source,
            view=view,
            replacing=replacing,
            discount=discount,
            planner=planner,
            reward_source=reward_source,
            exploration=exploration,
            n_paid=dynamics.n_rewards,
            **_UNUSED,
        )
        known = _true_model(dynamics, lambda_source, bootstrap) if model == "oracle" else model
        room = dynamics.nvec, states, T, self.plan_draws.stream
        self.agent = build_state(
            choices, n_actions, *room, model=error or known, known_states=states, source=source, one_loop=one_loop
        )
        if source is not None:  # λ is computed after the episode, from the policies as they were
            self.agent = self.agent._replace(rule=self.agent.rule._replace(keeps_policy=static(1)))
        check_layout(self.agent)
        kept = zeros(Record, {"k": T + 1, "T": T, "c": nvec.size, "A": A, "p": dynamics.n_rewards}) if record else None
        trusted = type(dynamics).__module__.startswith("chunked_td.")
        masks, sums = legal_masks(dynamics), zeros(LambdaSums, {}) if sum_lambda else None
        d = self.agent.tables.values.shape[1]
        self.stage = Stage.empty(nvec, n_actions, dynamics.n_rewards, d, masks, T, trusted, kept, sums)
        self._prepare(dynamics, seeds, view, draws)
        planned = () if self.agent.planning is None else (self.agent.planning.planner,)
        learned = self.agent.source, self.agent.error, self.agent.tables.exploration
        self.loop = compiled_for(play_block, self.env, *learned, *planned)
        self.totals = zeros(Totals, {})
        self.episode, self.diverged = 0, -1

    def _prepare(self, dynamics: Dynamics, seeds: SeedSequences, view: View, planning: int) -> None:
        """Random numbers, and what the environment draws once."""
        T = dynamics.horizon
        sampled = T if view == "sampled" else 0
        transitions = 0 if self.agent.planning is None else T
        pairs = T * pairs_per_step(self.agent.model)
        self.room = Room(dynamics.draws * (T + 1), T + 1, sampled, pairs, transitions, planning)
        sizes = max(_BLOCK, 4 * self.room.env), max(_BLOCK, 4 * self.room.policy), 4 * sampled
        self.draws = [Draws(generator(sequence), size) for sequence, size in zip(seeds[:3], sizes, strict=True)]
        stream = self.env_stream(self.draws[0].reserve(dynamics.draws))
        prepare(self.env, stream)
        if stream.position[0] > stream.block.size:
            check_dynamics(self.name, NO_DRAWS, 0)

    def env_stream(self, stream: Stream) -> Any:
        """The environment's random numbers; dynamics that are not ours may take too many of them."""
        return stream if self.stage.trusted.value else GuardedStream(*stream)

    def _make_room(self) -> None:
        """Refill random numbers and grow the count model where the next episode might run out."""
        needed = self.room.env, self.room.policy, self.room.coins
        env, *others = (draws.reserve(count) for draws, count in zip(self.draws, needed, strict=True))
        self.streams = Streams(self.env_stream(env), *others)
        self.agent = with_room(self.agent, self.stage.horizon)
        if self.agent.planning is not None:
            stream = PlanningStream(*self.plan_draws.reserve(self.room.planning))
            self.agent = self.agent._replace(planning=self.agent.planning._replace(rng=stream))

    def play_to(self, episode: int) -> None:
        """Play until `episode` episodes are done, or until learning diverges: `diverged` is the episode of that."""
        while self.episode < episode and self.diverged < 0:
            self._make_room()
            self.episode = self.loop(
                self.env,
                self.agent,
                self.stage,
                self.streams,
                self.room,
                self.epsilons,
                self.step_size,
                self.episode,
                episode,
                self.totals,
            )
            if self.agent.watch[0]:
                check_dynamics(self.name, int(self.agent.watch[0]), self.episode - 1)
                self.diverged = self.episode - 1

    @property
    def values(self) -> np.ndarray:
        """The table of values, float64[rows, d]."""
        return self.agent.tables.values

    def take_lambda(self) -> float:
        """Mean λ since this was last asked; NaN where no step had one."""
        sums = self.stage.lambdas
        mean = float(sums.total[0] / sums.steps[0]) if sums.steps[0] else np.nan
        sums.total[0], sums.steps[0] = 0.0, 0
        return mean


def check_dynamics(name: str, watch: int, episode: int) -> None:
    """Refuse dynamics that have not kept to what they declare; compiled code stopped there."""
    faults = {
        NO_STATE: "wrote a state component outside 0..nvec − 1",
        NO_ACTIONS: "offered a number of legal actions outside 1..n_actions",
        NO_END: "did not end the episode within horizon transitions",
        NO_DRAWS: "took more random numbers than draws says",
    }
    for bit, fault in faults.items():
        if watch & bit:
            raise ValueError(f"dynamics {name} {fault}, in episode {episode}")


def _true_model(dynamics: Any, source: LambdaSource, bootstrap: int) -> Any:
    """The compiled form of the true model."""
    if hasattr(dynamics, "transition_lists"):
        return TableOracle.make(*dynamics.transition_lists())
    needs = source.needs_with(bootstrap)
    everything = {"all_actions": Needs.POLICY in needs, "all_outcomes": Needs.OUTCOMES in needs}
    return Oracle.empty(np.array(dynamics.nvec, np.int64), dynamics.n_actions, **everything)
