"""Durations as text."""

from __future__ import annotations

import pytest

from chunked_td._durations import duration_text, timing_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "under a second"), (1.0, "1 s"), (89.4, "89 s"), (90, "2 min"), (5_399, "90 min"), (5_400, "1.5 h")],
)
def test_durations(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.00123, "1.23 ms"), (4.56e-5, "45.6 µs"), (7.8e-9, "7.8 ns")]
)
def test_measured_times(seconds, text):
    assert timing_text(seconds) == text
