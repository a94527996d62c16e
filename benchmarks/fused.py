"""The fused simulation: against C, against dense NumPy tables, in threads, and as episodes grow longer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from benchmarks.c_rivals import NOTICE, Rival, library
from benchmarks.python_rivals import dense_sarsa
from benchmarks.timing import Row, at_least, at_most, fastest
from chunked_td.bootstraps import BOOTSTRAPS
from chunked_td.envs.dynamics import AccumulatedCharge, ChainAndSplit, KeyToDoor
from chunked_td.lambdas.base import MODEL
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.factored import FactoredLambda
from chunked_td.lambdas.forward import ForwardLambda
from chunked_td.simulation import Run, simulate

KINDS = {
    "accumulated_charge": (AccumulatedCharge.make, "sarsa", ConstantLambda(0.9), "Accumulated-Charge, SARSA(0.9)"),
    "chain_and_split": (ChainAndSplit.make, "sarsa", ForwardLambda(), "Chain-and-Split, Chunked SARSA, counts"),
    "key_to_door": (KeyToDoor.make, "expected_sarsa", FactoredLambda(literal=True), "Key-to-Door, factored, counts"),
}


def make_run(kind: str, episodes: int, seed: int = 0, **sizes) -> Run:
    """A run of ours at the paper's sizes, or others."""
    make, learner, source, _ = KINDS[kind]
    return Run(
        make(**sizes),
        learner=learner,
        lambda_source=source,
        model="counts" if source.inputs(BOOTSTRAPS[learner]) & MODEL else None,
        view="offline",
        step_size=0.1,
        discount=1.0,
        epsilons=np.full(episodes, 0.1),
        seed=seed,
    )


def stopwatch(play: Callable[[], object], steps: Callable[[], int], clock=time.process_time) -> float:
    """Seconds per step."""
    begin = clock()
    play()
    return (clock() - begin) / steps()


def against_c(kind: str, episodes: int, turns: int) -> Row:
    """Same environment, same random numbers, same table of values; values equal to the last bit."""
    ours, theirs = [], []
    make_run(kind, 1).play_to(1)
    for _ in range(turns):
        run = make_run(kind, episodes)
        rival = Rival(run, kind, episodes)
        ours.append(stopwatch(lambda run=run: run.play_to(episodes), lambda run=run: int(run.totals.steps[0])))
        theirs.append(stopwatch(rival.play, lambda run=run: int(run.totals.steps[0])))
        np.testing.assert_array_equal(run.values, rival.values)
    return at_most(KINDS[kind][3], min(ours), min(theirs), 1.5, "C -O3, one thread")


def against_numpy(quick: bool) -> Row:
    """A few dense episodes are enough: each step touches all of |S||A| twice."""
    episodes, few = 500 if quick else 2_000, 1 if quick else 3
    make_run("accumulated_charge", 1).play_to(1)

    def ours() -> int:
        run = make_run("accumulated_charge", episodes)
        run.play_to(episodes)
        return int(run.totals.steps[0])

    def dense() -> int:
        run = make_run("accumulated_charge", few)
        streams = [draws.stream for draws in run.draws[:2]]
        return dense_sarsa(run.env, *streams, few, 0.1, 0.9, 1.0, 0.1)[1]

    note = "dense traces in NumPy"
    return at_least(KINDS["accumulated_charge"][3], *fastest(2 if quick else 3, ours, dense), 5_000, note)


def threads(quick: bool) -> Row:
    """Eight runs on one thread and on two, by the clock on the wall."""
    episodes = 500 if quick else 40_000  # so long that setting up a run does not count

    def turn(count: int) -> Callable[[], int]:
        def play() -> int:
            runs = simulate(
                AccumulatedCharge.make(),
                lambda_source=ConstantLambda(0.9),
                step_sizes=0.1,
                seeds=np.arange(8),
                episodes=episodes,
                threads=count,
            )
            return int(runs.steps.sum())

        return play

    one, two = fastest(3 if quick else 5, turn(1), turn(2), clock=time.perf_counter)
    note = f"one thread; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return at_least("two threads, Accumulated-Charge", two, one, 1.8, note)


def as_episodes_grow(quick: bool) -> Row:
    """Cost per step for H from 100 to 3,000; the charge stays small, and with it the memory touched."""
    horizons, steps, times = (100, 300, 1_000, 3_000), 60_000 if quick else 600_000, []
    for horizon in horizons:
        episodes = steps // horizon

        def turn(horizon=horizon, episodes=episodes) -> float:
            run = make_run("accumulated_charge", episodes, horizon=horizon, success=0.01)
            run.play_to(1)  # touches fresh memory for the first time
            before = int(run.totals.steps[0])
            return stopwatch(lambda: run.play_to(episodes), lambda: int(run.totals.steps[0]) - before)

        times.append(min(turn() for _ in range(3)))
    note = f"least of H = {horizons}: " + ", ".join(f"{t * 1e9:.1f} ns" for t in times)
    return at_most("steps of long episodes", max(times), min(times), 1.5, note)


def measure(quick: bool) -> list[Row]:
    """All rows."""
    if library() is None:
        rows = [Row("fused simulation", None, None, None, note=NOTICE)]
    else:
        sizes = {"accumulated_charge": 2_000, "chain_and_split": 10_000, "key_to_door": 1_000}
        rows = [against_c(kind, n // (4 if quick else 1), 3 if quick else 7) for kind, n in sizes.items()]
    return [*rows, against_numpy(quick), threads(quick), as_episodes_grow(quick)]
