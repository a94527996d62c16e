"""λ sources: settings, codes and the cases that random worlds rarely meet."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunked_td.bootstraps import STATE
from chunked_td.lambdas import SOURCES, as_lambda_source
from chunked_td.lambdas.adaptive import AdaptiveLambda
from chunked_td.lambdas.backward import BackwardLambda
from chunked_td.lambdas.base import MODEL
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.expected import ExpectedLambda
from chunked_td.lambdas.factored import FactoredLambda
from chunked_td.lambdas.forward import ForwardLambda
from chunked_td.lambdas.greedy import GreedyLambda
from chunked_td.lambdas.meta_gradient import MetaGradientLambda
from chunked_td.lambdas.names import OLD_IDS, current_id
from chunked_td.lambdas.reading import read_source, read_sources, required_settings
from chunked_td.lambdas.value import ValueLambda
from chunked_td.lambdas.visit import VisitLambda
from chunked_td.lambdas.watkins import WatkinsLambda
from chunked_td.learners.count_models import component_parts
from chunked_td.learners.state import Tables
from chunked_td.models.counts import part_value
from chunked_td.simulation.networks import number_asked


@pytest.mark.parametrize("source", [ConstantLambda, WatkinsLambda])
@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, "0.5", None, True])
def test_lambda_out_of_range(source, value):
    with pytest.raises(ValueError, match=r"lambda must be a number in \[0, 1\], got"):
        source(value)


def test_every_file_of_the_room_is_found():
    free = {AdaptiveLambda, ConstantLambda, GreedyLambda, MetaGradientLambda, WatkinsLambda}
    modelled = {BackwardLambda, ExpectedLambda, FactoredLambda, ForwardLambda, VisitLambda}
    assert set(SOURCES.values()) >= free | modelled
    made = [cls(0.5) if required_settings(cls) else cls() for cls in SOURCES.values()]
    assert all(source.is_compiled for source in made)
    assert {type(s) for s in made if not s.inputs(STATE) & MODEL} >= free
    assert not {type(s) for s in made if not s.inputs(STATE) & MODEL} & modelled


def test_a_source_states_its_names_once():
    for name, cls in SOURCES.items():
        stated = vars(cls)
        assert name == cls.id == current_id(cls.__name__) == current_id(f"{cls.__name__}(value=0.5)")
        assert all((cls.label, cls.group, cls.formula, cls.means)), name
        assert {"id", "label", "group", "color"} <= stated.keys(), name
    for names in ("id", "label", "color"):
        assert len({getattr(cls, names) for cls in SOURCES.values()}) == len(SOURCES)
    assert ForwardLambda.formula.endswith("SARSA: λ_t = P̂(x'|x,a) π(a'|x') (Alg. 2)")


@pytest.mark.parametrize("old", OLD_IDS)
def test_ids_of_stored_files_are_read(old):
    assert current_id(old) in SOURCES
    assert old not in SOURCES
    with pytest.warns(DeprecationWarning, match=f"{old} is now called {current_id(old)}"):
        assert type(read_source(old)) is SOURCES[current_id(old)]


def test_what_a_source_does_not_state_is_derived_and_not_inherited():
    class HalfValueLambda(ValueLambda):
        """Half of it.

            λ(x) = k(x) / 2

        Args:
            width: this is no formula.
        """

    class Other(ValueLambda):
        pass

    assert (HalfValueLambda.id, HalfValueLambda.label) == ("half-value", "HalfValueLambda")
    assert (HalfValueLambda.formula, HalfValueLambda.means) == ("λ(x) = k(x) / 2", "Half of it")
    assert HalfValueLambda.group == Other.group != ValueLambda.group
    assert re.fullmatch("#[0-9a-f]{6}", HalfValueLambda.color)
    assert len({HalfValueLambda.color, Other.color, ValueLambda.color}) == 3
    assert type("Other", (ValueLambda,), {}).color == Other.color  # the same in every run
    with pytest.raises(ValueError, match=r"color of Red must be '#rrggbb', got 'red'"):
        type("Red", (ValueLambda,), {"color": "red"})


@pytest.mark.parametrize("name", ["id", "label", "group", "formula", "means"])
def test_names_that_no_file_can_hold_are_refused_where_they_are_stated(name):
    with pytest.raises(ValueError, match=rf"{name} of Half must be text that UTF-8 can write, got 'a.ud800'"):
        type("Half", (ValueLambda,), {name: "a\ud800"})


def test_sources_are_read_from_text(tmp_path):
    assert read_source("0.5") == ConstantLambda(0.5)
    assert read_source("meta-gradient") == read_source("MetaGradientLambda") == MetaGradientLambda()
    file = tmp_path / "mine.py"
    text = "import chunked_td as ctd\nclass {}(ctd.ForwardLambda):\n    pass\n"
    file.write_text(text.format("One"))
    assert read_source(str(file)).id == "one"
    assert type(read_source(str(file))) is type(read_source(f"{file}:One"))  # run once
    file.write_text(text.format("One") + text.format("Two"))
    assert [source.id for source in read_sources(str(file))] == ["one", "two"]
    assert read_source(f"{file}:Two").id == "two"
    for wrong, message in (
        (str(file), r"must name one λ source, got .*mine.py, which has 2; use .*mine.py:One or .*mine.py:Two"),
        (f"{file}:Three", "must define a class Three that derives from chunked_td.LambdaSource; it has none"),
        (f"{tmp_path / 'none.py'}", "must be a Python file, got .*none.py', which does not exist"),
        ("1.5", r"must be a number in \[0, 1\], one of .* or a Python file .*got '1.5'"),
        ("fowrard", "did you mean 'forward'"),
        ("watkins", "must name a λ source whose settings have defaults, got watkins: WatkinsLambda requires value"),
    ):
        with pytest.raises(ValueError, match=message):
            read_source(wrong)
    file.write_text("1 / 0")
    with pytest.raises(ValueError, match=r"cannot import .*mine.py: ZeroDivisionError"):
        read_source(str(file))


def test_a_formula_of_ones_own_gets_no_number_that_answers_another():
    class Same(ForwardLambda):
        pass

    class Squared(ForwardLambda):
        @staticmethod
        def lambda_t(source, step, i):
            return 0.0

    number = number_asked(ForwardLambda(), STATE)
    assert number_asked(Same(), STATE) == number is not None
    assert number_asked(Squared(), STATE) is None


def test_a_question_that_there_is_not_is_refused():
    class Wrong(ForwardLambda):
        def asks(self, bootstrap):
            return ("mixtures",)

    with pytest.raises(ValueError, match=r"asks must be one of .*, got 'mixtures'; did you mean 'mixture'\?"):
        Wrong().inputs(STATE)


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
        (None, "one reward per state component"),
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
