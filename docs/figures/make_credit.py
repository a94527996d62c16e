"""Draw docs/figures/credit.svg: credit for the reward of one episode, with a learned λ and with a fixed one.

Run: python docs/figures/make_credit.py

A learner trains on Accumulated-Charge (60 steps, three of them random) and plays one more episode: λ and its traces.
A copy with λ = 0.9 learns from the same episode: its traces.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
from matplotlib.figure import Figure

import chunked_td as ctd
from chunked_td._figures import BLUE, VERMILION, as_svg, house_style

GREY, FIXED, STEPS = "#8a94a0", 0.9, 60


def main() -> None:
    """Train, play one episode, and draw it."""
    env = gym.make("ChunkedTD/AccumulatedCharge-v0", horizon=STEPS, points=3)
    agent = ctd.ChunkedExpectedSarsa(env, step_size=0.1, discount=1.0, epsilon=0.1, seed=0)
    agent.learn(env, episodes=3_000)
    told = agent.explain(env, seed=0, against=FIXED)  # the seed of the training: the same steps are random
    learned, fixed = told.learners
    probability = learned.lambdas[:, 0].copy()
    probability[0] = np.nan  # no trace precedes the first step
    random = np.flatnonzero(probability < 0.5)
    with house_style():
        figure = Figure(figsize=(8.6, 4.6), layout="constrained")
        rows = figure.subplots(3, 1, sharex=True, height_ratios=[0.55, 1, 1])
        draw(rows[0], probability, np.where(probability < 0.5, VERMILION, BLUE), "λ")
        draw(rows[1], learned.trace_at(STEPS - 1)[:, 0], BLUE, "credit")
        draw(rows[2], fixed.trace_at(STEPS - 1)[:, 0], GREY, "credit")
        titles = (
            "One episode: λ of each step is its probability under the learned model; three steps are random",
            "Chunked: the reward at the end reaches back to the last random step in one update",
            f"λ = {FIXED:g}: credit fades at a fixed rate, over predictable and random steps alike",
        )
        for axes, title in zip(rows, titles, strict=True):
            axes.set_title(title, loc="left", fontsize=10)
            for step in random:
                axes.axvline(step, color=VERMILION, lw=1.0, ls=":", zorder=0)
        rows[-1].set(xlabel="step of the episode; the reward comes at the end", xlim=(-0.8, STEPS - 0.2))
    Path(__file__).with_name("credit.svg").write_text(as_svg(figure), encoding="utf-8")
    print(f"λ of the random steps: {', '.join(f'{probability[k]:.2f}' for k in random)}")


def draw(axes, heights, color, label) -> None:
    """A bar per step."""
    axes.bar(np.arange(STEPS), heights, width=0.8, color=color)
    axes.set(ylim=(0, 1.08), yticks=[0, 1], ylabel=label)


if __name__ == "__main__":
    main()
