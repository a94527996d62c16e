"""Draws docs/figures/chunking.svg: an episode, its chunks, and who gets credit for the reward at its end.

.venv/bin/python docs/figures/make_chunking.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

# Probability of the transition that leaves each state; two of the twelve are surprises.
PROBABILITY = np.array([0.98, 0.99, 0.97, 0.25, 0.98, 0.99, 0.99, 0.30, 0.99, 0.98, 0.99, 1.0])
STATES = PROBABILITY.size
SURPRISE = PROBABILITY < 0.5
INK, BLUE, ORANGE, GREY, PALE = "#1f2933", "#1f6fb4", "#d9691c", "#8a94a0", "#dcebf8"


def eligibility(lambda_t: np.ndarray) -> np.ndarray:
    """Weight of each state's update when the last transition brings the reward: Π λ of the states after it."""
    return np.array([np.prod(lambda_t[t + 1 :]) for t in range(lambda_t.size)])


def draw_episode(axes: Axes) -> None:
    """The chain of states, arrows as wide as their probability, a box around every chunk."""
    ends = [*np.flatnonzero(SURPRISE), STATES - 1]
    start = 0
    for end in ends:
        box = FancyBboxPatch(
            (start - 0.36, -0.36), end - start + 0.72, 0.72, boxstyle="round,pad=0.06,rounding_size=0.3"
        )
        box.set(facecolor=PALE, edgecolor=BLUE, linewidth=1.0)
        axes.add_patch(box)
        start = end + 1
    for t in range(STATES):
        colour = ORANGE if SURPRISE[t] else INK
        width = 0.8 + 2.2 * PROBABILITY[t]
        arrow = FancyArrowPatch((t + 0.2, 0), (t + 0.82, 0), arrowstyle="-|>", mutation_scale=11, shrinkA=0, shrinkB=0)
        arrow.set(color=colour, linewidth=width if not SURPRISE[t] else 1.3, linestyle="--" if SURPRISE[t] else "-")
        axes.add_patch(arrow)
        last = t == STATES - 1
        label = f"{PROBABILITY[t]:.2f}".lstrip("0") if not last else "1"
        axes.text(t + 0.5, 0.55, label, ha="center", va="bottom", fontsize=9, color=colour)
        axes.add_patch(Circle((t, 0), 0.2, facecolor="white", edgecolor=INK, linewidth=1.2, zorder=3))
        axes.text(t, -0.01, f"$s_{{{t}}}$", ha="center", va="center", fontsize=9, color=INK, zorder=4)
    axes.text(STATES - 0.02, 0, "★", ha="center", va="center", fontsize=17, color=ORANGE)
    axes.text(STATES - 0.02, -0.5, "reward", ha="center", va="top", fontsize=9, color=INK)
    axes.text(-0.55, 1.16, "how likely the model thought each step", fontsize=10, color=INK, va="center")
    for t in np.flatnonzero(SURPRISE):
        axes.annotate(
            f"a surprise: states before $s_{{{t}}}$ learn\nfrom the value of $s_{{{t}}}$ instead",
            (t + 0.5, -0.12),
            (t + 0.5, -0.95),
            ha="center",
            va="center",
            fontsize=8.5,
            color=ORANGE,
            arrowprops={"arrowstyle": "-", "color": ORANGE, "linewidth": 0.8},
        )
    axes.set(xlim=(-0.75, STATES + 0.45), ylim=(-1.25, 1.3), aspect="equal")
    axes.axis("off")


def draw_credit(axes: Axes) -> None:
    """Weight of every state's update at the moment of the reward, for three ways to set λ."""
    t = np.arange(STATES)
    axes.bar(t, eligibility(PROBABILITY), width=0.62, color=BLUE, label="chunked: λ is the model's probability")
    axes.plot(t, eligibility(np.full(STATES, 0.8)), "o-", color=GREY, markersize=4, label="one λ for all steps, 0.8")
    axes.plot(t, eligibility(np.zeros(STATES)), "s:", color=ORANGE, markersize=4, label="TD(0)")
    axes.set(xlim=(-0.75, STATES + 0.45), ylim=(0, 1.08), yticks=[0, 0.5, 1])
    axes.set_xticks(t, [f"$s_{{{i}}}$" for i in t])
    axes.set_ylabel("credit for the reward", color=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1][:1] + handles[:-1], labels[::-1][:1] + labels[:-1], frameon=False, loc="upper left")


def main() -> None:
    """Write the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("chunking.svg"))
    out = parser.parse_args().out
    plt.rcParams.update({"svg.hashsalt": "chunking", "font.family": "DejaVu Sans", "font.size": 10})
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9.5, 4.5), height_ratios=[1, 1], layout="constrained")
    draw_episode(top)
    draw_credit(bottom)
    figure.savefig(out, facecolor="white", dpi=150, metadata={"Date": None} if out.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
