"""Linear true-online SARSA(0.9) on MountainCar, step by step in Python, beside MushroomRL's with the same tiles.

    python -m benchmarks.mushroom

MushroomRL 1.10.2 (the latest) asks for NumPy 1.24, Torch 2.5 and Gym 0.24, which do not go with ours. Without its
dependencies it runs on our NumPy: `pip install --no-deps --target DIR mushroom-rl scikit-learn joblib threadpoolctl
pygame opencv-python-headless`, then PYTHONPATH=DIR. Its own wrapper of Gym is not used.
"""

from __future__ import annotations

import time

import gymnasium as gym
import numpy as np

import chunked_td as ctd

ALPHA, GAMMA, LAMBDA = 0.3, 0.99, 0.9


class Play:
    """Learning on MountainCar from its first step: mean return of all episodes, and processor time per step."""

    episodes, seeds = 100, 5

    def ours(self, seed: int) -> tuple[np.ndarray, float]:
        """Returns, and seconds per step, compilation left out."""
        env = gym.make("MountainCar-v0")
        settings = {"lambda_": LAMBDA, "step_size": ALPHA, "discount": GAMMA, "epsilon": 0.0, "view": "true_online"}
        agent = ctd.SarsaLambda(env, indexer=ctd.TileCoding(env), seed=seed, **settings)
        other = ctd.SarsaLambda(env, indexer=ctd.TileCoding(env), **settings)
        other.learn(env, episodes=1, progress=False)  # compiles
        began = time.process_time()
        history = agent.learn(env, self.episodes, progress=False)
        return history.returns, (time.process_time() - began) / history.lengths.sum()

    def mushroom(self, seed: int) -> tuple[np.ndarray, float]:
        """The same of MushroomRL."""
        from mushroom_rl.algorithms.value import TrueOnlineSARSALambda
        from mushroom_rl.core import Core, Environment, MDPInfo
        from mushroom_rl.features import Features
        from mushroom_rl.features.tiles import Tiles
        from mushroom_rl.policy import EpsGreedy
        from mushroom_rl.utils.parameters import Parameter
        from mushroom_rl.utils.spaces import Box, Discrete

        class Car(Environment):
            def __init__(self) -> None:
                self.car = gym.make("MountainCar-v0")
                space = self.car.observation_space
                super().__init__(MDPInfo(Box(space.low, space.high), Discrete(3), GAMMA, 200))

            def reset(self, state=None):
                return self.car.reset(seed=seeds.pop() if seeds else None)[0]

            def step(self, action):
                x, reward, terminated, _, info = self.car.step(int(action[0]))
                return x, reward, terminated, info

        seeds = [seed]
        np.random.seed(seed)
        coder, car = ctd.TileCoding(gym.make("MountainCar-v0")), Car()
        grid, wide = coder.compiled(), [int(n) for n in coder.compiled().tiles]
        tilings = []
        for shift in grid.offset:
            low = grid.low - shift / grid.scale
            tilings.append(Tiles(np.stack([low, low + wide / grid.scale], axis=1).tolist(), wide))
        features = Features(tilings=tilings)
        shape = {"input_shape": (features.size,), "output_shape": (3,), "n_actions": 3}
        agent = TrueOnlineSARSALambda(
            car.info, EpsGreedy(Parameter(0.0)), Parameter(ALPHA / coder.tilings), LAMBDA, features, shape
        )
        core, began = Core(agent, car), time.process_time()
        rewards: list[list[float]] = [[]]

        def note(samples) -> None:
            for _, _, reward, _, _, last in samples:
                rewards[-1].append(reward)
                if last:
                    rewards.append([])

        core.callback_step = note
        core.learn(n_episodes=self.episodes, n_steps_per_fit=1, quiet=True)
        seconds = time.process_time() - began
        return np.array([sum(r) for r in rewards if r]), seconds / sum(map(len, rewards))


def beside_mushroom() -> None:
    """Print a line per program."""
    play = Play()
    for name, run in (("ours", play.ours), ("MushroomRL", play.mushroom)):
        returns, seconds = zip(*map(run, range(play.seeds)), strict=True)
        means = [float(r.mean()) for r in returns]
        print(f"{name:12} {min(seconds) * 1e6:7.1f} µs a step; mean return of {play.episodes} episodes "
              f"{np.mean(means):.1f} ({min(means):.1f} to {max(means):.1f} over {play.seeds} seeds)")  # fmt: skip


if __name__ == "__main__":
    beside_mushroom()
