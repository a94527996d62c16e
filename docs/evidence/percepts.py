"""Should the model predict the reward, too, where rewards are random? The evidence on the page about models.

    python docs/evidence/percepts.py        # some minutes on a CPU; prints the table

Two corridors of equal length lead from the start to the end, and the first action chooses between them. Every step is
certain; one corridor pays 0.5 more at its end. Rewards on the way are random given the states: a coin (±1) at every
step, a coin at one step in the middle, or a normal number at every step. A run scores the share of its episodes that
took the better corridor, an arm the mean over 20 seeds at its best step size.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import chunked_td as ctd
from chunked_td.statistics import mean_and_interval

LENGTH, EPISODES, SEEDS = 10, 300, 20
STEP_SIZES = tuple(2.0**-j for j in range(1, 7))
PROBLEMS = ("no noise", "a coin in the middle", "a coin at every step", "normal numbers at every step")
ARMS = {
    "percept “state”": (ctd.ChunkedExpectedSarsa, {"percept": "state"}),
    "percept “reward-state”": (ctd.ChunkedExpectedSarsa, {"percept": "reward-state"}),
    "fixed λ = 0": (ctd.ExpectedSarsaLambda, {"lambda_source": 0.0}),
    "fixed λ = 0.9": (ctd.ExpectedSarsaLambda, {"lambda_source": 0.9}),
    "fixed λ = 1": (ctd.ExpectedSarsaLambda, {"lambda_source": 1.0}),
}


class Corridors(gym.Env):
    """Two corridors with random rewards. States: 0 is the start, then the places of one corridor and of the other."""

    observation_space = gym.spaces.Discrete(1 + 2 * LENGTH)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, noise: str):
        self.noise = noise

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Go to the start."""
        super().reset(seed=seed)
        self.place, self.side = 0, 0
        return 0, {}

    def step(self, action: int):
        """Walk one step; only the first action matters."""
        self.side = action if self.place == 0 else self.side
        self.place += 1
        reward = 0.5 * (self.place == LENGTH and self.side == 0)
        if self.noise == "a coin at every step" or (self.noise == "a coin in the middle" and self.place == LENGTH // 2):
            reward += 2.0 * self.np_random.integers(2) - 1.0
        elif self.noise == "normal numbers at every step":
            reward += self.np_random.normal()
        return self.place + self.side * LENGTH, float(reward), self.place == LENGTH, False, {}


def share_of_right_choices(noise: str, arm: str, step_size: float, seed: int) -> float:
    """One run."""
    env = Corridors(noise)
    cls, settings = ARMS[arm]
    agent = cls(env, step_size=step_size, discount=1.0, epsilon=0.1, seed=seed, **settings)
    right = 0
    for episode in range(EPISODES):
        observation, info = env.reset(seed=1_000 * seed if episode == 0 else None)
        action = agent.start(observation, info)
        right += action == 0
        done = False
        while not done:
            observation, reward, done, _, info = env.step(action)
            action = agent.step(reward, observation, done, False, info)
    return right / EPISODES


def main() -> None:
    """Run everything and print the table."""
    print("| arm |", " | ".join(PROBLEMS), "|")
    print("| --- |" + " --- |" * len(PROBLEMS))
    for arm in ARMS:
        cells = []
        for noise in PROBLEMS:
            scores = np.array(
                [[share_of_right_choices(noise, arm, alpha, s) for s in range(SEEDS)] for alpha in STEP_SIZES]
            )
            best = scores[scores.mean(axis=1).argmax()]
            cells.append("{:.2f} [{:.2f}, {:.2f}]".format(*map(float, mean_and_interval(best))))
        print(f"| {arm} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
