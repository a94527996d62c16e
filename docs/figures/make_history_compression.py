"""Draws docs/figures/history-compression.svg: Figure 1 of the paper from a trained run.

python docs/figures/make_history_compression.py
"""

from pathlib import Path

import matplotlib

from chunked_td.lab.studies.compression.drawing import draw_figure, trained_example

if __name__ == "__main__":
    matplotlib.rcParams["svg.hashsalt"] = "history-compression"
    first = next(iter(trained_example().values()))
    figure = draw_figure(first)
    figure.savefig(Path(__file__).parent / "history-compression.svg", metadata={"Date": None})
