"""The study of very long memory: what counts as solved, how far an arm reaches, and what its claims make of that."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from studies.memory import study
from studies.memory.exploration import EpsilonPerStay
from studies.memory.study import BUDGETS, CLAIMS, JUDGED, NETWORKS, SEEN, reached, shares

CLAIM = {claim.__name__: claim for claim in CLAIMS}


def runs(arm, corridor, solved, maze="passive", memory=True, episodes=None):
    """Rows of an arm at one length: `solved` of the judged seeds earn 0.95, all others just less; trials earn 1."""
    returns = [1.0] * SEEN + [0.95] * solved + [0.9499] * (JUDGED - solved)
    about = {"maze": maze, "corridor": corridor, "memory": memory, "arm": arm}
    about |= {"episodes": episodes or BUDGETS[maze][corridor], "step_size": 0.05}
    return [{**about, "seed": seed, "mean_return": value} for seed, value in enumerate(returns)]


def marks(*rows):
    return pl.DataFrame([row for some in rows for row in some])


def test_shares_count_judged_seeds_at_the_published_budget():
    found = marks(
        runs("chunked-falling", 50, 17),
        runs("chunked-falling", 100, 20, episodes=400),
        runs("chunked-falling", 250, 19)[:-1],
    )
    assert shares(found, "passive", "chunked-falling") == {50: pytest.approx(0.85)}


def test_an_arm_reaches_as_far_as_every_shorter_length_is_solved():
    lengths = {50: 20, 100: 18, 250: 17, 500: 20}
    found = marks(*(runs("chunked-falling", corridor, solved) for corridor, solved in lengths.items()))
    assert reached(found, "passive", "chunked-falling") == 100
    assert reached(found, "passive", "chunked-strong") == 0


@pytest.mark.parametrize(
    ("solved", "reaches", "networks"),
    [(20, "holds", "holds"), (17, "does not hold", "holds in part"), (0, "does not hold", "does not hold")],
)
def test_claims_follow_the_shares(solved, reaches, networks):
    found = marks(
        *(runs("chunked-falling", corridor, solved) for corridor in BUDGETS["passive"]),
        *(runs(arm, 50, solved if arm == "ppo-state-0.95" else 0) for arm in NETWORKS),
        runs("chunked-falling", 50, min(solved, 1), memory=False),
    )
    assert CLAIM["passive_maze"](found).status == reaches
    assert CLAIM["networks_solve_it"](found).status == networks
    assert CLAIM["needs_its_memory"](found).status == ("does not hold" if solved else "holds")
    assert CLAIM["active_maze"](found).status == "not run"
    assert all(f"| {label} | " in study.tables(found)["passive"] for label in NETWORKS.values())


def test_it_runs_at_its_smallest_size(tmp_path):
    table = study.runs(tmp_path, quick=True, episodes=200, quiet=True)
    assert set(table.columns) == set(pl.read_parquet_schema(study.HERE / "runs.parquet"))
    assert set(table["maze"]) == {"passive", "active"}
    assert {claim(table).status for claim in CLAIMS} == {"not run"}


def test_a_stored_run_is_what_the_code_gives():
    about = {"maze": "passive", "corridor": 50, "memory": True}
    for arm in ("chunked-falling", "chunked-stay"):
        (size,) = study.STEP_SIZES[arm]
        stored = pl.read_parquet(study.HERE / "runs.parquet").filter(arm=arm, step_size=size, seed=5, **about)
        assert (
            study.run(size, 5, episodes=20_000, **about, **study.ARMS[arm])["mean_return"] == stored["mean_return"][0]
        )


@pytest.mark.long
def test_networks_run_at_a_tiny_size():
    pytest.importorskip("jax")
    runs = study.run_networks(np.full(2, 3e-4), np.arange(2), memory="kept", lambda_="0.95", corridor=5, episodes=4_096)
    assert [set(run) for run in runs] == [{"maze", "corridor", "memory", "episodes", "mean_return"}] * 2
    assert all(-1.0 <= run["mean_return"] <= 1.0 for run in runs)


@pytest.mark.uncompiled
def test_epsilon_is_spread_over_a_stay():
    """Three steps in a corridor and one at the start: ε per step is a third of that at the start."""
    maker = EpsilonPerStay(0.3).compiled({"S": 2, "rows": 4, "A": 2, "d": 1, "one": 1})
    for state in (0, 1, 1, 1, 0, 1, 1, 1):
        EpsilonPerStay.count_action(maker, state, 0, 2)
    out, q, legal = np.zeros(2), np.array([[1.0], [0.0]]), np.ones(2, bool)
    for state, share in ((0, 1.0), (1, 1 / 3)):
        EpsilonPerStay.probabilities(maker, q, state, legal, 0.3, out)
        assert out[1] == pytest.approx(0.5 * 0.3 * share)
