"""The atlas: its problems, its scores, its command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from chunked_td.analysis.exact import ExactModel
from chunked_td.cli import main
from chunked_td.lab.errors import UsageError
from chunked_td.lab.running.batches import execute
from chunked_td.lab.running.plan import Size, batches_of
from chunked_td.lab.running.reproduce import RunOptions
from chunked_td.lab.store.settings import family_of
from chunked_td.lab.studies.atlas.families import CHOICE, FAMILIES, FIRST, PREDICTION, families
from chunked_td.lab.studies.atlas.families.corridors import corridor
from chunked_td.lab.studies.atlas.methods import FIXED_METHODS, ONLY_ON, builtin_methods, methods_in, scored_methods
from chunked_td.lab.studies.atlas.protocol import SIZES, ProblemKey, problems, protocol_of
from chunked_td.lab.studies.atlas.report import CriterionParts
from chunked_td.lab.studies.atlas.results import CreditMap
from chunked_td.lab.studies.atlas.run import QUICK_FAMILIES
from chunked_td.lab.studies.atlas.run import SIZES as SCORES
from chunked_td.lab.studies.atlas.run import atlas as run_atlas
from chunked_td.lab.studies.three_scores.protocol import score_protocols

RESULTS = Path(__file__).parents[2] / "results" / "atlas"


def small(family):
    """Every family but the one that needs Gymnasium's larger tables."""
    return family.settings[:1] if family.id == "published" else family.settings


@pytest.mark.parametrize("family", FIRST.values(), ids=lambda family: family.id)
def test_problems_are_what_their_family_says(family):
    assert len(family.settings) == 3
    for setting in small(family):
        table = family.problem(setting)
        if family.task == CHOICE:
            assert table.bad_end.any()
            assert not table.bad_end.all()
        assert np.isfinite(ExactModel(table).evaluate("uniform", family.discount).v).all()
        assert family.pairs(setting)


CONTROLLED = [family for family in FIRST.values() if family.control_for]


@pytest.mark.parametrize("family", [f for f in CONTROLLED if f.id != "chain-and-split"], ids=lambda family: family.id)
def test_a_control_changes_no_expected_return(family):
    for setting in family.settings:
        plain, control = (ExactModel(family.problem(setting, control=control)) for control in (False, True))
        found = [model.evaluate().q[model.row(model.starts[0])] for model in (plain, control)]
        np.testing.assert_allclose(*found, atol=1e-12)
        returns = [return_variance(family.problem(setting, control=control)) for control in (False, True)]
        if family.id != "distractors":  # there noise that decides nothing becomes noise in rewards
            assert returns[0] == pytest.approx(returns[1])


def return_variance(table):
    """Variance of the return of the uniform policy from the first start, by running through all outcomes backwards."""
    first, moments = table.first, {}
    n_actions = (len(first) - 1) // table.n_states

    def moment(state):
        """E[G] and E[G²]; no state returns in these problems."""
        if state not in moments:
            legal = [a for a in range(n_actions) if first[state * n_actions + a + 1] > first[state * n_actions + a]]
            mean = square = 0.0
            for a in legal:
                for k in range(first[state * n_actions + a], first[state * n_actions + a + 1]):
                    r, p = float(table.reward[k, 0]), float(table.chance[k]) / len(legal)
                    m, s = (0.0, 0.0) if table.ends[k] else moment(int(table.target[k]))
                    mean, square = mean + p * (r + m), square + p * (r * r + 2 * r * m + s)
            moments[state] = mean, square
        return moments[state]

    mean, square = moment(int(table.start[0]))
    return square - mean**2


def fingerprint(table):
    """What renaming states and actions leaves alone: of every (s, a), its value and what it may pay."""
    model, rows = ExactModel(table), []
    q = model.evaluate("uniform", 1.0).table().sum(axis=2)
    for s, a in zip(*np.nonzero(table.legal_actions), strict=True):
        pair = int(s) * q.shape[1] + int(a)
        listed = range(table.first[pair], table.first[pair + 1])
        paid = sorted((round(float(table.chance[k]), 9), round(float(table.reward[k, 0]), 9) + 0.0) for k in listed)
        rows.append((round(float(q[s, a]), 9) + 0.0, paid))
    return sorted(rows)


def test_a_control_is_another_problem_but_where_its_text_says_otherwise():
    """Mirrored and renamed, a problem may be the same one again; for a table of values such a control tests nothing."""
    same = {
        (family.id, setting)
        for family in CONTROLLED
        for setting in family.settings
        if fingerprint(family.problem(setting)) == fingerprint(family.problem(setting, control=True))
    }
    assert same == {("skew", 0.5)}
    assert "no test" in FAMILIES["skew"].control_text
    assert all(family.control_text for family in CONTROLLED)


def test_in_the_control_of_chain_and_split_the_other_choice_is_right():
    family = FAMILIES["chain-and-split"]
    for control in (False, True):
        table = family.problem(family.settings[0], control=control)
        q = ExactModel(table).optimal().table()[int(table.start[0]), :, 0]
        assert (np.argmax(q) == 0) != control
        assert table.bad_end.sum() == 1


def test_moved_noise_is_in_no_state():
    for name in ("noisy-states", "distractors", "key-to-door"):
        table = FAMILIES[name].problem(FAMILIES[name].settings[0], control=True)
        targets = {
            (pair, int(table.target[k]))
            for pair in range(len(table.first) - 1)
            for k in range(table.first[pair], table.first[pair + 1])
        }
        assert len({pair for pair, _ in targets}) == len(targets)  # one next state for each (s, a)


def test_values_of_a_chain_with_skips():
    table = FAMILIES["skips"].problem(13)
    model = ExactModel(table)
    values = dict(zip(model.ids.tolist(), model.evaluate("uniform", 1.0).v.sum(axis=1), strict=True))
    assert {table.names[s]: pytest.approx(v) for s, v in values.items()} == {k: -2.0 * k for k in range(13)}


def test_the_noise_of_a_corridor_has_the_size_that_was_asked_for():
    table = corridor(delay=3, noise="reward", noisy_steps=1, size=2.0, skew=0.1)
    noisy = table.reward[:, 0] != 0
    rewards, chances = table.reward[noisy, 0], table.chance[noisy]
    first = rewards[:2], chances[:2]
    assert np.isclose(first[0] @ first[1], 0.0)
    assert np.isclose((first[0] ** 2) @ first[1], 4.0)


def test_scores_of_a_prediction_problem_are_errors_against_exact_values():
    key = ProblemKey("walk", 5)
    protocol = protocol_of(key, FIXED_METHODS[:1], SIZES["full"])
    truth = np.arange(-2, 3) / 3  # of a walk between −1 and +1
    states = sorted({s for s, _ in protocol.probes})
    mean, values = protocol.scoring._truth
    names = FAMILIES["walk"].problem(5).names
    np.testing.assert_allclose(values, [truth[names[s]] for s in states], atol=1e-12)
    np.testing.assert_allclose(mean.sum(axis=0), 1.0)
    columns = execute(batches_of(protocol, protocol.arms[0], Size(1, protocol.episodes, (-2,)))[0])
    assert columns["score"][-1] > columns["score"][0] > -1.0  # errors shrink, so their average does
    assert FAMILIES["walk"].task == PREDICTION


def rows(scores):
    """A table of runs from {(problem, method, exponent): scores by seed}."""
    return pl.DataFrame(
        [
            {"family": p[0], "setting": str(p[1]), "control": False, "method": m, "exponent": e, "seed": i, "score": s}
            for (p, m, e), listed in scores.items()
            for i, s in enumerate(listed)
        ]
    )


def test_relative_scores_take_each_method_at_its_best_step_size():
    one, two = ("delay", 4), ("delay", 16)
    table = {(one, "fixed-0", 0): [0.0, 0.0], (one, "fixed-0", -1): [1.0, 3.0], (one, "fixed-1", 0): [4.0, 8.0]}
    table |= {(one, "fixed-1", -1): [0.0, 0.0], (one, "mine", 0): [4.0, 4.0], (one, "mine", -1): [3.0, 3.0]}
    table |= {(two, "fixed-0", 0): [1.0, 1.0], (two, "fixed-0", -1): [0.0, 0.0], (two, "fixed-1", 0): [0.0, 0.0]}
    table |= {(two, "fixed-1", -1): [0.5, 0.5], (two, "mine", 0): [2.0, 2.0], (two, "mine", -1): [np.nan, 9.0]}
    atlas = CreditMap(rows(table))
    first, second = atlas.problems
    assert atlas.cells[first, "mine"].relative.value == pytest.approx(0.5)
    assert atlas.cells[first, "mine"].exponent == 0
    assert atlas.best_fixed == {first: "fixed-1", second: "fixed-0"}
    assert atlas.cells[second, "mine"].relative.value == pytest.approx(3.0)  # a run that diverged rules a step size out
    assert atlas.mean("mine") == pytest.approx(1.75)
    judged = CriterionParts.of(atlas, "mine", atlas.main)
    assert judged.met == (True, False, True)
    assert judged.worst == pytest.approx(0.5)
    assert judged.best_fixed == pytest.approx(0.5)


@pytest.mark.uncompiled
@pytest.mark.parametrize("method", builtin_methods(), ids=lambda method: method.id)
def test_every_method_runs(method):
    family = FAMILIES[ONLY_ON.get(method.id, ("delay",))[0]]
    protocol = protocol_of(ProblemKey(family.id, family.settings[0]), [method], SIZES["full"])
    (arm,) = protocol.arms
    columns = execute(batches_of(protocol, arm, Size(1, 4, (-3,)))[0])
    assert np.isfinite(columns["score"]).all()


def few(monkeypatch):
    """Fixed λs alone, so that little is compiled."""
    some = [arm for arm in scored_methods() if arm.id in ("accumulating-0", "accumulating-1", "replacing-0.8")]
    monkeypatch.setattr("chunked_td.lab.studies.atlas.run.scored_methods", lambda: some)


def test_the_command_runs_resumes_and_takes_a_method_of_ones_own(tmp_path, capsys, monkeypatch):
    few(monkeypatch)
    mine = tmp_path / "mine.py"
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "atlas.md").read_text(encoding="utf-8")
    mine.write_text(guide.split("```python\n")[1].split("```")[0], encoding="utf-8")
    command = ["atlas", "--out", str(tmp_path / "map"), "--families", "delay", "--seeds", "6", "--method", str(mine)]
    for expected in ("saved", "nothing to do"):
        with pytest.raises(SystemExit) as end:
            main(command)
        assert end.value.code == 0
        said = capsys.readouterr().out
        assert expected in said
        assert "Squared and the best single fixed λ" in said
    frame = pl.read_parquet(tmp_path / "map" / "runs.parquet")
    assert set(frame["method"]) == {"squared", "accumulating-0", "accumulating-1", "replacing-0.8"}
    assert set(frame["behaviour"]) == {"given", "bonus"}
    assert "Squared and the best single fixed λ" in (tmp_path / "map" / "atlas.html").read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        main([*command, "--page-only"])
    assert "Squared and the best single fixed λ" in capsys.readouterr().out
    assert run_atlas(out=tmp_path / "map", seeds=3) == 2
    assert "at least 4" in capsys.readouterr().err


FAMILY = """
from chunked_td import TransitionTable
from chunked_td.lab.studies.atlas.families import CHOICE, Family


def two_ways(gain):
    return TransitionTable.from_outcomes(
        {0: {0: [(1.0, 1, 0.0, True)], 1: [(1.0, 2, gain, True)]}, 1: {}, 2: {}}, starts=0, horizon=1, n_actions=2,
        bad_first=(0,),
    )


MINE = Family("two-ways", "Two ways", "The second way pays.", "gain", (1.0, 2.0, 4.0), two_ways, episodes=20)
"""


def test_a_family_of_ones_own_is_one_file(tmp_path, capsys, monkeypatch):
    few(monkeypatch)
    (tmp_path / "ways.py").write_text(FAMILY)
    try:
        assert (
            run_atlas(out=tmp_path / "map", families=[str(tmp_path / "ways.py")], seeds=4, how=RunOptions(quiet=True))
            == 0
        )
        frame = pl.read_parquet(tmp_path / "map" / "runs.parquet")
        assert set(frame["family"]) == {"two-ways"}
        assert "Two ways" in (tmp_path / "map" / "atlas.html").read_text(encoding="utf-8")
        one = protocol_of(ProblemKey("two-ways", 2.0), [], SIZES["quick"]).environment
        assert one.arguments["source"].startswith("@")  # an edit makes new batches
        (score,) = score_protocols([FAMILIES["two-ways"]], [], SCORES["quick"], ["given"])
        assert score.environment.arguments["source"] == one.arguments["source"]
        assert "source" not in protocol_of(ProblemKey("delay", 4), [], SIZES["quick"]).environment.arguments
    finally:
        FAMILIES.pop("two-ways", None)
    (tmp_path / "taken.py").write_text(FAMILY.replace("two-ways", "delay"))
    assert run_atlas(out=tmp_path / "other", families=[str(tmp_path / "taken.py")], seeds=4) == 2
    assert "the id 'delay' is taken" in capsys.readouterr().err
    assert run_atlas(out=tmp_path / "other", families=["nothing"], seeds=4) == 2
    assert "rooms" in capsys.readouterr().err  # families of both kinds are named


def test_stored_names_outlive_the_move():
    """Batches of runs that were stored before the atlas moved are found again."""
    key = ProblemKey("delay", 4)
    protocol = protocol_of(key, [builtin_methods()[0]], SIZES["full"])
    family = family_of(protocol, protocol.arms[0])
    assert family["environment"] == "chunked_td.lab.atlas.protocols:AtlasProblem"
    assert family["scoring"] == "chunked_td.lab.atlas.scoring:right_choices"
    assert family["options"] == {"view": "traces"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_that_name", "does not import: ModuleNotFoundError"),
        ("x = 1", "must define a class"),
        ("METHODS = [1]", "METHODS must be a list"),
        ("import chunked_td as ctd\nclass Empty(ctd.LambdaSource):\n    pass", "must have a method lambda_t"),
    ],
)
def test_method_files_that_cannot_work_are_refused(tmp_path, text, message):
    file = tmp_path / "wrong.py"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        methods_in(file)
    with pytest.raises(UsageError, match="is not there"):
        methods_in(tmp_path / "missing.py")


def test_profiles_hold_what_they_promise():
    full, quick = problems(SIZES["full"]), problems(SIZES["quick"])
    names = {key.family for key in full}
    assert len(names) >= 10
    assert all(sum(key.family == name and not key.control for key in full) == 3 for name in names)
    assert len(SIZES["full"].exponents) == 12
    assert SIZES["full"].seeds == 30
    assert len(quick) == len(names)
    assert {FAMILIES[name].held_out for name in names} == {True, False}


def test_the_quick_profile_of_three_scores_has_both_kinds_of_families_and_a_rule():
    assert {FAMILIES[name].held_out for name in QUICK_FAMILIES} == {True, False}
    assert set(QUICK_FAMILIES) <= {*families(False), *families(True)}
    quick = [arm for arm in scored_methods() if arm.quick]
    assert {"lineage-expected", "forward", "accumulating-0", "replacing-1", "replacing-0.4"} <= {
        arm.id for arm in quick
    }
    assert len({arm.id for arm in scored_methods()}) == len(scored_methods())


def test_watkins_runs_where_values_are_not_scored():
    """Its values are those of the greedy policy, the value problems score those of the uniform one."""
    watkins = next(method for method in builtin_methods() if method.id == "watkins")
    assert ONLY_ON["watkins"] == tuple(name for name, family in FIRST.items() if family.task != PREDICTION)
    arms = {key.family: protocol_of(key, [watkins], SIZES["full"]).arms for key in problems(SIZES["full"])}
    assert not arms["walk"]
    assert not arms["garnet-values"]
    assert arms["grid"]


def test_wrong_models_do_not_run_on_controls():
    methods = builtin_methods()
    key = ProblemKey("noisy-states", 5)
    plain, control = (protocol_of(k, methods, SIZES["full"]).arms for k in (key, replace(key, control=True)))
    assert {arm.id for arm in plain} - {arm.id for arm in control} == {
        m.id for m in methods if m.group == "wrong model"
    }


def test_a_stored_score_is_what_the_code_gives():
    """One batch of the stored run again: bit for bit, seeds and step counts."""
    key, seeds = ProblemKey("key-to-door", 6, control=True), 30
    method = next(method for method in builtin_methods() if method.id == "junction")
    protocol = protocol_of(key, [method], SIZES["full"])
    columns = execute(batches_of(protocol, protocol.arms[0], Size(seeds, protocol.episodes, (-3,)))[0])
    last = columns["episode"] == protocol.episodes
    where = [pl.col(name) == value for name, value in (("family", key.family), ("setting", str(key.setting)))]
    where += [pl.col("control"), pl.col("method") == method.id, pl.col("exponent") == -3]
    stored = pl.read_parquet(RESULTS / "scores.parquet").filter(where).sort("seed")
    assert stored.height == seeds
    np.testing.assert_array_equal(stored["score"].to_numpy(), columns["score"][last].astype(np.float32))
    np.testing.assert_array_equal(stored["steps"].to_numpy(), columns["steps"][last])


def test_averages_have_no_step_size_to_tune():
    """1/n is larger than the least step size in every run."""
    for method in builtin_methods():
        if method.options.get("view") in ("averaged", "corrected"):
            assert method.exponents is not None
            for name in ONLY_ON.get(method.id, tuple(FIRST)):
                assert all(2.0**exponent < 1 / FAMILIES[name].episodes for exponent in method.exponents)
