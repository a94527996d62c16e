"""Kinds of traces: replacing, true-online (dutch) and expected, against plain definitions and their theorems."""

from __future__ import annotations

import numpy as np
import pytest
from faces import SCALAR, VECTOR, check_both_faces, check_saving
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import EXPECTED_SARSA, SARSA, Naive, V
from worlds import World, side_by_side

import chunked_td as ctd
from chunked_td.simulation import simulate

CLASSES = {V: ctd.TDLambda, SARSA: ctd.SarsaLambda, EXPECTED_SARSA: ctd.ExpectedSarsaLambda}


def test_replacing_traces_in_the_simulation():
    check_both_faces(ctd.SarsaLambda, "sarsa", source=ctd.ConstantLambda(0.8), replacing=True)


@pytest.mark.parametrize("view", ["offline", "sampled"])
def test_replacing_goes_with_traces(view):
    with pytest.raises(ValueError, match="replacing goes with view 'traces', got view"):
        simulate(SCALAR, lambda_source=0.5, view=view, replacing=True, step_sizes=0.1, seeds=0, episodes=1)
    with pytest.raises(ValueError, match="replacing goes with view 'traces', got view"):
        ctd.SarsaLambda(World(1), view=view, replacing=True)
