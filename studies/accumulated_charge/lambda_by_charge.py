"""λ by charge: whether the network of Accumulated-Charge gives high charges a larger λ (evidence in README.md).

    python -m studies.accumulated_charge.lambda_by_charge

Trains the network of the experiment in its exploratory phase and prints, for every hundred episodes and seed, the mean
λ of quiet steps (which add no charge) and of charging steps, where the charge is above its mean at that time and where
it is below. Minutes on a CPU.
"""

from __future__ import annotations

import argparse

import numpy as np

from chunked_td.envs.dynamics import AccumulatedCharge
from chunked_td.lambdas import ForwardLambda
from chunked_td.lambdas.on_device import Reading
from chunked_td.models.neural.world import World
from chunked_td.simulation.lockstep import LockstepRuns
from studies.accumulated_charge.network import network_config

CHARGE = 1  # which component of the state it is
STRETCH = 100  # episodes per line


def mean_lambda(charges: np.ndarray, lambdas: np.ndarray, means: np.ndarray, steps: np.ndarray) -> str:
    """Mean λ of steps with more charge than the mean at that time, and of steps with less.

    Args:
      charges, lambdas: float[episodes, T] of one run. means: float[T], the usual charge. steps: bool[T].
    """
    away, chosen = (charges - means)[:, steps], lambdas[:, steps]
    return f"{chosen[away > 0].mean():.3f} with high charge, {chosen[away < 0].mean():.3f} with low"


def main(seeds: int, episodes: int) -> None:
    """Train and print."""
    problem, T = AccumulatedCharge.make(), 200
    fleet = LockstepRuns(
        problem,
        learner="sarsa",
        lambda_source=ForwardLambda(),
        discount=1.0,
        epsilons=np.ones(episodes),
        seeds=range(seeds),
        step_sizes=[0.0125] * seeds,
    )
    world = World(network_config(), range(seeds), T, reading=Reading())
    charging = np.asarray(fleet.envs.charging, bool)[:, :T]
    charges, lambdas = np.zeros((2, episodes, seeds, T))
    for k in range(episodes):
        fleet.roll_out()
        charges[k] = fleet.states[:, :T, CHARGE]
        lambdas[k] = np.asarray(world.episode(fleet.states, fleet.actions, fleet.policies))
        fleet.learn(lambdas[k])
        if (k + 1) % STRETCH == 0:
            for b in range(seeds):
                last, usual = slice(k + 1 - STRETCH, k + 1), charges[: k + 1, b].mean(axis=0)
                parts = [
                    f"{name}: {mean_lambda(charges[last, b], lambdas[last, b], usual, steps)}"
                    for name, steps in (("quiet steps", ~charging[b]), ("charging steps", charging[b]))
                ]
                print(f"episode {k + 1:,}, seed {b}, {'; '.join(parts)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=1_000)
    arguments = parser.parse_args()
    main(arguments.seeds, arguments.episodes)
