"""PPO on Gymnasium environments: ours, fed from Python, beside Stable-Baselines3's at its own defaults, in one run.

    python tools/benchmarks/gym_ppo.py                     # CartPole-v1, Acrobot-v1, Pendulum-v1: 30,000 steps each
    python tools/benchmarks/gym_ppo.py --steps 100000 --seeds 5

Ours has its defaults (λ 0.95), eight copies in one process, with and without `normalise`. Theirs has the defaults of
`PPO("MlpPolicy", env)`: one environment, rollouts of 2,048. Neither was tuned to these tasks. The score is the mean
return of 20 greedy episodes after training. Time is processor time of training with everything in it (compiling, too),
on one thread for Torch; JAX takes what it finds.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

COPIES, EPISODES = 8, 20


def greedy_return(act: Any, task: str, seed: int) -> float:
    """Mean return of greedy episodes."""
    env, totals = gym.make(task), []
    for k in range(EPISODES):
        observation, _ = env.reset(seed=1_000 * (seed + 1) + k)
        total, ended = 0.0, False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            total, ended = total + float(reward), terminated or truncated
        totals.append(total)
    return float(np.mean(totals))


def ours(task: str, steps: int, seed: int, normalise: bool) -> tuple[float, float]:
    """Score and seconds."""
    from chunked_td.deep import DeepLearner

    began = time.process_time()
    env = gym.vector.SyncVectorEnv([lambda: gym.make(task)] * COPIES)
    agent = DeepLearner(env, "ppo", seed=seed, normalise=normalise)
    agent.learn(env, steps)
    seconds = time.process_time() - began
    return greedy_return(agent.act, task, seed), seconds


def theirs(task: str, steps: int, seed: int) -> tuple[float, float]:
    """The same of Stable-Baselines3."""
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    began = time.process_time()
    agent = PPO("MlpPolicy", task, seed=seed, device="cpu")
    agent.learn(steps)
    seconds = time.process_time() - began
    return greedy_return(lambda x: agent.predict(x, deterministic=True)[0], task, seed), seconds


def main() -> None:
    """Print a line per task and program."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tasks", nargs="+", default=["CartPole-v1", "Acrobot-v1", "Pendulum-v1"])
    options = parser.parse_args()
    programs = {
        "ours": lambda *given: ours(*given, normalise=False),
        "ours, normalise": lambda *given: ours(*given, normalise=True),
        "Stable-Baselines3": theirs,
    }
    print(f"{options.steps:,} steps, {options.seeds} seeds; mean return of {EPISODES} greedy episodes of each seed")
    for task in options.tasks:
        for name, program in programs.items():
            found = [program(task, options.steps, seed) for seed in range(options.seeds)]
            scores, seconds = zip(*found, strict=True)
            each = " ".join(f"{score:.0f}" for score in scores)
            print(f"{task:14} {name:20} {np.mean(scores):9.1f}   {np.mean(seconds):6.1f} s   ({each})", flush=True)


if __name__ == "__main__":
    main()
