"""Record the λs of small networks in float32 on a CPU: `python -m tests.golden.networks`. Needs the extra jax.

The episodes that the networks see are those of the lockstep runs which learn from them; replaying the λs needs no JAX.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .cases import NETWORKS

EPISODES, SEEDS, STEP_SIZES = 200, [4, 5, 6], [0.5, 0.25, 0.05]


def answers(dynamics, config, learner, source, epsilon):
    """float32[E, B, T, m]."""
    from chunked_td.simulation import networks as lockstep

    found = []
    arms = [lockstep.ArmRuns(source, np.array(SEEDS), np.array(STEP_SIZES))]
    learn = lockstep.LockstepRuns.learn

    def watched(runs, answer, **settings):
        found.append(np.array(answer, np.float32))
        return learn(runs, answer, **settings)

    lockstep.LockstepRuns.learn = watched
    try:
        lockstep.run_together(
            dynamics, arms, config=config, learner=learner, epsilon=epsilon, discount=1.0, episodes=EPISODES,
            record_at=[EPISODES],
        )  # fmt: skip
    finally:
        lockstep.LockstepRuns.learn = learn
    return np.stack(found)


def main():
    import chunked_td as ctd
    from chunked_td.envs.dynamics import AccumulatedCharge, KeyToDoor
    from chunked_td.models.neural.networks import NetworkConfig, boolean, categorical, difference

    small = {"batch_size": 6, "capacity": 20, "learning_rate": 1e-2, "train_every": 4}
    charge, door = AccumulatedCharge.make(horizon=8, points=2), KeyToDoor.make(horizon=8, distractors=1)
    heads = tuple(difference(0, 4) for _ in charge.nvec)
    config = NetworkConfig(charge.nvec, 2, heads, hidden=(8, 8, 8), weight_decay=1e-6, **small)
    heads = (*(boolean() for _ in door.nvec[:-1]), categorical(door.nvec[-1]))
    other = NetworkConfig(door.nvec, 2, heads, hidden=(8, 8), embedding=4, **small)
    other = dataclasses.replace(other, train_every=1)
    np.savez_compressed(
        NETWORKS,
        charge=answers(charge, config, "sarsa", ctd.ForwardLambda(), 0.1),
        door=answers(door, other, "expected_sarsa", ctd.FactoredLambda(), 0.2),
    )


if __name__ == "__main__":
    main()
