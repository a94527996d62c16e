"""The first atlas: its tables, claims and intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from chunked_td.lab.studies.atlas.claims import CLAIMS, model_losses
from chunked_td.lab.studies.atlas.methods import builtin_methods, runs_on
from chunked_td.lab.studies.atlas.protocol import SIZES, problems
from chunked_td.lab.studies.atlas.report import PAGE, AtlasView, CriterionParts, ranked
from chunked_td.lab.studies.atlas.results import FLOOR, CreditMap, read_scores
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN
from chunked_td.lab.wording import estimate_text, score_text

RESULTS = Path(__file__).parents[2] / "results" / "atlas"
FAMILIES = ("delay", "noisy-states", "fan-in", "skew", "policy", "grid")
METHODS = {method.id: method for method in builtin_methods()}


def fake(levels=None, *, profile="full", families=FAMILIES, seeds=4, noise=0.02, methods=None):
    """A table of runs. Fixed λs score λ, others 0.9, each less at its second step size, but where `levels` says else.

    Args:
      levels: {method, (method, family) or (method, family, setting, control): score}.
    """
    rng, rows, levels = np.random.default_rng(1), [], levels or {}
    for key in problems(SIZES[profile], families):
        for method in METHODS.values() if methods is None else methods:
            if not runs_on(method, key.family, False) or not (method.quick or profile == "full"):
                continue
            level = method.lambda_source if method.group == "fixed λ" else 0.9
            for name in (method.id, (method.id, key.family), (method.id, key.family, key.setting, key.control)):
                level = levels.get(name, level)
            for exponent in method.exponents or (0, -1, -2):
                for seed in range(seeds):
                    score = level - 0.1 * abs(exponent + 1) * (method.exponents is None) + noise * rng.normal()
                    rows.append((key.family, str(key.setting), key.control, method.id, exponent, seed, score))
    columns = {"family": pl.String, "setting": pl.String, "control": pl.Boolean, "method": pl.String}
    columns |= {"exponent": pl.Int8, "seed": pl.Int16, "score": pl.Float32}
    return pl.DataFrame(rows, schema=columns, orient="row")


def finding(levels, name, **options):
    (claim,) = (claim for claim in CLAIMS if claim.id == name)
    return claim.judge(CreditMap(fake(levels, **options), 200), {})


@pytest.fixture(scope="module")
def view():
    levels = {"junction": 1.05, "backward": 1.2, ("expected", "skew"): 1.3, ("dyna", "grid"): np.nan}
    levels |= {("expected", "skew", setting, True): 0.5 for setting in (0.5, 0.2, 0.05)}
    return AtlasView(CreditMap(fake(levels)))


def test_the_tables_have_the_numbers_of_the_map(view):
    atlas, ranking = view.atlas, view.documents()["ranking"].splitlines()[2:]
    order = atlas.ranking(view.problems)
    assert order[0] == "backward" == view.candidate
    for row, method in zip(ranking, order, strict=True):
        assert row.startswith(f"| {METHODS[method].label} |")
        assert f" {score_text(atlas.mean(method, view.problems))} [" in row
    grid = [key for key in atlas.main if key.family == "grid"]
    assert atlas.mean("dyna", grid) == FLOOR  # it diverged


def test_wins_that_do_not_survive_the_control_are_flagged(view):
    controls = view.documents()["controls"]
    survive = [[cell.strip() for cell in row.split("|")[2:4]] for row in controls.splitlines()[2:]]
    assert [wins for wins in survive if wins[0] != wins[1]] == [["3", "0"]]  # those of expected chunking alone
    assert "| Expected chunking | 3 | 0 | Skewed noise, skew 0.5: " in controls
    assert "| Backward chunking | 6 | 6 |" in controls


def test_a_folder_gets_its_tables_and_a_page_that_escapes_labels(tmp_path):
    frame = fake({"<b>mine": 2.0}, families=("delay",), methods=[METHODS["fixed-0"], METHODS["fixed-1"]])
    mine = frame.filter(pl.col("method") == "fixed-0").with_columns(pl.lit("<b>mine").alias("method"))
    page = PAGE(tmp_path, CreditMap(pl.concat([frame, mine]), 50))
    text = page.read_text(encoding="utf-8")
    assert "<b>mine" not in text
    assert "&lt;b&gt;mine" in text
    assert (tmp_path / "tables" / "ranking.md").is_file()


@pytest.mark.parametrize(
    ("mean", "worst", "fixed", "met"),
    [
        (0.95, 0.75, 0.74, ("met", "met", "met")),
        (0.94, 0.75, 0.74, ("not met", "met", "met")),
        (0.95, 0.74, 0.74, ("met", "not met", "met")),
        (0.95, 0.75, 0.75, ("met", "met", "not met")),
    ],
)
def test_the_criterion_has_three_parts_and_each_can_fail(mean, worst, fixed, met):
    judged = CriterionParts(mean, worst, fixed)
    assert judged.met == tuple(part == "met" for part in met)
    assert judged.text == (
        f"mean {mean:.2f} (≥ 0.95): {met[0]}; worst problem {worst:.2f} (≥ 0.75): {met[1]}; "
        f"best single fixed λ {fixed:.2f} (< 0.75): {met[2]}."
    )


def test_claims_name_what_speaks_against_them():
    levels = {"forward": 1.0, "forward-literal": 1.0, "forward-sarsa": 0.3, "naive-td0": -4.0}
    levels |= {("forward-literal", "fan-in", 8, False): 0.5}
    families = {"families": ("fan-in", "policy"), "noise": 0.0}
    assert "Chunked SARSA" in finding(levels, "same-next-state", **families).evidence
    assert finding(levels, "same-next-state", **families).evidence.endswith("has 0.30, 0.30 and 0.30.")
    for name in ("sutton-singh-fan-in", "tdc-and-backward"):
        assert finding(levels, name, **families).evidence.endswith("TD(0) with 1/n has −4.00, −4.00 and −4.00.")
    literal = finding(levels, "literal-reading", **families).evidence
    assert "On the 1 where their runs differ: 0.50 [0.50, 0.50], from 0.50 (Many ways in, starts 8)" in literal


def test_intervals_are_bootstraps_over_families_settings_and_seeds():
    """Known variance: families, their settings and seeds, each with a spread; 95 % are ±1.96 standard errors."""
    rng = np.random.default_rng(0)
    few = [METHODS["fixed-0"], METHODS["fixed-1"], METHODS["forward"]]
    keys = [key for key in problems(SIZES["full"]) if not key.control]
    shift = {key.family: 0.02 * rng.normal() for key in keys}
    levels = {("forward", k.family, k.setting, False): 0.5 + shift[k.family] + 0.02 * rng.normal() for k in keys}
    frame = fake(levels, families=tuple(shift), methods=few, seeds=20, noise=0.0).filter(~pl.col("control"))
    shaken = frame.with_columns(score=pl.col("score") + pl.Series(0.3 * rng.normal(size=frame.height)).cast(pl.Float32))
    shaken = pl.concat([frame.filter(pl.col("method") != "forward"), shaken.filter(pl.col("method") == "forward")])
    atlas = CreditMap(shaken.filter(pl.col("exponent") == -1))
    found = atlas.mean_estimate("forward", atlas.main)
    values = np.array([atlas.cells[key, "forward"].by_seed for key in atlas.main]).reshape(len(shift), 3, -1)
    means = values.mean(axis=2)
    parts = [means.mean(axis=1).var() / len(shift), means.var(axis=1).mean() / means.size]
    parts.append(values.var(axis=2).mean() / values.size)
    assert found.value == pytest.approx(atlas.mean("forward", atlas.main))
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * np.sqrt(sum(parts)), rel=0.1)
    assert all(np.sqrt(sum(parts) - part) < 0.9 * np.sqrt(sum(parts)) for part in parts)  # each is needed


def test_settings_of_a_family_that_go_together_make_intervals_wide():
    """Three settings that are one problem three times tell no more than one of them."""
    few = [METHODS["fixed-0"], METHODS["fixed-1"], METHODS["forward"]]
    rng = np.random.default_rng(1)
    levels = {("forward", name): 0.5 + 0.2 * rng.normal() for name in FAMILIES}
    atlas = CreditMap(fake(levels, methods=few, noise=0.0))
    keys = atlas.main
    all_three, first = atlas.mean_estimate("forward", keys), atlas.mean_estimate("forward", keys[::3])
    assert all_three.high - all_three.low == pytest.approx(first.high - first.low, rel=0.1)
    uneven = [*keys[:4], *keys[6:]]  # one family has a single setting
    drawn = atlas.samples("forward", uneven)
    assert np.isnan(drawn).any()
    assert np.nanmean(drawn) == pytest.approx(np.mean([np.nanmean(column) for column in drawn.T]), abs=0.02)
    one = atlas.mean_estimate("forward", keys[:1])
    assert one.low == pytest.approx(one.high)  # one problem, no noise between its seeds


def test_ranks_and_regret():
    few = [METHODS["fixed-0"], METHODS["fixed-1"], METHODS["forward"], METHODS["expected"]]
    levels = {"forward": 0.8, "expected": 0.8, ("forward", "grid"): 1.5}
    atlas = CreditMap(fake(levels, families=("delay", "grid"), methods=few, noise=0.0), 100)
    rows = {row.method: row for row in ranked(atlas, atlas.main)}
    assert rows["fixed-1"].rank.value == pytest.approx(1.5)  # first on delay, second on the grid
    assert rows["forward"].rank.value == pytest.approx((2.5 + 1.0) / 2)  # a tie on delay
    assert rows["forward"].regret == pytest.approx(0.1)
    assert rows["fixed-1"].regret == pytest.approx(0.25)
    assert {key.family for key in rows["forward"].wins} == {"grid"}
    assert {key.family for key in rows["fixed-0"].losses} == {"delay", "grid"}


@pytest.mark.parametrize(
    ("losses", "status"),
    [
        ({"dyna": 0.5, "solved": 0.2}, HOLDS),
        ({"dyna": 0.9, "solved": 0.95}, FAILS),
        ({"dyna": 0.5, "solved": 0.2, "dyna-stale": 0.9}, IN_PART),  # not for each error
        ({"dyna": 0.5, "solved": 0.2, "near": 0.75}, IN_PART),  # for each error, but not apart
    ],
)
def test_the_claim_about_wrong_models(losses, status):
    errors = ("corrupted", "permuted", "stale")
    levels = {f"{name}-{error}": losses[name] for name in ("dyna", "solved") for error in errors} | losses
    if "near" in losses:
        levels |= {(f"dyna-{error}", "delay"): losses["near"] for error in errors}
    levels |= {f"{name}-{error}": 0.7 for error in errors for name in ("expected", "forward")}
    levels |= {"dyna": 0.9, "solved": 0.9}
    found = finding(levels, "robust-to-model-errors", families=("delay", "noisy-states"), seeds=12)
    assert found.status == status
    assert f"With the paper's λ in the place of expected chunking: {status}." in found.evidence


def test_the_loss_of_a_wrong_model_is_right_minus_wrong():
    atlas = CreditMap(fake({"dyna": 0.8, "dyna-stale": 0.5}, families=("delay", "walk"), noise=0.0), 50)
    stale = model_losses(atlas)["stale", "dyna"]
    assert stale.problems == 3  # those of delay: on the walk nothing runs with a wrong model
    assert stale.loss.value == pytest.approx(0.3, abs=1e-6)
    assert stale.right.value - stale.wrong.value == pytest.approx(stale.loss.value)


@pytest.mark.parametrize(
    ("name", "levels", "status"),
    [
        ("backward-fan-in", {("backward", "fan-in"): 1.2}, HOLDS),
        ("backward-fan-in", {("backward", "fan-in"): 0.3}, FAILS),
        ("backward-fan-in", {("backward", "fan-in"): 0.3, ("backward", "fan-in", 8, False): 1.2}, IN_PART),
        ("sutton-singh-fan-in", {"tdc": 1.2, "td-n-over-n": 1.2}, HOLDS),
        ("sutton-singh-fan-in", {"tdc": 1.2, "td-n-over-n": 0.2}, IN_PART),
        ("sutton-singh-fan-in", {"tdc": 0.2, "td-n-over-n": 0.2}, FAILS),
        ("tdc-and-backward", {"tdc": 1.2}, HOLDS),
        ("tdc-and-backward", {"tdc": 0.2, ("tdc", "fan-in", 8, False): 1.2}, IN_PART),
        ("tdc-and-backward", {"tdc": 0.2}, FAILS),
        ("same-next-state", {("forward", "policy"): 1.0}, HOLDS),
        ("same-next-state", {("forward", "policy"): 0.5}, FAILS),
        ("same-next-state", {("forward", "policy"): 1.0, ("forward", "policy", 8, False): 0.5}, IN_PART),
        ("sampled-chunks", {"forward-sarsa": 0.9, "sampled-sarsa": 0.9}, HOLDS),
        ("sampled-chunks", {"forward-sarsa": 0.9, "sampled-sarsa": 0.5}, FAILS),
        ("sampled-chunks", {("sampled-sarsa", "fan-in"): 0.2, ("sampled-sarsa", "policy"): 1.6}, NOT_SHOWN),
        ("literal-reading", {"forward-literal": 0.5}, HOLDS),
        ("literal-reading", {"forward-literal": 1.2}, FAILS),
        ("literal-reading", {}, NOT_SHOWN),
    ],
)
def test_further_claims(name, levels, status):
    assert finding(levels, name, families=("fan-in", "policy")).status == status


def test_claims_without_their_runs_are_not_run():
    atlas = CreditMap(fake(families=("walk",), profile="quick"), 50)
    assert {claim.judge(atlas, {}).status for claim in CLAIMS} == {NOT_RUN}
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)


def test_numbers_as_text():
    assert score_text(-0.001) == "0.00"
    assert score_text(-np.inf) == "diverged"
    assert estimate_text((0.5, -0.25, 1.0)) == "0.50 [−0.25, 1.00]"


def test_the_stored_tables_are_those_of_the_stored_scores():
    """All but the texts answer.md and headline.md, which code that is gone wrote of the same scores."""
    view = AtlasView(CreditMap(read_scores(RESULTS / "scores.parquet")))
    stored = {file.stem: file.read_text(encoding="utf-8") for file in (RESULTS / "tables").iterdir()}
    told = {name: stored.pop(name) for name in ("answer", "headline")}
    assert {name: text.rstrip("\n") + "\n" for name, text in view.documents().items()} == stored
    best = view.rows[0]
    assert all(f"{view.label(best.method)} has the highest mean" in text for text in told.values())
