"""The study of very long memory: what counts as solved, how far an arm reaches, and what its claims make of that."""

from __future__ import annotations

import polars as pl
import pytest

from chunked_td.lab.studies.memory_marks.claims import CLAIMS, COLLECT, PAGE, MemoryMarks
from chunked_td.lab.studies.memory_marks.protocol import (
    BUDGETS,
    JUDGED,
    NETWORK_ARMS,
    SEEN,
    network_protocol,
    protocols,
)
from helpers.fake_runs import fake_agents

CLAIM = {claim.id: claim for claim in CLAIMS}


def runs(arm, corridor, solved, maze="passive", memory=True, episodes=None):
    """Rows of an arm at one length: `solved` of the judged seeds earn 0.95, all others just less; trials earn 1."""
    returns = [1.0] * SEEN + [0.95] * solved + [0.9499] * (JUDGED - solved)
    about = {"maze": maze, "corridor": corridor, "memory": memory, "arm": arm}
    about |= {"episodes": episodes or BUDGETS[maze][corridor], "step_size": 0.05}
    return [{**about, "seed": seed, "mean_return": value} for seed, value in enumerate(returns)]


def marks(*rows):
    return MemoryMarks(pl.DataFrame([row for some in rows for row in some]))


def test_shares_count_judged_seeds_at_the_published_budget():
    found = marks(
        runs("chunked-falling", 50, 17),
        runs("chunked-falling", 100, 20, episodes=400),
        runs("chunked-falling", 250, 19)[:-1],
    )
    assert found.shares("passive", "chunked-falling") == {50: pytest.approx(0.85)}


def test_an_arm_reaches_as_far_as_every_shorter_length_is_solved():
    lengths = {50: 20, 100: 18, 250: 17, 500: 20}
    found = marks(*(runs("chunked-falling", corridor, solved) for corridor, solved in lengths.items()))
    assert found.reach("passive", "chunked-falling") == 100
    assert found.reach("passive", "sarsa-0") == 0


@pytest.mark.parametrize(
    ("solved", "reaches", "networks"),
    [(20, "holds", "holds"), (17, "does not hold", "holds in part"), (0, "does not hold", "does not hold")],
)
def test_claims_follow_the_shares(solved, reaches, networks):
    found = marks(
        *(runs("chunked-falling", corridor, solved) for corridor in BUDGETS["passive"]),
        *(runs(arm.id, 50, solved if arm.id == "ppo-state-0.95" else 0) for arm in NETWORK_ARMS),
        runs("chunked-falling", 50, min(solved, 1), memory=False),
    )
    assert CLAIM["memory-passive"].judge(found, {}).status == reaches
    assert CLAIM["memory-networks"].judge(found, {}).status == networks
    assert CLAIM["memory-needed"].judge(found, {}).status == ("does not hold" if solved else "holds")
    assert CLAIM["memory-active"].judge(found, {}).status == "not run"


def test_networks_are_collected_and_tabled(tmp_path, monkeypatch):
    tiny = [protocol for protocol in protocols("smoke") if "ppo" in protocol.id]
    frame = COLLECT(fake_agents(tiny, tmp_path, monkeypatch))
    assert set(frame["arm"]) == {arm.id for arm in NETWORK_ARMS}
    assert set(frame["maze"]) == {"passive"}
    full = network_protocol("ppo-state", 50)
    assert full.episodes // 51 == BUDGETS["passive"][50]
    found = marks(*(runs(arm.id, 50, 5) for arm in NETWORK_ARMS))
    text = PAGE(tmp_path, found).parent.joinpath("passive.md").read_text(encoding="utf-8")
    assert all(f"| {arm.label} | 25 % |" in text for arm in NETWORK_ARMS)
