"""One run of the fused simulation: its tables, its random numbers, and how far it has come.

Seeds: run `s` draws its environment from `SeedSequence(s)`, exactly as `env.reset(seed=s)` does in Gymnasium, its
policy from the first child of that sequence and its model (sampled chunks, networks) from the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.compiled import Draws, known, uncached
from chunked_td.envs.dynamics.protocol import Dynamics, independent_copy
from chunked_td.lambdas import CONSTANT, EXPECTED_SARSA, EXTERNAL, FACTORED, SARSA, STATE, LambdaSource
from chunked_td.learners.recursion import SAMPLED, TRACES, VIEWS, Memory, Tables, needs_legal
from chunked_td.learners.setup import component_groups, count_origins, make_rule
from chunked_td.models.counts import Counts
from chunked_td.simulation_kernels import Progress, World, play_block
from chunked_td.traces import Trace

BOOTSTRAPS = {"td": STATE, "sarsa": SARSA, "expected_sarsa": EXPECTED_SARSA}
"""Learners by name; the λ source makes each of them a fixed-λ or a chunked one."""

_BLOCK = 1 << 14  # uniforms drawn ahead per stream


def compiled_for(dynamics: Dynamics, loop: Any) -> Any:
    """`loop`, or for an environment that is not ours a copy without the cache on disk, which does not know its code."""
    return loop if type(dynamics).__module__.startswith("chunked_td.") else uncached(loop)


class Run:
    """One run. Arguments as in `simulate`.

    Args:
      model: "counts", "oracle", or any other name for a λ that comes from outside (`chunked_td.fleet`).
      record_states: keep the states, actions and policies of the latest episode in `world`.
      specialise: compile a loop for this very rule, which is faster; otherwise one per environment serves all rules.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        *,
        learner: str,
        lambda_source: LambdaSource,
        model: str | None,
        view: str,
        step_size: float,
        discount: float,
        epsilons: np.ndarray,
        seed: int,
        record_states: bool = False,
        specialise: bool = True,
    ):
        self.env: Any = independent_copy(dynamics)
        self.loop = compiled_for(dynamics, play_block)
        self.step_size, self.epsilons = float(step_size), epsilons
        external = model not in (None, "counts")
        bootstrap = BOOTSTRAPS[learner]
        self.rule = make_rule(bootstrap, lambda_source, VIEWS[view], dynamics.actions, discount, external=external)
        oracle = 0 if model != "oracle" else (2 if lambda_source.code == FACTORED else 1)
        codes = ("bootstrap", "source", "mode", "policy")
        fix = known if specialise else int
        self.oracle = None if specialise and not oracle else fix(oracle)
        self.fixed_rule = self.rule._replace(**{name: fix(getattr(self.rule, name)) for name in codes})
        nvec = np.array(dynamics.nvec, np.int64)
        states = int(nvec.prod())
        self._tables(nvec, states, lambda_source)
        counting = self.rule.source not in (CONSTANT, EXTERNAL) or not specialise
        self.counts = Counts.empty(count_origins(self.rule, states, dynamics.rewards)) if counting else None
        A, d, T = dynamics.actions, dynamics.rewards, dynamics.horizon
        offline = self.rule.mode != TRACES
        self.memory = Memory.empty(A, d, T if offline else 0)
        self.trace = None
        if not (offline and specialise):
            self.trace = Trace.empty(0 if offline else self.tables.values.shape[0], d, 0 if offline else T)
        self.world = World.empty(nvec, A, d, T if record_states else -1, specialise)
        self._randomness(dynamics, seed)
        self.progress = Progress(np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64))
        self.episode = 0

    def _tables(self, nvec: np.ndarray, states: int, source: LambdaSource) -> None:
        A, d = self.rule.actions, self.env.rewards
        rows = states if self.rule.bootstrap == STATE else states * A
        legal = np.zeros((states if needs_legal(self.rule) else 0, A), bool)
        groups = component_groups(source, d, nvec.size)
        self.tables = Tables(np.zeros((rows, d)), legal, nvec, groups)

    def _randomness(self, dynamics: Dynamics, seed: int) -> None:
        root = np.random.SeedSequence(seed)
        policy, model = root.spawn(2)
        T = dynamics.horizon
        sampled = T if self.rule.mode == SAMPLED else 0
        pairs = T * (dynamics.rewards if self.rule.source == FACTORED else 1)
        counting = pairs if count_origins(self.rule, 1, 1) > 0 else 0
        self.needs = np.array([dynamics.draws * (T + 1), T + 1, sampled, counting], np.int64)
        sizes = [max(_BLOCK, 4 * int(n)) for n in self.needs[:2]] + [4 * sampled]
        generators = [np.random.Generator(np.random.PCG64(sequence)) for sequence in (root, policy, model)]
        self.draws = [Draws(g, size) for g, size in zip(generators, sizes, strict=True)]
        type(self.env).prepare(self.env, self.draws[0].reserve(dynamics.draws))

    def _make_room(self) -> None:
        """Refill random numbers and grow the count table where the next episode might run out."""
        self.streams = tuple(draws.reserve(int(need)) for draws, need in zip(self.draws, self.needs[:3], strict=True))
        if self.counts is None:
            return
        capacity = self.counts.origin.size
        if capacity - self.counts.size[0] < self.needs[3]:
            self.counts = self.counts.grown(self.counts.head.size, 2 * capacity + int(self.needs[3]))

    def play_to(self, episode: int) -> None:
        """Play until `episode` episodes are done."""
        while self.episode < episode:
            self._make_room()
            self.episode = self.loop(
                self.env,
                self.fixed_rule,
                self.tables,
                self.trace,
                self.counts,
                self.memory,
                self.world,
                self.streams,
                self.needs,
                self.oracle,
                self.epsilons,
                self.step_size,
                self.episode,
                episode,
                self.progress,
            )

    def probe(self, rows: np.ndarray) -> np.ndarray:
        """Σ_i Q^i of the given rows."""
        return self.tables.values[rows].sum(axis=1)
