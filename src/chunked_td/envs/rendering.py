"""Rendering of an episode: its latest step and state components as two lines of text or as an image.

`picture` imports Matplotlib on first use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td._loading import require

INK, FAINT, NOW = "#1f2933", "#c8d0d9", "#f08a24"


class EpisodeView:
    """State of an episode for rendering: dynamics `env`, started in `state`."""

    def __init__(self, env: Any, state: np.ndarray):
        self.env, self.state = env, tuple(state.tolist())
        self.steps, self.total, self.headline = 0, 0.0, "start of the episode"

    def add(self, action: int, state: np.ndarray, reward: np.ndarray, ended: bool) -> None:
        """Append a transition."""
        paid = float(reward.sum())
        self.state, self.steps, self.total = tuple(state.tolist()), self.steps + 1, self.total + paid
        parts = [f"step {self.steps}: action {action}", f"reward {paid:+.4g}", f"return so far {self.total:+.4g}"]
        self.headline = "   ".join([*parts, "the episode has ended"] if ended else parts)

    @property
    def title(self) -> str:
        """The name of the dynamics."""
        return type(self.env).__name__


def text(view: EpisodeView) -> str:
    """Draw `view` as text."""
    state = " ".join(f"{x}/{n - 1}" for x, n in zip(view.state, view.env.nvec, strict=True))
    return f"{view.title} | {view.headline}\nstate {state}\n"


def picture(view: EpisodeView) -> np.ndarray:
    """Draw `view` as an image, uint8[400, 800, 3]."""
    require("render_mode='rgb_array'", "matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), dpi=100, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    figure.text(0.03, 0.93, view.title, fontsize=13, weight="bold", color=INK, va="center")
    figure.text(0.03, 0.86, view.headline, fontsize=10.5, color=NOW if view.steps else INK, va="center")
    axes = figure.add_axes((0.03, 0.03, 0.94, 0.78))
    axes.axis("off")
    nvec = np.array(view.env.nvec)
    rows = np.arange(nvec.size)
    axes.barh(rows, np.ones(nvec.size), color="white", edgecolor=FAINT)
    axes.barh(rows, np.array(view.state) / np.maximum(nvec - 1, 1), color=NOW)
    for i, (x, n) in enumerate(zip(view.state, nvec, strict=True)):
        axes.text(0.02, i, f"component {i}: {x} of 0..{n - 1}", va="center", fontsize=10, color=INK)
    axes.invert_yaxis()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
