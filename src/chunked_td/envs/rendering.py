"""Drawings of the environments: one text and one picture for each, in which a person sees where the episode is.

`text` writes a few lines for a terminal; `picture` draws with Matplotlib, loaded when first needed. Dynamics that are
not ours are shown component by component.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chunked_td._loading import require
from chunked_td.envs.dynamics import AccumulatedCharge, ChainAndSplit, KeyToDoor, MazeState, SkewedSplit

INK, FAINT, NOW, GOOD, BAD = "#1f2933", "#c8d0d9", "#f08a24", "#2f855a", "#c0392b"
_CELLS = 60  # longest bar in a text


class EpisodeView:
    """An episode so far: what a drawing needs to know of dynamics `env` that began in `state`."""

    def __init__(self, env: Any, state: np.ndarray):
        self.env = env
        self.states: list[tuple[int, ...]] = [tuple(state.tolist())]
        self.actions: list[int] = []
        self.reward = np.zeros(env.n_rewards)
        self.total = 0.0
        self.ended = False

    def add(self, action: int, state: np.ndarray, reward: np.ndarray, ended: bool) -> None:
        """Append a transition."""
        self.actions.append(action)
        self.states.append(tuple(state.tolist()))
        self.reward = reward.copy()
        self.total += float(reward.sum())
        self.ended = ended

    @property
    def state(self) -> tuple[int, ...]:
        """The state now."""
        return self.states[-1]

    @property
    def headline(self) -> str:
        """What just happened, in one line."""
        if not self.actions:
            return "start of the episode"
        action, names = self.actions[-1], _ACTIONS.get(_kind(self.env))
        parts = [
            f"step {len(self.actions)}: took {names[action] if names else f'a{action + 1}'}",
            f"reward {float(self.reward.sum()):+.4g}",
            f"return so far {self.total:+.4g}",
        ]
        return "   ".join([*parts, "the episode has ended"] if self.ended else parts)


def text(view: EpisodeView) -> str:
    """Draw `view` as text."""
    return f"{_title(view.env)} | {view.headline}\n{_DRAWINGS.get(_kind(view.env), _COMPONENTS)[0](view)}\n"


def picture(view: EpisodeView) -> np.ndarray:
    """Draw `view` as an image, uint8[400, 800, 3]."""
    require("render_mode='rgb_array'", "matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), dpi=100, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    figure.text(0.03, 0.93, _title(view.env), fontsize=13, weight="bold", color=INK, va="center")
    figure.text(0.03, 0.86, view.headline, fontsize=10.5, color=NOW if view.actions else INK, va="center")
    axes = figure.add_axes((0.03, 0.03, 0.94, 0.78))
    axes.axis("off")
    _DRAWINGS.get(_kind(view.env), _COMPONENTS)[1](axes, view)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _kind(env: Any) -> type:
    """The class that says how to draw: that of the states where they have names, else that of the dynamics."""
    names = getattr(env, "names", None)
    return type(env) if names is None else type(names[0])


def _title(env: Any) -> str:
    name = type(env).__name__
    words = "".join(f" {c.lower()}" if c.isupper() and i else c for i, c in enumerate(name))
    return "T-maze" if _kind(env) is MazeState else words


def _bar(position: int, length: int, marks: tuple[int, ...] = ()) -> str:
    """A line of at most `_CELLS` cells: past ━, future ─, marked steps ╋ and ┼, now ◆."""
    scale = min(1.0, _CELLS / max(length, 1))
    now, cells, marked = int(position * scale), int(length * scale), {int(m * scale) for m in marks}
    past = "".join("╋" if i in marked else "━" for i in range(now))
    future = "".join("┼" if i in marked else "─" for i in range(now + 1, cells + 1))
    return f"{past}◆{future}"


def _chain_text(view: EpisodeView) -> str:
    env, s = view.env, view.state[0]
    chain = _bar(s, env.horizon) if s <= env.horizon else "○" + "─" * min(env.horizon, _CELLS)
    if s <= env.horizon:
        split = f"○── s_L ──< {env.width} leaves, −1 to +1"
    elif s == env.horizon + 1:
        split = f"○━━ ◆s_L ──< {env.width} leaves, −1 to +1"
    else:
        leaf = s - env.horizon - 1
        split = f"○━━ s_L ━━< ◆ leaf {leaf} of {env.width} pays {float(view.reward[0]):+.3f}"
    return f"a1    {chain}  pays {env.chain_reward:+g}\na2..  {split}"


def _chain_picture(axes: Any, view: EpisodeView) -> None:
    from matplotlib import colormaps

    env = view.env
    axes.set(xlim=(-0.6, 11.2), ylim=(-2.5, 1.6))
    leaf_y = np.linspace(-2.2, 0.2, env.width)

    def place(s: int) -> tuple[float, float]:
        if s == 0:
            return 0.0, 0.0
        if s <= env.horizon:
            return 10.0 * s / env.horizon, 1.1
        return (3.0, -1.0) if s == env.horizon + 1 else (8.5, float(leaf_y[s - env.horizon - 2]))

    chain = np.array([place(s) for s in range(env.horizon + 1)])
    axes.plot(*chain.T, color=FAINT, lw=2, zorder=1)
    axes.scatter(*chain.T, s=min(60, 1200 / env.horizon), color=INK, zorder=2)
    axes.plot([0, 3], [0, -1], color=FAINT, lw=2, zorder=1)
    shown = np.unique(np.linspace(0, env.width - 1, min(env.width, 101)).astype(int))
    for j in shown:
        axes.plot([3, 8.5], [-1, leaf_y[j]], color=FAINT, lw=0.5, zorder=0)
    colours = colormaps["coolwarm_r"]((env.leaf_rewards[shown] + 1) / 2)
    axes.scatter(np.full(len(shown), 8.5), leaf_y[shown], s=18, color=colours, zorder=2)
    axes.scatter([0, 3], [0, -1], s=70, color=INK, zorder=2)
    for x, y, label in ((-0.15, -0.35, "start"), (3.0, -1.3, "$s_L$"), (10.15, 1.1, f"{env.chain_reward:+g}")):
        axes.text(x, y, label, ha="left" if x > 10 else "center", va="center", fontsize=11, color=INK)
    axes.text(0.05, 0.6, "$a_1$", ha="right", fontsize=11, color=INK)
    axes.text(1.2, -0.75, f"$a_2..a_{{{env.n_actions}}}$", ha="right", fontsize=11, color=INK)
    axes.text(8.7, leaf_y[-1], "+1", va="center", fontsize=10, color=INK)
    axes.text(8.7, leaf_y[0], "−1", va="center", fontsize=10, color=INK)
    _mark(axes, [place(s[0]) for s in view.states])
    if view.ended:
        x, y = place(view.state[0])
        shift = (0.6, 0.0) if y < 1 else (-0.2, 0.25)
        axes.text(x + shift[0], y + shift[1], f"{float(view.reward[0]):+.2f}", color=NOW)


def _charge_text(view: EpisodeView) -> str:
    env, (first, charge, t) = view.env, view.state
    steps = tuple(np.flatnonzero(env.charging).tolist())
    expected = env.success * env.trials * sum(step < t for step in steps)
    choice = "not chosen yet" if t == 0 else f"a{2 - first}"
    gained = charge - view.states[-2][1] if t else 0
    return (
        f"first action {choice}   charge {charge} (expected {expected:g}, gained {gained:+d} just now)\n"
        f"time {_bar(t, env.horizon, steps)} {t}/{env.horizon}   ┼ charging steps"
    )


def _charge_picture(axes: Any, view: EpisodeView) -> None:
    env, (first, charge, t) = view.env, view.state
    steps = np.flatnonzero(env.charging)
    times, charges = np.array([s[2] for s in view.states]), np.array([s[1] for s in view.states])
    top = max(env.horizon * max(env.success, 0.1) * 1.5, charge * 1.15, 1.0)
    axes.set(xlim=(-0.36 * env.horizon, env.horizon * 1.1), ylim=(-0.2 * top, top))
    axes.vlines(steps + 0.5, 0, top * 0.97, color=FAINT, lw=3, zorder=0)
    axes.hlines(0, 0, env.horizon, color=INK, lw=1)
    grid = np.arange(env.horizon + 1)
    mean = env.success * env.trials * np.searchsorted(steps, grid)  # charging steps before each time
    axes.plot(grid, mean, color="#7b8794", lw=1.2, ls="--", label="expected charge")
    axes.plot(times, charges, color=INK, lw=2.2, label="charge")
    axes.plot(times[-2:], charges[-2:], color=NOW, lw=3)
    axes.scatter(t, charge, s=110, color=NOW, zorder=3)
    gained = charge - view.states[-2][1] if t else 0
    note = f"charge {charge}" + (f" ({gained:+d})" if gained else "")
    axes.text(t, charge + 0.06 * top, note, ha="center", color=NOW, fontsize=11, weight="bold")
    choice = "first action: not chosen yet" if t == 0 else f"first action: $a_{2 - first}$"
    axes.text(-0.35 * env.horizon, 0.9 * top, choice, fontsize=11, color=GOOD if first else BAD if t else INK)
    axes.text(-0.35 * env.horizon, 0.8 * top, "bands: charging steps", fontsize=9, color="#7b8794")
    for x in (0, env.horizon // 2, env.horizon):
        axes.text(x, -0.05 * top, str(x), ha="center", va="top", fontsize=9, color=INK)
    axes.text(env.horizon / 2, -0.13 * top, f"time ({t} now)", ha="center", va="top", fontsize=10, color=INK)
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, 0.74), frameon=False, fontsize=9)
    if view.ended:
        axes.text(env.horizon * 1.01, charge - 0.06 * top, f"pays\n{view.total:+.2f}", color=NOW, fontsize=11, va="top")


def _key_text(view: EpisodeView) -> str:
    env, state = view.env, view.state
    key, door, *coins, treasure, t = state
    lamps, box = " ".join("●" if coin else "○" for coin in coins) or "none", ("[ ]", "[x]")
    return (
        f"{box[key]} key   {box[door]} door   distractors {lamps}   {box[treasure]} treasure\n"
        f"time {_bar(t, env.horizon, (env.horizon - 1,))} {t}/{env.horizon}   ┼ door"
    )


def _key_picture(axes: Any, view: EpisodeView) -> None:
    from matplotlib.patches import FancyBboxPatch

    env, state = view.env, view.state
    n, t = env.distractors, state[-1]
    names = ["key", "door", *(f"$d_{{{i + 1}}}$" for i in range(n)), "treasure"]
    colours = [GOOD, "#2b6cb0", *["#b7791f"] * n, "#805ad5"]
    paid = view.reward if env.n_rewards > 1 else np.array(state) * env.weights * bool(view.actions)
    width = 11.0 / len(names)
    axes.set(xlim=(0, 11), ylim=(-1.6, 2.4))
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        x, on = i * width, state[i]
        changed = bool(view.actions) and on != view.states[-2][i]
        frame, filled = NOW if changed else colour if on else FAINT, colour if on else "white"
        style = {"facecolor": filled, "edgecolor": frame, "lw": 3.5 if changed else 2}
        corners = "round,pad=0,rounding_size=0.12"
        axes.add_patch(FancyBboxPatch((x + 0.1 * width, 0.55), 0.8 * width, 1.3, boxstyle=corners, **style))
        size = min(11.0, 9 * width)
        axes.text(x + width / 2, 1.2, name, ha="center", va="center", fontsize=size, color="white" if on else INK)
        if paid[i] and n <= 8:  # more would not fit
            axes.text(x + width / 2, 0.3, f"{paid[i]:+.4g}", ha="center", va="center", fontsize=size * 0.85, color=NOW)
    axes.plot([0.4, 10.6], [-0.7, -0.7], color=FAINT, lw=6, solid_capstyle="round")
    now = 0.4 + 10.2 * t / env.horizon
    axes.plot([0.4, now], [-0.7, -0.7], color=INK, lw=6, solid_capstyle="round")
    axes.scatter(now, -0.7, s=170, color=NOW, zorder=3)
    door = 0.4 + 10.2 * (env.horizon - 1) / env.horizon
    axes.plot([door, door], [-0.95, -0.45], color="#2b6cb0", lw=3)
    axes.text(0.4, -0.35, "key", ha="center", fontsize=10, color=GOOD)
    axes.text(door, -0.35, "door", ha="center", fontsize=10, color="#2b6cb0")
    axes.text(5.5, -1.3, f"time {t} of {env.horizon}", ha="center", fontsize=10, color=INK)
    axes.text(0.1, 2.1, "orange frame: changed just now", fontsize=9, color=NOW)


def _skewed_text(view: EpisodeView) -> str:
    env, s = view.env, view.state[0]
    lead = _bar(s, env.length) if s <= env.length else "━" * (min(env.length, _CELLS) + 1)
    branch_a = f"{'◆' if s == env.length + 1 else ' '}A (p = {env.likely:g}, pays 0)"
    branch_b = f"{'◆' if s == env.length + 2 else ' '}B (p = {1 - env.likely:g}, pays {env.prize:g})"
    return f"{lead} ─┬─ {branch_a}\n{' ' * len(lead)}  └─ {branch_b}"


def _skewed_picture(axes: Any, view: EpisodeView) -> None:
    env = view.env
    axes.set(xlim=(-0.6, 11), ylim=(-1.6, 1.6))

    def place(s: int) -> tuple[float, float]:
        if s <= env.length:
            return 5.5 * s / max(env.length, 1), 0.0
        return 8.0, (0.9 if s == env.length + 1 else -0.9)

    lead = np.array([place(s) for s in range(env.length + 1)])
    axes.plot(*lead.T, color=FAINT, lw=2, zorder=1)
    axes.scatter(*lead.T, s=min(140, 1500 / (env.length + 1)), color=INK, zorder=2)
    axes.text(*place(0), "start\n\n", ha="center", va="center", fontsize=11, color=INK)
    branches = ((env.length + 1, "A", env.likely, 0.0, BAD), (env.length + 2, "B", 1 - env.likely, env.prize, GOOD))
    for s, name, chance, pays, colour in branches:
        (x0, y0), (x1, y1) = place(env.length), place(s)
        axes.plot([x0, x1], [y0, y1], color=FAINT, lw=1 + 6 * chance, zorder=1)
        axes.scatter(x1, y1, s=140, color=colour, zorder=2)
        axes.text(x1 + 0.4, y1, f"{name}: probability {chance:.3g}, pays {pays:g}", va="center", fontsize=10, color=INK)
    axes.set_xlim(-0.6, 12)
    _mark(axes, [place(s[0]) for s in view.states])


def _maze_state(view: EpisodeView, state: tuple[int, ...]) -> tuple[MazeState, int]:
    """A state of the maze, and the cell of its junction."""
    names = view.env.names
    return names[state[0]], max(name.cell for name in names) - 1


def _maze_words(state: MazeState) -> str:
    """What can be seen in a state besides the place."""
    found = [("", "signal up", "signal down")[state.signal], ("", "the right arm", "the wrong arm")[state.outcome]]
    return ", ".join([word for word in found if word] + [f"prize {state.prize}"] * bool(state.prize)) or "nothing"


def _maze_text(view: EpisodeView) -> str:
    state, junction = _maze_state(view, view.state)
    way = _bar(min(state.cell, junction), junction) if state.cell <= junction else "━" * min(junction + 1, _CELLS + 1)
    return f"start {way} junction   shown: {_maze_words(state)}   (right is {('up', 'down')[state.right]})"


def _maze_picture(axes: Any, view: EpisodeView) -> None:
    state, junction = _maze_state(view, view.state)
    axes.set(xlim=(-0.6, 11), ylim=(-1.6, 1.6))

    def place(s: MazeState) -> tuple[float, float]:
        if s.cell <= junction:
            return 9.0 * s.cell / junction, 0.0
        return 9.0, 1.0 if (s.outcome == 1) == (s.right == 0) else -1.0

    axes.plot([0, 9, 9, 9], [0, 0, 1, -1], color=FAINT, lw=8, solid_capstyle="round", zorder=0)
    cells = np.array([9.0 * cell / junction for cell in range(junction + 1)])
    axes.scatter(cells, np.zeros(cells.size), s=min(60, 1200 / junction), color=INK, zorder=2)
    for y, pays in ((1.0, state.right == 0), (-1.0, state.right == 1)):
        axes.scatter(9.0, y, s=140, color=GOOD if pays else BAD, zorder=2)
        axes.text(9.4, y, "pays" if pays else "pays nothing", va="center", fontsize=10, color=INK)
    axes.text(0, -0.4, "start", ha="center", fontsize=11, color=INK)
    axes.text(0, 0.5, f"shown now: {_maze_words(state)}", fontsize=11, color=INK)
    _mark(axes, [place(_maze_state(view, s)[0]) for s in view.states])


def _components_text(view: EpisodeView) -> str:
    return "state " + " ".join(f"{x}/{n - 1}" for x, n in zip(view.state, view.env.nvec, strict=True))


def _components_picture(axes: Any, view: EpisodeView) -> None:
    nvec = np.array(view.env.nvec)
    rows = np.arange(len(nvec))
    axes.barh(rows, np.ones(len(nvec)), color="white", edgecolor=FAINT)
    axes.barh(rows, np.array(view.state) / np.maximum(nvec - 1, 1), color=NOW)
    for i, (x, n) in enumerate(zip(view.state, nvec, strict=True)):
        axes.text(0.02, i, f"component {i}: {x} of 0..{n - 1}", va="center", fontsize=10, color=INK)
    axes.invert_yaxis()


def _mark(axes: Any, path: list[tuple[float, float]]) -> None:
    """Draw the way taken, its last step and the present place."""
    points = np.array(path)
    axes.plot(*points.T, color=INK, lw=2.5, zorder=1.5)
    axes.plot(*points[-2:].T, color=NOW, lw=4, zorder=1.6)
    axes.scatter(*points[-1], s=190, color=NOW, zorder=3)


_ACTIONS: dict[type, tuple[str, ...]] = {
    KeyToDoor: ("“pick key”", "“unlock”"),
    SkewedSplit: ("the only action",),
    MazeState: ("forward", "up", "down"),
}
_COMPONENTS: tuple[Callable[[EpisodeView], str], Callable[[Any, EpisodeView], None]]
_COMPONENTS = (_components_text, _components_picture)
_DRAWINGS = {
    ChainAndSplit: (_chain_text, _chain_picture),
    AccumulatedCharge: (_charge_text, _charge_picture),
    KeyToDoor: (_key_text, _key_picture),
    SkewedSplit: (_skewed_text, _skewed_picture),
    MazeState: (_maze_text, _maze_picture),
}
