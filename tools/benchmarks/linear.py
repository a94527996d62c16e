"""Linear SARSA(λ) with tile coding, step by step in Python, beside the same in plain NumPy, on recorded MountainCar.

    python tools/benchmarks/linear.py

Both are shown the same observations and rewards, choose ε-greedily and use replacing traces; processor time per step,
in turns, compilation left out.
"""

from __future__ import annotations

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


if __name__ == "__main__":
    for row in benchmark():
        print(f"{row.name:28} {row.ours * 1e6:7.2f} µs a step, {row.ratio:.2f} of {row.note}, target {row.target}")
