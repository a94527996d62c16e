"""The study of maturity and luck: its rule, its arms, and that a tiny one is collected and tabled."""

from __future__ import annotations

import numpy as np
import pytest

from chunked_td.deep.lambdas import DeepMature
from chunked_td.lab.studies.deep.criteria import FIXED
from chunked_td.lab.studies.deep.runner import parts_of, source_of, sources_in
from chunked_td.lab.studies.luck.claims import CLAIMS, COLLECT, LOAD, PAGE, LuckResults, judge_pair, together
from chunked_td.lab.studies.luck.protocol import ADDED, GROUPS, PLAIN, STUDY, TASKS, luck_protocols
from helpers.fake_runs import fake_agents


def test_arms_name_their_source_and_their_draws():
    assert parts_of("0.95-luck-16") == ("0.95", 16)
    assert parts_of("value-mature") == ("value-mature", 1)
    assert sources_in(GROUPS[0]) == ["value", "0.5-mature", "0.8-mature", "value-mature"]
    assert isinstance(source_of("0.5-mature"), DeepMature)
    whole = STUDY.protocols("paper")
    assert len(whole) == 4 * len(TASKS)
    for protocol in whole:
        assert [arm.id for arm in protocol.arms[: len(FIXED)]] == [str(x) for x in FIXED]
        assert {arm.id for arm in protocol.arms[len(FIXED) :]} == {*PLAIN, *ADDED}


@pytest.mark.parametrize(
    ("shift", "status"),
    [
        ((0.2, 0.2), "holds"),
        ((0.2, 0.0), "holds"),
        ((0.1, -0.06), "not shown"),  # worse on one task
        ((-0.2, 0.0), "does not hold"),
        ((0.0, 0.0), "not shown"),
    ],
)
def test_a_pair_is_judged_by_its_mean_and_by_the_tasks_on_which_it_is_worse(shift, status):
    rng = np.random.default_rng(0)
    runs = [0.5 + 0.01 * rng.random(20) for _ in shift]
    tasks = {f"task {k}": {"0.95": x, "0.95-luck-16": x + d} for k, (x, d) in enumerate(zip(runs, shift, strict=True))}
    pair = judge_pair(tasks, "0.95-luck-16", "0.95")
    assert pair.status == status
    assert pair.better == sum(d > 0 for d in shift)


def test_in_part_is_better_on_a_task_where_the_mean_does_not_tell():
    rng = np.random.default_rng(0)
    sharp, noisy = 0.5 + 0.01 * rng.random(20), rng.random(20)
    tasks = {"sharp": {"0.8": sharp, "0.8-mature": sharp + 0.02}, "noisy": {"0.8": noisy, "0.8-mature": noisy}}
    assert judge_pair(tasks, "0.8-mature", "0.8").status == "holds in part"


def test_a_tiny_study_is_collected_and_tabled(tmp_path, monkeypatch):
    COLLECT(fake_agents(luck_protocols("smoke"), tmp_path, monkeypatch)).write_parquet(tmp_path / "runs.parquet")
    results = LOAD(tmp_path)
    assert len(results.frame) == 4 * (len(FIXED) + len(PLAIN) + len(ADDED)) * 3
    assert PAGE(tmp_path, results).read_text(encoding="utf-8").startswith("| arm | sarsa | q | actor-critic | ppo |")
    assert (tmp_path / "figures" / "luck-ppo.svg").stat().st_size > 1_000
    assert {claim.judge(results, {}).status for claim in CLAIMS} == {"not run"}
    monkeypatch.setattr(LuckResults, "too_small", None)
    assert together("ppo", ADDED, LOAD(tmp_path), {}).status in {"holds in part", "not shown", "does not hold", "holds"}
