"""Attacks by numbers: step sizes, rewards and λs under which learning breaks down; dynamics that break their word."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chunked_td import LambdaSource, kernel
from chunked_td.seeding import uniform
from tools.attack.registry import Case, Found, Outcome, attack

SIZES = (1e-300, 1e-3, 0.5, 1.9, 2.1, 5.0, 50.0, 1e10, 1e100, 1e300)


@dataclass(frozen=True)
class Given(LambdaSource):
    """Any number as λ."""

    value: float

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        """The number."""
        return source.value


class Ring(NamedTuple):
    """States in a circle, with huge rewards; the numbers say what goes wrong, and when."""

    horizon: int
    reward: float
    state: int
    choices: int
    taken: int
    last: int

    nvec = (3,)
    n_actions = 2
    n_rewards = 1
    draws = 1

    @staticmethod
    @kernel
    def prepare(env, rng):
        """Nothing."""

    @staticmethod
    @kernel
    def reset(env, rng, state):
        """At 0."""
        state[0] = 0

    @staticmethod
    @kernel
    def step(env, rng, state, action, reward):
        """Walk on, or write what must not be."""
        here = state[0]
        state[0] = (here + 1 + action) % 3
        for _ in range(env.taken):
            if uniform(rng) < 0.1:
                state[0] = env.state
        reward[0] = env.reward
        return here == env.last

    @staticmethod
    @kernel
    def legal(env, state):
        """As told."""
        return env.choices

    @staticmethod
    @kernel
    def miss(env, first_action, state):
        """Whether the first action was the second."""
        return first_action != 0

    @staticmethod
    @kernel
    def probability(env, state, action, next_state, out):
        """Not used."""
        out[0] = 1.0

    def outcomes(self, state: Any, action: int) -> list[Any]:
        """Not used."""
        return []


def compile_ring() -> None:
    """All loops that the cases run."""
    for view in ("traces", "offline", "sampled"):
        simulate_ring(Ring(1000, 1.0, 0, 2, 1, 2), 0.5, 0.1, 0.1, view)


def simulate_ring(env: Ring, lambda_: float, step_size: float, epsilon: float, view: str) -> Any:
    """A few hundred episodes."""
    from chunked_td.simulation import simulate

    return simulate(
        env, step_sizes=step_size, seeds=0, lambda_source=Given(lambda_), epsilon=epsilon, view=view, episodes=300,
        record_at=(1, 100), probes=((0, 0),), keep_values=True, threads=1,
    )  # fmt: skip


@attack("divergence: simulated runs", prepare=compile_ring, seconds=60.0)
def simulated_runs(case: Case) -> Outcome:
    """Anything finite may go in; what comes out is finite, or marked as diverged."""
    rng = case.rng
    reward = float(rng.choice([0.0, 1.0, -1.0, 1e100, -1e300, 1.7e308]))
    lambda_ = float(rng.choice([0.0, 0.5, 1.0, 1.0, 1.5, -0.5, math.nan, math.inf]))
    step_size, view = float(rng.choice(SIZES)), str(rng.choice(["traces", "offline", "sampled"]))
    epsilon = float(rng.choice([0.0, 0.3, 1.0]))
    env = Ring(int(rng.choice([30, 500])), reward, 0, 2, 1, int(rng.integers(3)))
    case.say(f"{env}, λ {lambda_}, α {step_size}, {view}, ε {epsilon}")
    try:
        runs = simulate_ring(env, lambda_, step_size, epsilon, view)
    except ValueError as error:
        if "did not end the episode within horizon" in str(error):
            return Outcome.REFUSED
        raise
    lost = runs.diverged[0] >= 0
    if not lost and not (np.isfinite(runs.values).all() and np.isfinite(runs.probes_at).all()):
        raise Found(Outcome.SILENT, "values that are no numbers, and nothing said")
    if not 0 <= runs.misses[0] <= 300:
        raise Found(Outcome.SILENT, f"{runs.misses[0]} misses in 300 episodes")
    return Outcome.REFUSED if lost else Outcome.HARMLESS


@attack("divergence: dynamics that break their word", prepare=compile_ring, seconds=60.0)
def dynamics_that_break_their_word(case: Case) -> Outcome:
    """States, actions, lengths and draws that were not declared."""
    rng = case.rng
    state = int(rng.choice([0, 3, -1, 10**6, -(10**9), 2**62]))
    choices = int(rng.choice([2, 2, 0, -1, 3, 10**9]))
    env = Ring(
        int(rng.choice([1, 8])), 1.0, state, choices, int(rng.choice([1, 3, 100, 50_000])), int(rng.integers(-1, 3))
    )
    view = str(rng.choice(["traces", "offline", "sampled"]))
    case.say(f"{env}, {view}")
    try:
        simulate_ring(env, 0.5, 0.1, 0.3, view)
    except ValueError as error:
        if "dynamics Ring" not in str(error):
            raise
        return Outcome.REFUSED
    return Outcome.HARMLESS


def compile_agents() -> None:
    """The learners of `agents`."""
    import chunked_td as ctd

    for name in ("SarsaLambda", "ChunkedTD", "CorrectedTD"):
        for view in ("traces", "offline"):
            agent = make_agent(ctd, name, view, 0.1)
            agent.start(0)
            agent.step(0.0, 1, True)


def make_agent(ctd: Any, name: str, view: str, step_size: float) -> Any:
    """A learner for six states."""
    from types import SimpleNamespace

    import gymnasium as gym

    env = SimpleNamespace(observation_space=gym.spaces.Discrete(6), action_space=gym.spaces.Discrete(2))
    if name == "CorrectedTD":
        return ctd.CorrectedTD(env)
    return getattr(ctd, name)(env, step_size=step_size, discount=1.0, lambda_source=1.0, view=view)


@attack("divergence: agents", prepare=compile_agents, seconds=60.0)
def agents(case: Case) -> Outcome:
    """Rewards of any size: the values stay numbers, or the learner says that it diverged."""
    import chunked_td as ctd

    rng = case.rng
    name, view = str(rng.choice(["SarsaLambda", "ChunkedTD", "CorrectedTD"])), str(rng.choice(["traces", "offline"]))
    agent, scale = make_agent(ctd, name, view, float(rng.choice(SIZES))), float(rng.choice([1.0, 1e50, 1e200, 1.7e308]))
    case.say(f"{name}, {view}, α {agent.step_size}, rewards of {scale}")
    try:
        for _ in range(20):
            agent.start(int(rng.integers(6)))
            for _ in range(int(rng.integers(1, 100))):
                agent.step(scale * float(rng.uniform(-1, 1)), int(rng.integers(6)), False)
            agent.step(scale, 0, True)
    except ctd.Diverged:
        return Outcome.REFUSED
    if not np.isfinite(agent.tables.values).all():
        raise Found(Outcome.SILENT, "values that are no numbers, and nothing said")
    return Outcome.HARMLESS
