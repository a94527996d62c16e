"""Claims: each status comes out where the runs were made to give it, and the pieces of a judgement are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chunked_td.lab.catalogue import catalogue
from chunked_td.lab.results.claims import judge_all, print_claims
from chunked_td.lab.results.criteria import (
    inside,
    selected_of,
    share_interval,
    shared,
    smaller,
)
from chunked_td.lab.results.runs import load_results
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.study import FAILS, HOLDS, NOT_RUN, NOT_SHOWN
from helpers.fake_runs import fill


def judged(studies):
    return {claim.id: claim for claim in judge_all(studies, catalogue())}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return judged(load_results(Store.read(fill(tmp_path_factory.mktemp("claims") / "full"))))


def test_every_claim_names_arms_that_exist():
    ids = []
    for experiment in catalogue().values():
        for claim in experiment.claims:
            ids.append(claim.id)
            assert not claim.arms or all(experiment.protocol.arm(arm).id == arm for arm in claim.arms)
    assert len(ids) == len(set(ids))


def test_controls_are_claims():
    claims = {claim.id: claim for experiment in catalogue().values() for claim in experiment.claims}
    controls = {name for claim in claims.values() for name in claim.controls}
    assert claims.keys() >= controls > {"charge-mirrored", "charge-sign"}


def test_a_control_is_printed_with_its_claim(tmp_path, capsys):
    assert print_claims(fill(tmp_path / "run", ("accumulated-charge", "accumulated-charge-mirrored")), catalogue()) == 0
    part = capsys.readouterr().out.split("comes near the best possible number, 950")[1].split("Criterion")[0]
    assert "Control: does not hold: Chunked SARSA does as well with either sign" in " ".join(part.split())


def test_statuses_follow_from_the_runs(found):
    """The made-up runs show what the paper says, fail in the mirrored control and are biased as predicted."""
    for name in ("gap-fastest", "gap-approaches", "gap-monte-carlo", "gap-in-the-end", "charge-best", "charge-floor"):
        assert found[name].status == HOLDS, found[name]
    for name in ("charge-mirrored", "charge-sign"):
        assert found[name].status == FAILS, found[name]
    for name in ("treasure-floor", "treasure-best", "treasure-robust", "bias-forward", "bias-expected"):
        assert found[name].status == HOLDS, found[name]
    assert found["treasure-default"].status in (HOLDS, NOT_SHOWN)
    assert all(claim.seeds == 10 and claim.evidence for claim in found.values() if claim.status != NOT_RUN)
    made_up = {claim.study for claim in found.values() if claim.status != NOT_RUN}
    assert made_up == {
        "accumulated-charge",
        "accumulated-charge-mirrored",
        "chain-and-split",
        "key-to-door",
        "skewed-split",
    }


def test_the_scalar_reward_is_judged_from_thirty_seeds(tmp_path):
    for seeds, status in ((30, HOLDS), (10, NOT_RUN)):
        found = judged(load_results(Store.read(fill(tmp_path / str(seeds), ("key-to-door-scalar",), seeds=seeds))))
        assert found["scalar-treasure"].status == status, found["scalar-treasure"]
        for name in ("scalar-as-given", "scalar-shifted"):
            assert found[name].status == HOLDS, found[name]


def test_claims_without_their_arms_are_not_run(tmp_path):
    parts = load_results(Store.read(fill(tmp_path / "part", ("key-to-door",), networks=False, seeds=2)))
    found = judged(parts)
    assert found["treasure-floor"].status == NOT_RUN
    assert "C-factored" in found["treasure-floor"].evidence
    assert found["gap-fastest"].status == NOT_RUN
    assert found["treasure-fixed"].status != NOT_RUN


def test_two_seeds_decide_little(tmp_path):
    parts = load_results(Store.read(fill(tmp_path / "two", ("key-to-door",), seeds=2)))
    found = judged(parts)
    assert found["treasure-best"].status == NOT_SHOWN
    assert found["treasure-fixed"].status == NOT_SHOWN


def test_arms_with_different_seeds_are_compared_over_common_ones(tmp_path):
    """Network arms have fewer seeds than the others, and not always the first: pairs go by seed, not by place."""
    names = ("chain-and-split", "accumulated-charge", "key-to-door")
    parts = load_results(Store.read(fill(tmp_path / "uneven", names)))
    few = {"chunked", "c-factored"}
    cut = {
        name: study.with_arms(
            replace(arm, runs=arm.runs.only((4, 7, 9))) if arm.id in few and arm.runs else arm for arm in study.arms
        )
        for name, study in parts.items()
    }
    found = judged(cut)
    for name in ("gap-fastest", "charge-best", "treasure-best"):
        assert found[name].status == NOT_SHOWN, found[name]  # three seeds cannot show it
        assert found[name].seeds == 3
    study = cut["key-to-door"]
    ours, theirs = selected_of(study, ("c-factored", "expected-sarsa-0"))
    runs = study.runs("expected-sarsa-0")
    assert len(ours) == 3
    assert np.array_equal(theirs, runs.of(study.selected["expected-sarsa-0"])[[4, 7, 9]])
    assert [part.seeds.tolist() for part in shared(runs, study.runs("c-factored"))] == [[4, 7, 9]] * 2


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
