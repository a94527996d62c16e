"""Chunking and planning with the same wrong model, on a chain.

    python -m docs.evidence.model_errors

A lead-in of certain steps, then one of two outcomes. The values of the lead-in are known: γ^k times the mean reward.
Every method counts the same transitions, or the same wrong ones, and is scored by the root mean square error of the
lead-in's values at its own best step size of six. Chunking takes λ from the model and its targets from the world, so a
wrong model should cost speed only (with a λ that depends on the state alone). Planning takes targets from the model.
"""

from __future__ import annotations

import numpy as np

import chunked_td as ctd
from chunked_td.envs.dynamics import SkewedSplit
from chunked_td.simulation import simulate
from studies.wrong_models.errors import CorruptedModel, PermutedModel, StaleModel

LENGTH, DISCOUNT = 10, 0.9
METHODS = {
    "TD(0)": {"lambda_source": 0.0},
    "TD(0.9)": {"lambda_source": 0.9},
    "TD(1)": {"lambda_source": 1.0},
    "chunked": {"lambda_source": ctd.ForwardLambda()},
    "chunked, expected λ": {"lambda_source": ctd.ExpectedLambda()},
    "Dyna, 10 steps": {"lambda_source": 0.0, "planner": ctd.Dyna(10)},
    "prioritised sweeping": {"lambda_source": 0.0, "planner": ctd.PrioritisedSweeping(10)},
    "certainty equivalence": {"lambda_source": 0.0, "planner": ctd.CertaintyEquivalence()},
}
CHAIN = tuple(range(LENGTH + 1))
MODELS = {
    "right": "counts",
    "10 % corrupted": CorruptedModel(0.1, states=CHAIN),
    "30 % corrupted": CorruptedModel(0.3, states=CHAIN),
    "30 % permuted": PermutedModel(0.3, states=CHAIN),
    "all permuted": PermutedModel(1.0, states=CHAIN),
    "stale after 5": StaleModel(5),
}
STEP_SIZES = tuple(0.5 * 0.25**k for k in range(6))


def errors(episodes: int, seeds: int, methods=METHODS, models=MODELS) -> dict[tuple[str, str], float]:
    """Root mean square error over lead-in and seeds, by (method, model), at the best step size of each."""
    dynamics = SkewedSplit.make(probability=0.5, reward=1.0, length=LENGTH)
    truth = 0.5 * DISCOUNT ** np.arange(LENGTH, -1, -1)
    runs = [(seed, size) for size in STEP_SIZES for seed in range(seeds)]
    found = {}
    for method, settings in methods.items():
        for model, wrong in models.items():
            played = simulate(
                dynamics,
                learner="td",
                model=wrong,
                seeds=[seed for seed, _ in runs],
                step_sizes=[size for _, size in runs],
                discount=DISCOUNT,
                episodes=episodes,
                view="traces",
                keep_values=True,
                **settings,
            )
            squares = (played.values[:, : LENGTH + 1, 0] - truth) ** 2
            found[method, model] = float(np.sqrt(squares.reshape(len(STEP_SIZES), -1).mean(axis=1).min()))
    return found


def main() -> None:
    """Print a table for few and for many episodes."""
    for episodes in (30, 3000):
        found = errors(episodes, 50)
        print(f"RMS error of the lead-in's values after {episodes} episodes, 50 seeds, best of {len(STEP_SIZES)} α")
        print(f"{'':24}" + "".join(f"{model:>16}" for model in MODELS))
        for method in METHODS:
            print(f"{method:24}" + "".join(f"{found[method, model]:16.4f}" for model in MODELS))


if __name__ == "__main__":
    main()
