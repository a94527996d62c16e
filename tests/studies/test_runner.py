"""What studies share: selection by hand, criteria at their edges, verdicts of runs that were made up."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from studies.accumulated_charge import signs
from studies.chain_and_split import study as chain
from studies.key_to_door import study as door
from studies.runner import data, simulated
from studies.runner.arrays import ArmRuns, NotRun, Results, shared
from studies.runner.criteria import FAILS, HOLDS, NOT_RUN, NOT_SHOWN, inside, judged, share_interval, smaller
from studies.runner.pages import as_html, fill
from studies.runner.text import markdown

NAN = float("nan")


def of(*scores, episodes=(9,), select_at=None, **about):
    """Results of arms a and b with these scores [step sizes 1, 0.5, …][seeds], or [seeds, checkpoints]."""
    values = np.array(scores, float)
    values = values if values.ndim == 3 else values[..., None]
    sizes = 2.0 ** -np.arange(len(values))
    runs = ArmRuns(sizes, np.arange(values.shape[1]), np.array(episodes), {"score": values})
    return Results({"a": runs, "b": runs}, {"a": "A", "b": "B"}, episodes[-1], select_at=select_at or {}, **about)


def test_selection_by_hand():
    first = of([1.0, 5.0], [2.0, 2.0], [NAN, NAN])
    assert first.selected["a"] == 0.5
    assert of([9.0, NAN], [NAN, NAN], [8.0, 8.0]).selected["a"] == 0.25
    # Against truth 3: squares 4 and 4 (mean 4), 1 and 1 (mean 1).
    assert replace(first, truth=3.0).selected["a"] == 0.5
    # A step size with one run at the truth and one that diverged is not selected.
    diverged = of([0.0, np.inf], [0.3, 0.4])
    assert diverged.selected["a"] == replace(diverged, truth=0.0).selected["a"] == 0.5


def test_selection_reads_its_checkpoint():
    scores = [[1.0, 9.0], [3.0, 9.0]], [[4.0, 2.0], [4.0, 2.0]]  # [step size, seed, checkpoint 10 or 20]
    assert of(*scores, episodes=(10, 20)).selected == {"a": 0.5, "b": 0.5}
    at = {"a": 10, "b": 20}
    assert of(*scores, episodes=(10, 20), select_at=at).selected == {"a": 1.0, "b": 0.5}
    assert of(*scores, episodes=(10, 20), select_at={"a": 10}, truth=4.5).selected == {"a": 0.5, "b": 0.5}


def test_a_table_becomes_arrays_whatever_the_order_of_its_rows():
    rows = [("a", a, s, e, a * 100 + s * 10 + e) for a in (0.1, 0.4, 0.2) for s in (3, 1) for e in (2, 1)]
    table = pl.DataFrame(rows, ["arm", "step_size", "seed", "episode", "score"], orient="row")
    runs = ArmRuns.of(table[[5, 3, 8, 1, 0, 2, 4, 6, 7, 9, 10]])  # one row is missing
    assert runs.step_sizes.tolist() == [0.4, 0.2, 0.1]
    assert (runs.seeds.tolist(), runs.episodes.tolist()) == ([1, 3], [1, 2])
    assert np.isnan(runs.columns["score"]).sum() == 1
    assert runs.of_size(0.4)[1].tolist() == [71.0, 72.0]


def test_pairs_go_by_seed():
    one, two = (ArmRuns(np.ones(1), np.array(s), np.array([1]), {"score": np.array([[[x] for x in s]])})
                for s in ([1, 2, 5], [2, 5, 7]))  # fmt: skip
    assert [part.columns["score"].ravel().tolist() for part in shared(one, two)] == [[2, 5], [2, 5]]


def test_claims_without_their_runs_are_not_run():
    table = data.stored(door)
    found = {claim.name: claim for claim in judged(door.CLAIMS, table.filter(pl.col("arm") != "c-factored"))}
    assert found["factored_near_the_best"].verdict == (NOT_RUN, "no runs of full length: C-factored", "")
    assert found["no_fixed_reliable"].verdict.status == HOLDS
    short = judged(chain.CLAIMS, data.stored(chain).filter(pl.col("episode") <= 5_000))
    assert {claim.verdict.status for claim in short} == {NOT_RUN}
    assert "runs have 5,000 episodes" in short[0].verdict.evidence


def test_two_seeds_decide_little_and_arms_are_compared_over_common_seeds():
    table = data.stored(door).filter(problem="given").filter(pl.col("episode") % 5_000 == 0)
    few = {claim.name: claim for claim in judged(door.CLAIMS, table.filter(pl.col("seed") < 2))}
    assert few["factored_is_best"].verdict.status == few["no_fixed_reliable"].verdict.status == NOT_SHOWN
    uneven = table.filter((pl.col("arm") != "c-factored") | pl.col("seed").is_in([4, 7, 9]))
    found = door.results(uneven)
    ours, theirs = found.selected_together("c-factored", "expected-sarsa-0")
    assert len(ours) == 3
    assert np.array_equal(theirs, found.at_selected("expected-sarsa-0")[[4, 7, 9]])
    with pytest.raises(NotRun, match="C-factored, true model"):
        door.results(table.filter(pl.col("arm") != "c-factored-oracle")).runs("c-factored-oracle")


def test_intervals_within_across_and_outside():
    assert inside(1.0, 2.0, 0.0, 3.0) == HOLDS
    assert inside(1.0, 4.0, 0.0, 3.0) == NOT_SHOWN
    assert inside(4.0, 5.0, 0.0, 3.0) == FAILS


def test_smaller_needs_every_comparison():
    ours = np.arange(10.0)
    larger, shuffled = ours + 5.0, ours + np.where(np.arange(10) % 2, 1.0, -1.0)
    assert smaller(ours, {"a": larger}).status == HOLDS
    assert smaller(ours, {"a": larger, "b": shuffled}).status == NOT_SHOWN
    assert smaller(ours, {"a": larger, "b": ours - 5.0}).status == FAILS


def test_exact_interval_of_a_share():
    """Clopper–Pearson: 0 of n has upper end 1 − (0.025)^(1/n); the interval of 5 of 10 is in every table."""
    assert share_interval(0, 10) == pytest.approx((0.0, 1 - 0.025**0.1))
    assert share_interval(10, 10) == pytest.approx((0.025**0.1, 1.0))
    assert share_interval(5, 10) == pytest.approx((0.1871, 0.8129), abs=1e-4)


def made_up(**scores):
    """A table of both signs with these scores [step sizes, seeds] by arm; the mirrored ones end in _mirrored."""
    rows = []
    for name, values in scores.items():
        problem = signs.MIRRORED if name.endswith("_mirrored") else signs.PLAIN
        for size, seeds in zip((0.05, 0.00625), np.array(values, float), strict=False):
            rows += [(problem, name.removesuffix("_mirrored"), size, seed, 2_000, x) for seed, x in enumerate(seeds)]
    return pl.DataFrame(rows, ["problem", "arm", "step_size", "seed", "episode", "score"], orient="row")


@pytest.mark.parametrize(("gap", "status"), [(0.0, HOLDS), (250.0, HOLDS), (302.0, NOT_SHOWN), (800.0, FAILS)])
def test_the_difference_is_judged_at_the_step_size_that_is_best_for_both(gap, status):
    noise = np.resize([-30.0, 30.0], 40)
    plain = np.stack([np.full(40, 550.0), np.full(40, 900.0)])
    mirrored = np.stack([np.full(40, 1450.0), 900.0 - abs(gap) + noise])
    found = signs.difference(made_up(tdc=plain, tdc_mirrored=mirrored), "tdc")
    assert found.status == status, found
    assert "0.1 × 2⁻⁴" in found.evidence


def test_a_large_difference_and_what_the_cure_is_worth():
    ones = np.ones((1, 40))
    assert signs.the_tilt_is_enough(made_up(tilted=550 * ones, tilted_mirrored=1440 * ones)).status == HOLDS
    assert signs.the_tilt_is_enough(made_up(tilted=ones, tilted_mirrored=ones)).status == FAILS
    noise = np.random.default_rng(0).normal(0, 20, (4, 1, 40))
    for fixed, status in ((1000, HOLDS), (800, FAILS)):
        means = {"five": 900, "five_mirrored": 900, "fixed": fixed, "fixed_mirrored": fixed}
        scores = {name: mean + part for (name, mean), part in zip(means.items(), noise, strict=True)}
        assert signs.worth_it(made_up(**scores)).status == status


def test_a_broken_run_has_no_score_from_there_on():
    class Found:
        misses_at, returns_at = np.full((2, 2), 5), np.ones((2, 2))
        diagnostics = {"broken": np.array([[0.0, 0.0], [0.0, 150.0]])}  # noqa: RUF012

    scores = [simulated.columns(Found(), (10, 20), run)["score"] for run in range(2)]  # type: ignore[arg-type]
    np.testing.assert_array_equal(scores, [[5.0, 5.0], [5.0, NAN]])


def test_pages_are_filled_between_their_markers_once():
    page, path = "before\n<!-- a -->\nold\n<!-- /a -->\nafter\n", Path("README.md")
    other = {Path("more.md"): "none\n"}
    after = fill({path: page, **other}, {"a": "new"})
    assert after == {path: "before\n<!-- a -->\n\nnew\n\n<!-- /a -->\nafter\n", **other}
    assert fill(after, {"a": "old"}) == fill({path: page, **other}, {"a": "old"})
    with pytest.raises(ValueError, match="2 times"):
        fill({path: page + page}, {"a": "new"})
    with pytest.raises(ValueError, match="0 times"):
        fill({path: page}, {"b": "new"})


def test_tables_become_html_with_their_bars_and_signs():
    text = f"A < B\n{markdown(('x', 'y'), [('a|b', '<1'), (2, 3)])}"
    found = as_html(text)
    assert found.startswith("<p>A &lt; B</p>\n")
    assert re.findall("<t[hd]>([^<]*)<", found) == ["x", "y", "a|b", "&lt;1", "2", "3"]
