"""PPO on Gymnasium environments: ours, fed from Python, beside Stable-Baselines3's at its own defaults, in one run.

    python tools/benchmarks/gym_ppo.py --out /tmp/runs.json            # one seed, 30,000 steps
    python tools/benchmarks/gym_ppo.py --steps 100000 --first-seed 10 --seeds 5 --programs ours Stable-Baselines3 \\
        --out results/gym-ppo/judged.json

Ours has its defaults (λ 0.95), eight copies in one process, with normalised numbers and as they come. Theirs has the
defaults of `PPO("MlpPolicy", env)`: one environment, rollouts of 2,048. Both play whole rollouts: 100,352 steps where
100,000 are asked for. Ours normalises because of Acrobot, which seeds 0 to 2 showed (`results/gym-ppo/runs.json`), so
the seeds that judge are others. Runs are kept in `--out`, with a table; the same command goes on where it stopped.

The score of a run is the mean return of 20 greedy episodes after training. Time is processor time of training with
everything in it (compiling, too), on one thread for Torch; JAX takes what it finds. The last column is the difference
of mean scores (ours less theirs) with its 95 % interval (Welch's t over seeds), and what it says:

- better: the interval lies above 0;
- as good: it lies above minus the margin, which is 5 % of the way from a useless policy to a good one (`MARGINS`);
- worse: it lies below 0;
- open: none of these.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from scipy.stats import t as student

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

COPIES, EPISODES = 8, 20
MARGINS = {
    "CartPole-v1": 25.0,  # returns go from about 10 to 500
    "Acrobot-v1": 20.0,  # from −500 to about −80
    "Pendulum-v1": 50.0,  # from about −1,200 to −150
    "InvertedPendulum-v5": 50.0,  # from about 5 to 1,000
    "InvertedDoublePendulum-v5": 450.0,  # from about 50 to 9,300
}
"""Tasks, and how much less return is still as good."""


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


def ours(task: str, steps: int, seed: int, normalise: bool | None) -> tuple[float, float]:
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


PROGRAMS = {
    "ours": lambda *given: ours(*given, normalise=None),
    "ours, as it comes": lambda *given: ours(*given, normalise=False),
    "Stable-Baselines3": theirs,
}


def difference(a: list[float], b: list[float], margin: float) -> str:
    """Mean of `a` less mean of `b`, its 95 % interval by Welch's t, and what that says; a dash below three seeds."""
    if min(len(a), len(b)) < 3:
        return "–"
    mean, parts = float(np.mean(a) - np.mean(b)), [np.var(x, ddof=1) / len(x) for x in (a, b)]
    half = 0.0
    if sum(parts) > 0:
        freedom = sum(parts) ** 2 / sum(v**2 / (len(x) - 1) for v, x in zip(parts, (a, b), strict=True))
        half = float(student.ppf(0.975, freedom) * np.sqrt(sum(parts)))
    low, high = mean - half, mean + half
    words = "better" if low > 0 else "as good" if low > -margin else "worse" if high < 0 else "open"
    return f"{round(mean)} ({round(low)} to {round(high)}): {words}".replace("-", "−")


def write_table(runs: list[dict[str, Any]], path: Path) -> None:
    """A task per row, a program per column: mean and worst score over seeds, how many there are, processor time."""
    programs = [name for name in PROGRAMS if any(run["program"] == name for run in runs)]
    columns = ["task", "steps", *programs, "difference"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for task, steps in dict.fromkeys((run["task"], run["steps"]) for run in runs):
        cells, scores_of = [], {}
        for name in programs:
            found = [r for r in runs if (r["task"], r["steps"], r["program"]) == (task, steps, name)]
            scores, seconds = [r["score"] for r in found], [r["seconds"] for r in found]
            worst = f" (worst of {len(found)}: {min(scores):.0f})" if len(found) > 1 else ""
            text = f"{np.mean(scores):.0f}{worst}, {np.mean(seconds):.0f} s" if found else "not run"
            cells.append(text.replace("-", "−"))
            scores_of[name] = scores
        cells.append(difference(scores_of.get("ours", []), scores_of.get("Stable-Baselines3", []), MARGINS[task]))
        lines.append(f"| {task} | {steps:,} | {' | '.join(cells)} |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Run what is not in the file yet, a line per run; then write the table beside it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--tasks", nargs="+", default=list(MARGINS), choices=MARGINS)
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=PROGRAMS)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for seed, (task, name) in itertools.product(seeds, itertools.product(options.tasks, options.programs)):
        runs = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else []
        settings = {"task": task, "steps": options.steps, "program": name, "seed": seed}
        if any(settings.items() <= run.items() for run in runs):
            continue
        score, seconds = PROGRAMS[name](task, options.steps, seed)
        print(f"{task:24} {name:20} seed {seed} {score:9.1f}   {seconds:6.1f} s", flush=True)
        runs.append({**settings, "score": round(score, 2), "seconds": round(seconds, 2)})
        options.out.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n", encoding="utf-8")
        write_table(runs, options.out.with_suffix(".md"))


if __name__ == "__main__":
    main()
