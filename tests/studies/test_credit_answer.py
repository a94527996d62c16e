"""What `python -m studies credit --method` answers: sentences, table and page, from runs with known scores."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from studies.credit import study
from studies.credit.answer import ROWS, Answer, credit, write_answer
from studies.credit.families import FAMILIES as KNOWN
from studies.credit.methods import FIXED, QUICK, RULE, methods_in

FAMILIES = {"delay": False, "walk": False, "rooms": True}


def runs(levels, *, families=FAMILIES, seeds=20, noise=1e-3):
    """A table of runs. Fixed λs score λ, so that 1 is the best and 0 the worst; others what `levels` says.

    Args:
      levels: {method or (method, family) or (method, family, column): score}; 0.9 by default.
    """
    rng, rows = np.random.default_rng(1), []
    for family in families:
        for method in dict.fromkeys([*FIXED, RULE, *(key if isinstance(key, str) else key[0] for key in levels)]):
            for behaviour in ("given", "bonus"):
                for exponent in (0, -2):
                    for seed in range(seeds):
                        found = []
                        for column in ("values", "decisions") if behaviour == "given" else ("control",):
                            level = FIXED[method]["lambda_source"] if method in FIXED else 0.9
                            for key in (method, (method, family), (method, family, column)):
                                level = levels.get(key, level)
                            found.append(level + 0.2 * exponent + noise * rng.normal())
                        rows.append((family, "1", behaviour, method, exponent, seed, found[0], found[-1]))
    columns = ["family", "setting", "behaviour", "arm", "exponent", "seed", "score", "decision"]
    return pl.DataFrame(rows, columns, orient="row")


def test_a_method_of_yours_in_three_sentences():
    levels = {"mine": 0.7, ("mine", "walk"): 0.1, ("mine", "delay", "control"): 1.3, "kin": 0.72, ("kin", "walk"): 0.1}
    view = Answer.of(runs(levels), {"mine": "Mine", "kin": "Kin"}, ["mine"])
    against, relative, worst = view.sentences("mine")
    assert against.startswith("Mine and the best single fixed λ: values 0.50 against 1.00, ")
    assert re.search(r"control 0\.70 against 1\.00, inconclusive \(−0\.30 \[.*?\]; λ = 1, \w+\)\.$", against)
    assert "nearest relative is Kin" in relative
    assert "the registered rule has 0.90, 0.90 and 0.90" in relative
    assert (
        worst
        == "Mine is worst on values Random walk (0.10), decisions Random walk (0.10) and control Random walk (0.10)."
    )


def test_what_is_chosen_is_named_and_left_out_where_nothing_is_told_apart():
    alike = {(name, "walk"): 0.5 for name in FIXED} | {("mine", "walk"): 3.0}
    view = Answer.of(runs({"mine": 0.7, **alike}, seeds=10, noise=0.1), {}, ["mine"])
    assert all(each.unclear == ("walk 1",) for each in view.scores.values())
    said = " ".join(view.caveats())
    assert "designed on: Delay, Random walk" in said
    assert "(marked *): Four rooms" in said
    assert "Left out of control, best and worst fixed λ too close: walk 1" in said
    assert "10 seeds" in said
    nothing = Answer.of(runs({**alike, "mine": 0.7}, families=("walk",), noise=0.1), {}, ["mine"])
    assert "nothing is scored" in nothing.sentences("mine")[0]
    assert not nothing.shown


def test_without_a_method_it_is_about_the_rule_and_one_family_has_no_interval():
    view = Answer.of(runs({}, families=("rooms",)), {}, [])
    assert view.subjects == (RULE,)
    assert "[" not in " ".join(view.sentences(RULE))
    assert "values 0.90 against 1.00 (λ = 1, " in view.sentences(RULE)[0]


def test_the_table_is_short_and_has_what_the_sentences_name():
    levels = {f"m{k}": 0.5 + k / 50 for k in range(12)} | {"mine": 0.2}
    view = Answer.of(runs(levels), {"mine": "Mine"}, ["mine"])
    names = [line.split(" | ")[0].strip("| ") for line in view.table(ROWS).splitlines()[2:]][:ROWS]
    assert names[0] == "Mine"
    fixed = {view.label(each.best_fixed()) for each in view.scores.values()}
    assert {view.label(view.nearest("mine")), view.label(RULE), *fixed} <= set(names)
    assert "10 of " in view.table(ROWS)
    assert view.table(None).count("\n| ") - 1 == len(view.methods) == len(FIXED) + 15  # the rule, tied, mine and twelve


@pytest.mark.parametrize("level", [-1e35, -1e9, -np.inf])
def test_runs_that_diverge_are_shown_as_such_and_not_averaged(tmp_path, level):
    """On one family of three, and on all: no cell, interval or sentence has a number that stands for −∞."""
    levels = {("mine", "walk"): level, "wild": level}
    view = Answer.of(runs(levels), {"mine": "Mine", "wild": "Wild"}, ["mine", "wild"])
    page = write_answer(tmp_path, view).read_text(encoding="utf-8")
    for label in ("Mine", "Wild"):
        assert f"| {label} | −∞ (−∞) | −∞ (−∞) | −∞ (−∞) |" in page
        assert f"{label} and the best single fixed λ: values −∞ against 1.00, worse: runs diverged" in page
    assert not re.search(r"e\+|inf|nan|\d{5}", page)
    assert (tmp_path / "figures" / "mine.svg").is_file()


def test_two_methods_that_diverge_have_no_difference():
    found = Answer.of(runs({"mine": -np.inf, "wild": -np.inf}), {}, ["mine"]).scores["values"]
    assert np.isnan(found.difference("mine", "wild").value)
    assert found.difference("replacing-1", "wild").value == np.inf


def test_a_problem_whose_worst_fixed_lambda_diverges_has_no_scale_and_is_left_out():
    lost = {(name, "walk"): -np.inf for name in ("accumulating-0", "replacing-0")}
    view = Answer.of(runs({"mine": 0.7, **lost}), {}, ["mine"])
    assert all(each.unclear == ("walk 1",) for each in view.scores.values())
    assert np.isfinite(view.scores["values"].mean("mine"))


FAMILY = """
from chunked_td import TransitionTable
from studies.credit.families import Family


def two_ways(gain):
    return TransitionTable.from_outcomes(
        {0: {0: [(1.0, 1, 0.0, True)], 1: [(1.0, 2, gain, True)]}, 1: {}, 2: {}}, starts=0, horizon=1, n_actions=2,
    )


MINE = Family("two-ways", "Two ways", "The second way pays.", "gain", (2.0,), two_ways, episodes=20)
"""


def few(monkeypatch):
    """Fixed λs alone, so that little is compiled."""
    monkeypatch.setattr("studies.credit.answer.QUICK", ("accumulating-0", "accumulating-1", "replacing-0.8"))


def test_a_method_of_ones_own_is_one_file(tmp_path, capsys, monkeypatch):
    few(monkeypatch)
    mine = tmp_path / "mine.py"
    page = (study.again.HERE / "README.md").read_text(encoding="utf-8")
    mine.write_text(page.split("```python\n")[1].split("```")[0], encoding="utf-8")
    for _ in range(2):  # the second time nothing is left to run
        credit(method=(mine,), families=("delay",), seeds=6, out=tmp_path / "out")
        assert "Squared and the best single fixed λ" in capsys.readouterr().out
    table = pl.read_parquet(tmp_path / "out" / "runs.parquet")
    assert set(table["arm"]) == {"squared", "accumulating-0", "accumulating-1", "replacing-0.8"}
    assert set(table["behaviour"]) == {"given", "bonus"}
    with pytest.raises(ValueError, match="at least 4"):
        credit(seeds=3, out=tmp_path / "out")


def test_a_family_of_ones_own_with_one_setting_is_one_file(tmp_path, monkeypatch):
    few(monkeypatch)
    (tmp_path / "ways.py").write_text(FAMILY)
    try:
        credit(families=(str(tmp_path / "ways.py"),), seeds=4, out=tmp_path / "out")
        table = pl.read_parquet(tmp_path / "out" / "runs.parquet")
        assert table["family"].unique().to_list() == ["two-ways"]
        assert table["setting"].unique().to_list() == ["2.0"]
    finally:
        KNOWN.pop("two-ways", None)
    (tmp_path / "taken.py").write_text(FAMILY.replace("two-ways", "delay"))
    with pytest.raises(ValueError, match=r"'delay'.*is taken"):
        credit(families=(str(tmp_path / "taken.py"),), seeds=4, out=tmp_path / "other")
    with pytest.raises(ValueError, match="rooms"):  # families of both kinds are named
        credit(families=("nothing",), seeds=4, out=tmp_path / "other")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_that_name", "cannot import .*: ModuleNotFoundError"),
        ("x = 1", "must define a class"),
        ("METHODS = [1]", "METHODS in .* must be"),
        ("import chunked_td as ctd\nclass Empty(ctd.LambdaSource):\n    pass", "must have a method lambda_t"),
    ],
)
def test_method_files_that_cannot_work_are_refused(tmp_path, text, message):
    file = tmp_path / "wrong.py"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        methods_in(file)
    with pytest.raises(ValueError, match="does not exist"):
        methods_in(tmp_path / "missing.py")


def test_settings_of_simulate_are_methods(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text('METHODS = {"watkins": {"learner": "q_learning", "lambda_source": 0.9}}')
    methods, labels = methods_in(file)
    assert methods == {"watkins": {"learner": "q_learning", "lambda_source": 0.9, "view": "traces"}}
    assert labels == {"watkins": "watkins"}


def test_the_quick_size_has_both_kinds_of_families_and_the_rule():
    from studies.credit.answer import QUICK_FAMILIES

    assert {KNOWN[name].held_out for name in QUICK_FAMILIES} == {True, False}
    assert {RULE, "forward", "accumulating-0", "replacing-1", "replacing-0.4"} <= set(QUICK)
