"""Figures and text for the report."""

from chunked_td.lab.report.over_training import over_training

from .protocol import TRUTH

FIGURES = over_training(TRUTH)
PUBLISHED = "Nothing: this is an example."
