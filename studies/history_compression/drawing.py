"""Figure 1 from data: tokens, predictions of the levels, and the symbols passed up, for one compressed sequence.

The paper's figure shows two rows of recurrent states: below, one per token; above, one per token that the lower
network failed to predict, in red. Here the rows come from a trained `HistoryCompressor`: `figure_data` collects
them and `draw_figure` draws them. Stretches of tokens that every level predicted can be left out
in the middle (`around`)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from studies.history_compression.compressor import END, Compressed, HistoryCompressor, LevelReading

START = "<start>"
_FAILED, _PREDICTED, _INK = "#c62828", "#5c6b7a", "#1f2933"


def figure_data(compressed: Compressed, around: int = 4) -> dict[str, Any]:
    """The parts of the picture, as plain lists.

    Args:
      around: tokens to show on either side of one that went up; the others are left out. The first two and the last
        two tokens are always shown.
    Returns:
      columns: the positions shown, −1 for the start token, and None where some were left out.
      levels: per level, lowest first, a list of tokens with position, symbol, predicted, probability,
        up (whether it goes up) and always (whether it would in any case).
        Only levels above the lowest leave nothing out.
      kept, length, bits: how many symbols were kept, of how many, and the description length.
    """
    levels = [_tokens(reading) for reading in compressed.readings]
    columns = _columns(levels, compressed.length, around)
    shown = {column for column in columns if column is not None}
    return {
        "columns": columns,
        "levels": [[token for token in level if token["position"] in shown] for level in levels],
        "kept": len(compressed.symbols),
        "length": compressed.length,
        "bits": compressed.bits,
    }


def _tokens(reading: LevelReading) -> list[dict[str, Any]]:
    """The start token, then every item that the level read. Start and end go up in any case."""
    start = {"position": -1, "symbol": START, "predicted": None, "probability": None, "up": True, "always": True}
    tokens: list[dict[str, Any]] = [start]
    for i, symbol in enumerate(reading.symbols):
        tokens.append(
            {
                "position": int(reading.positions[i]),
                "symbol": str(symbol),
                "predicted": str(reading.predicted[i]),
                "probability": round(float(reading.probabilities[i]), 4),
                "up": bool(reading.keep[i]),
                "always": i == len(reading.symbols) - 1,
            }
        )
    return tokens


def _columns(levels: list[list[dict[str, Any]]], length: int, around: int) -> list[int | None]:
    wanted = {-1, 0, 1, length - 1, length}
    for token in levels[0]:
        if token["up"]:
            at = token["position"]
            wanted |= set(range(max(at - around, -1), min(at + around, length) + 1))
    columns: list[int | None] = []
    for position in range(-1, length + 1):
        if position in wanted:
            columns.append(position)
        elif columns[-1] is not None:
            columns.append(None)
    return columns


def draw_figure(data: dict[str, Any]) -> Figure:
    """The picture of one sequence. Args: data: of `figure_data`."""
    place = {column: x for x, column in enumerate(data["columns"]) if column is not None}
    rows = len(data["levels"])
    figure = Figure(figsize=(max(6.0, 0.62 * len(data["columns"]) + 1.6), 1.15 * rows + 0.5), layout="constrained")
    axes = figure.add_subplot()
    for row, level in enumerate(data["levels"]):
        _draw_level(axes, level, place, row, rows)
    for x, column in enumerate(data["columns"]):
        if column is None:
            axes.text(x, 0.12, "⋯", ha="center", va="center", color=_PREDICTED, fontsize=14)
    axes.set_xlim(-1.8, len(data["columns"]) - 0.4)
    axes.set_ylim(-0.5, rows - 0.6)
    axes.axis("off")
    text = f"{data['kept']} of {data['length']} symbols reach the top level; description length {data['bits']:.1f} bits"
    axes.set_title(text, fontsize=10, color=_INK, loc="left")
    return figure


def _draw_level(axes: Any, tokens: list[dict[str, Any]], place: dict[int, int], row: int, rows: int) -> None:
    """One row: states as circles with the token in them, in time order, with the probability of the token below."""
    axes.text(-1.7, row, f"level {row}", va="center", fontsize=10, color=_INK)
    xs = [place[token["position"]] for token in tokens]
    for left, right in itertools.pairwise(xs):
        dashed = ":" if row == 0 and right - left > 1 else "-"
        arrow = {"arrowstyle": "->", "color": _PREDICTED, "lw": 1.0, "ls": dashed, "shrinkA": 12, "shrinkB": 12}
        axes.annotate("", (right, row), (left, row), arrowprops=arrow)
    for x, token in zip(xs, tokens, strict=True):
        color = _INK if token["always"] else _FAILED if token["up"] else _PREDICTED
        label = _label(token["symbol"])
        bubble = {"boxstyle": "circle,pad=0.28", "fc": "white", "ec": color, "lw": 1.6}
        size = 10 if len(label) < 3 else 6.5
        axes.text(x, row, label, ha="center", va="center", fontsize=size, color=color, bbox=bubble, zorder=3)
        if token["probability"] is not None:
            _small(axes, f"{token['probability']:.2f}", (x, row), color)
        if token["up"] and row < rows - 1:
            up = {"arrowstyle": "->", "color": color, "lw": 1.4, "shrinkA": 12, "shrinkB": 29}
            axes.annotate("", (x, row + 1), (x, row), arrowprops=up)


def _label(symbol: str) -> str:
    """The part of a symbol that fits into a circle."""
    shown = {START: "start", END: "end"}.get(symbol, symbol)
    return shown if len(shown) <= 5 else f"{shown[:4]}…"


def _small(axes: Any, text: str, place: tuple[float, float], color: str) -> None:
    """A number under a circle."""
    style = {"textcoords": "offset points", "ha": "center", "va": "center", "fontsize": 7, "color": color}
    axes.annotate(text, place, (0, -20), **style, zorder=3)


def trained_example(n: int = 40, *, hidden: int = 16, epochs: int = 300, seed: int = 1) -> dict[str, Compressed]:
    """The paper's pair of sequences, compressed by two levels that were trained on it."""
    middle = ["pqrs"[j % 4] for j in range(n - 1)]
    pair = [["a", *middle, "0"], ["b", *middle, "1"]]
    compressor = HistoryCompressor(hidden=hidden, seed=seed).fit(pair, epochs=epochs)
    return {f"{sequence[0]} … {sequence[-1]}": compressor.compress(sequence) for sequence in pair}


def main() -> None:
    """Train a compressor on the paper's pair of sequences and write what Figure 1 shows of one: figure-1.json."""
    first = next(iter(trained_example().values()))
    (Path(__file__).parent / "figure-1.json").write_text(json.dumps(figure_data(first)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
