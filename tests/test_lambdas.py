"""λ sources: settings, codes and the cases that random worlds rarely meet."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunked_td.lambdas import SOURCES, as_lambda_source
from chunked_td.lambdas.base import MODEL
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.factored import FactoredLambda
from chunked_td.lambdas.forward import ForwardLambda
from chunked_td.lambdas.watkins import WatkinsLambda
from chunked_td.learners.count_models import component_parts
from chunked_td.learners.state import Tables
from chunked_td.models.counts import part_value


@pytest.mark.parametrize("source", [ConstantLambda, WatkinsLambda])
@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, "0.5", None, True])
def test_lambda_out_of_range(source, value):
    with pytest.raises(ValueError, match=r"lambda must be a number in \[0, 1\], got"):
        source(value)


def test_every_file_of_the_room_is_found():
    modelled = "Backward Expected Factored Forward Visit"
    free = "Adaptive Constant Greedy MetaGradient Signal Watkins"
    model_free = {f"{name}Lambda" for name in free.split()}
    assert set(SOURCES) >= {f"{name}Lambda" for name in modelled.split()} | model_free
    made = [cls(0.5) if cls in (ConstantLambda, WatkinsLambda) else cls() for cls in SOURCES.values()]
    assert all(source.is_compiled for source in made)
    assert {type(s).__name__ for s in made if not s.needs & MODEL} == model_free


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float64(0.5), 1, np.int64(1), 0])
def test_a_number_is_a_constant_lambda(value):
    assert as_lambda_source(value, ForwardLambda()) == ConstantLambda(float(value))


def test_what_is_not_a_source():
    assert as_lambda_source(None, ForwardLambda()) == ForwardLambda()
    for wrong in ("forward", True, [0.5]):
        with pytest.raises(ValueError, match="lambda_source must be a number"):
            as_lambda_source(wrong, ForwardLambda())
    with pytest.raises(ValueError, match=r"lambda_source must be a number in \[0, 1\]"):
        as_lambda_source(1.5, ForwardLambda())


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_part_values_tell_the_chosen_components_apart(nvec, data):
    members = data.draw(st.lists(st.integers(0, len(nvec) - 1), unique=True))
    groups = component_parts(FactoredLambda((tuple(members),)), 1, len(nvec))
    tables = Tables(np.zeros((1, 1)), np.zeros((0, 1), bool), np.array(nvec), groups)
    seen = {}
    for state in range(math.prod(nvec)):
        digits = np.unravel_index(state, nvec)
        key = tuple(int(digits[j]) for j in sorted(members))
        assert seen.setdefault(key, part_value(None, tables, 0, state)) == part_value(None, tables, 0, state)
    assert len(set(seen.values())) == len(seen) == math.prod(nvec[j] for j in members)
    assert set(seen.values()) == set(range(len(seen)))


@pytest.mark.parametrize(
    ("components", "match"),
    [
        (None, "as many rewards as state components"),
        ((0,), "one entry per reward"),
        ((0, 3), r"lie in 0\.\.2, got 3"),
        ((0, -1), r"lie in 0\.\.2, got -1"),
    ],
)
def test_wrong_components(components, match):
    with pytest.raises(ValueError, match=match):
        component_parts(FactoredLambda(components), 2, 3)


def test_default_components_pair_rewards_with_state_components():
    np.testing.assert_array_equal(component_parts(FactoredLambda(), 3, 3), np.eye(3, dtype=bool))
    np.testing.assert_array_equal(component_parts(FactoredLambda((np.int64(1), (0, 1))), 2, 2), [[0, 1], [1, 1]])
