"""The study: its tasks, its rule of judgement on made-up tables, and a tiny run of everything."""

from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest

from chunked_td.compression.predictor import Predictor, Shape
from chunked_td.lab.running.plan import SweepOptions
from chunked_td.lab.running.reproduce import RunOptions, run_protocols
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.studies.compression import protocol
from chunked_td.lab.studies.compression.claims import CLAIMS, COLLECT, LOAD, PAGE, CompressionResults
from chunked_td.lab.studies.compression.criteria import solved_at, verdict
from chunked_td.lab.studies.compression.protocol import Design, Group, compression_protocols
from chunked_td.lab.studies.compression.runner import single_hidden
from chunked_td.lab.studies.compression.tasks import TASKS, alphabet_of, draw, make_task, pairs, symbol_names

FOLDER = Path(__file__).parents[2] / "results" / "compression"


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("n", [2, 5, 30])
def test_the_pair_differs_in_its_first_and_its_last_symbol_only(name, n):
    alphabet = alphabet_of(name, n)
    task = make_task(name, n, n + 4, alphabet)
    a, b = task.kinds[:2]
    assert np.flatnonzero(a != b).tolist() == [0, n]
    assert (a[0], b[0], a[n], b[n]) == (2, 3, 0, 1)
    assert (task.kinds[:, n + 1 :] == alphabet).all()
    assert len(symbol_names(name, n)) == alphabet
    assert not set(np.flatnonzero(task.coins)) & {0, n}


def test_what_distinguishes_the_tasks():
    n, room = 30, 32
    made = {name: make_task(name, n, room, alphabet_of(name, n)) for name in TASKS}
    assert {name: int(task.coins.sum()) for name, task in made.items() if task.coins.any()} == {
        "noise": 5,
        "half-noise": 15,
    }
    assert len(set(made["distinct"].kinds[0, : n + 1])) == n + 1
    middle = made["learned"].kinds[0, 1:n].tolist()
    contexts = {tuple(middle[i : i + 3]): middle[i + 3] for i in range(n - 4)}
    assert all(contexts[tuple(middle[i : i + 3])] == middle[i + 3] for i in range(n - 4))
    assert [name for name, task in made.items() if task.distracts] == ["distractors"]


def test_draws_are_of_the_stated_kinds():
    """1,200 draws: distractors in two of three, within 5 standard errors; a coin is either of two symbols."""
    items, counts = draw(make_task("distractors", 6, 10, 17), jax.random.key(0), 1_200)
    assert set(np.asarray(counts)) == {8}
    first = np.asarray(items)[:, 0, 0]
    assert abs(np.mean(first >= 4) - 2 / 3) < 5 * np.sqrt(2 / 9 / 1_200)
    assert set(first) == {2, 3, 4, 5, 6, 7}
    tests, _ = pairs(make_task("noise", 9, 11, 17), jax.random.key(0), 50)
    tests = np.asarray(tests)[..., 0]
    assert tests[:4, 0].tolist() == [2, 3, 2, 3]
    assert tests[:4, 9].tolist() == [0, 1, 0, 1]
    assert set(tests[:, 2:7].ravel()) == {9, 10}


@pytest.mark.parametrize(
    ("name", "n", "match"), [("knwon", 5, "name must be one of .* got 'knwon'"), ("known", 1, "n, .* got 1")]
)
def test_bad_tasks_are_refused(name, n, match):
    with pytest.raises(ValueError, match=match):
        make_task(name, n, 10, 17)


def test_solved_is_the_first_of_three_passed_checks_in_a_row():
    q = np.array([[0.1, 0.9, 0.9, 0.95, 0.2], [0.9, 0.9, 0.8, 0.9, 0.9], [0.95, 0.95, 0.95, 1.0, 1.0]])
    assert solved_at(q).tolist() == [1, -1, 0]
    assert solved_at(q[:, :2]).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("cell", ["tanh", "gru"])
def test_a_single_network_is_at_least_as_large_as_both_levels(cell):
    both = [Shape(17, level, 16, cell) for level in (0, 1)]
    units = single_hidden(17, 16, cell)
    total = sum(shape.parameters for shape in both)
    assert Shape(17, 0, units, cell).parameters >= total > Shape(17, 0, units - 1, cell).parameters
    arrays = jax.tree.leaves(Predictor(both[1]._replace(foresees=True), key=jax.random.key(0)))
    assert sum(array.size for array in arrays) == both[1]._replace(foresees=True).parameters


def made_up_table(compressor, full, needed=(1_000, 1_000), seeds=20):
    """Shares of solved seeds by N, for the compressors and for the plain network with full back-propagation."""
    rows = []
    for arm, rates in (("compressor", compressor), ("full", full)):
        for n, rate in rates.items():
            for seed in range(seeds):
                solved = seed < round(rate * seeds)
                sequences = needed[n == 1_000] if solved else -1
                rows.append(("known", arm, "tanh", n, 0.01, seed, solved, sequences))
    names = ("task", "arm", "cell", "n", "learning_rate", "seed", "solved", "sequences")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


ALL = {5: 1.0, 100: 1.0, 1_000: 1.0}


@pytest.mark.parametrize(
    ("compressor", "needed", "expected"),
    [
        (ALL, (1_000, 2_000), "holds"),
        (ALL, (1_000, 2_001), "in part"),
        ({**ALL, 1_000: 0.9}, (1_000, 1_000), "in part"),
        ({**ALL, 1_000: 0.95}, (1_000, 1_000), "holds"),
        ({**ALL, 100: 0.9}, (1_000, 1_000), "fails"),
    ],
)
def test_verdict_on_easily_solves(compressor, needed, expected):
    assert verdict(made_up_table(compressor, ALL, needed))["easily solves"] == expected


@pytest.mark.parametrize(("rate", "expected"), [(0.45, "holds"), (0.5, "fails")])
def test_verdict_on_challenging(rate, expected):
    found = verdict(made_up_table(ALL, {5: 1.0, 100: 0.0, 1_000: rate}))
    assert found["a standard RNN finds it challenging"] == expected


def test_no_verdict_without_twenty_seeds_or_the_longest_sequences():
    for table in (made_up_table(ALL, ALL, seeds=19), made_up_table({5: 1.0}, {5: 1.0})):
        assert set(verdict(table).values()) == {"not tested"}


def test_the_stored_cost_per_symbol_does_not_grow_with_n():
    rows = pl.read_parquet(FOLDER / "costs.parquet").sort("n")
    assert rows["n"].max() == 1_000
    assert rows["seconds_per_symbol"].diff().drop_nulls().max() < 0.05 * rows["seconds_per_symbol"][0]


def statuses(frame):
    return [claim.judge(CompressionResults(frame), {}).status for claim in CLAIMS]


def test_claims_are_judged_from_the_stored_runs():
    frame = LOAD(FOLDER).frame
    assert statuses(frame) == ["holds", "does not hold", "holds"]
    short = frame.with_columns(pl.when(pl.col("n") >= 500).then(False).otherwise(pl.col("solved")).alias("solved"))
    assert statuses(short)[0] == "holds in part"  # up to N = 200
    assert "tanh: 200" in CLAIMS[0].judge(CompressionResults(short), {}).evidence
    assert statuses(frame.with_columns(pl.lit(True).alias("solved"))) == ["holds", "holds", "does not hold"]
    assert statuses(frame.filter(pl.col("seed") < 5)) == ["not run"] * 3


def test_the_design_is_that_of_the_stored_runs():
    """Tasks, lengths, arms, step sizes and seeds; the number of parameters; no run saw more than the budget."""
    frame = LOAD(FOLDER).frame
    for part in (p for p in compression_protocols("paper") if "variants" not in p.id):
        given = part.environment.arguments
        rows = frame.filter((pl.col("task") == given["name"]) & (pl.col("n") == given["n"]))
        assert set(rows["seed"]) == set(range(part.seeds))
        assert set(np.float32(rows["learning_rate"])) == set(np.float32(part.step_sizes))
        assert rows["seen"].max() <= part.episodes * part.batch_runner.batch
        for arm in part.arms:
            some = rows.filter((pl.col("arm") == arm.learner) & (pl.col("cell") == arm.lambda_source))
            plan = part.batch_runner.plan(arm)
            assert set(some["parameters"]) == {sum(shape.parameters for shape in plan.shapes)}


@pytest.mark.long
def test_a_tiny_study_is_run_collected_and_tabled(tmp_path, monkeypatch):
    tiny = Design(
        (Group(("known", "noise"), (3, 5), 40),),
        Group(("known",), (3,), 20),
        2,
        (0.01,),
        (("compressor", "tanh"), ("full", "tanh")),
        ("automatizer",),
        1,
    )
    monkeypatch.setattr(protocol, "_TINY", tiny)
    given = compression_protocols("smoke")
    assert run_protocols(given, SweepOptions("smoke"), tmp_path / "run", RunOptions(quiet=True)) == 0
    frame = COLLECT(Store.read(tmp_path / "run"))
    compared = frame.filter(pl.col("variant") == "")
    assert len(compared) == 2 * 2 * 2 * 2
    assert set(frame.filter(pl.col("variant") != "")["variant"]) == {"automatizer"}
    assert set(compared["seen"]) == {160}
    full = compared.filter(pl.col("arm") == "full")
    assert (full["received"] == full["n"] + 2).all()
    assert frame["bits"].is_finite().all()
    frame.write_parquet(tmp_path / "comparison.parquet")
    results = LOAD(tmp_path)
    assert len(results.frame) == len(compared)
    assert "| compressor, plain | " in PAGE(tmp_path, results).read_text(encoding="utf-8")
    assert {claim.judge(results, {}).status for claim in CLAIMS} == {"not run"}
