"""Linear SARSA(λ) with tile coding, step by step in Python, beside the same in plain NumPy, on recorded MountainCar.

    python tools/benchmarks/linear.py
    python tools/benchmarks/linear.py --mushroom    # both learn MountainCar; true online, the same tiles

Both are shown the same observations and rewards, choose ε-greedily and use replacing traces; processor time per step,
in turns, compilation left out.

MushroomRL 1.10.2 (the latest) asks for NumPy 1.24, Torch 2.5 and Gym 0.24, which do not go with ours. Without its
dependencies it runs on our NumPy: `pip install --no-deps --target DIR mushroom-rl scikit-learn joblib threadpoolctl
pygame opencv-python-headless`, then PYTHONPATH=DIR. Its own wrapper of Gym is not used.
"""

from __future__ import annotations

import sys
import time

import gymnasium as gym
import numpy as np

import chunked_td as ctd
from timing import Row, at_most, fastest

ALPHA, GAMMA, LAMBDA, EPSILON = 0.3, 0.99, 0.9, 0.1


class NumPySarsa:
    """SARSA(λ) with binary features and replacing traces, as people write it."""

    def __init__(self, coder: ctd.TileCoding, n_actions: int, seed: int = 0):
        self.map, self.tilings = coder.compiled(), coder.tilings
        self.w, self.e = np.zeros((n_actions, coder.count)), np.zeros((n_actions, coder.count))
        self.rng = np.random.default_rng(seed)
        self.radix = np.cumprod([1, *self.map.tiles[:0:-1]])[::-1]
        self.block = int(np.prod(self.map.tiles))

    def tiles(self, x: np.ndarray) -> np.ndarray:
        """The active tile of every tiling."""
        x = (np.clip(x, self.map.low, self.map.high) - self.map.low) * self.map.scale
        tile = np.minimum((x + self.map.offset).astype(np.int64), self.map.tiles - 1)
        return tile @ self.radix + self.block * np.arange(self.tilings)

    def choose(self, tiles: np.ndarray) -> int:
        """ε-greedy."""
        if self.rng.random() < EPSILON:
            return int(self.rng.integers(len(self.w)))
        return int(self.w[:, tiles].sum(axis=1).argmax())

    def start(self, x: np.ndarray) -> int:
        """Begin an episode."""
        self.e[:] = 0.0
        self.now = self.tiles(x)
        self.action = self.choose(self.now)
        return self.action

    def step(self, reward: float, x: np.ndarray, ended: bool) -> None:
        """Learn from a transition."""
        tiles = self.tiles(x)
        action = self.choose(tiles)
        ahead = 0.0 if ended else GAMMA * self.w[action, tiles].sum()
        delta = reward + ahead - self.w[self.action, self.now].sum()
        self.e *= GAMMA * LAMBDA
        self.e[self.action, self.now] = 1.0
        self.w += ALPHA / self.tilings * delta * self.e
        self.now, self.action = tiles, action


def record(episodes: int) -> list[tuple[np.ndarray, list[tuple[float, np.ndarray, bool]]]]:
    """First observation and transitions of episodes that act at random."""
    env, found = gym.make("MountainCar-v0"), []
    env.action_space.seed(0)
    for k in range(episodes):
        first, _ = env.reset(seed=k)
        steps, ended = [], False
        while not ended:
            x, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            ended = bool(terminated or truncated)
            steps.append((float(reward), x, ended))
        found.append((first, steps))
    return found


def benchmark(quick: bool = False) -> list[Row]:
    """One row."""
    env, episodes = gym.make("MountainCar-v0"), record(2 if quick else 20)
    coder = ctd.TileCoding(env)
    ours = ctd.SarsaLambda(env, lambda_=LAMBDA, step_size=ALPHA, discount=GAMMA, epsilon=EPSILON, indexer=coder)
    rival = NumPySarsa(coder, 3)

    def play(agent):
        def turn() -> float:
            for first, steps in episodes:
                agent.start(first)
                for reward, x, ended in steps:
                    agent.step(reward, x, ended)
            return float(sum(len(steps) for _, steps in episodes))

        return turn

    turns = play(ours), play(rival)
    turns[0]()  # compiles
    mine, theirs = fastest(2 if quick else 5, *turns)
    return [at_most("linear SARSA(λ), tile coding", mine, theirs, 1.0, "a plain NumPy loop")]


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
    if "--mushroom" in sys.argv:
        beside_mushroom()
        sys.exit()
    for row in benchmark():
        print(f"{row.name:28} {row.ours * 1e6:7.2f} µs a step, {row.ratio:.2f} of {row.note}, target {row.target}")
