"""The options that `train` and `compare` share, on both commands: what they do, and what they refuse."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

import chunked_td as ctd
from chunked_td import cli
from chunked_td.cli.compare import Compare
from chunked_td.cli.problem import ProblemOptions
from chunked_td.cli.train import Train

SMALL = {
    "train": ["train", "FrozenLake-v1", "--episodes", "12"],
    "compare": [
        "compare", "FrozenLake-v1", "--episodes", "12", "--seeds", "2", "--lambdas", "0", "0.9", "--sources",
        "--bootstraps", "sarsa", "--step-sizes", "0.2", "--extend", "0",
    ],
}  # fmt: skip
BOTH = pytest.mark.parametrize("command", SMALL)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    return int(stop.value.code or 0)


class Doubled(gym.RewardWrapper):
    """A wrapper of a user's own."""

    def reward(self, reward):
        return 2.0 * float(reward)


def hashed(env):
    """An indexer of a user's own."""
    return ctd.make_indexer()


def test_both_commands_have_the_options():
    shared = {field.name for field in fields(ProblemOptions)}
    assert shared <= {field.name for field in fields(Train)}
    assert shared <= {field.name for field in fields(Compare)}
    assert {"env_kwargs", "wrappers", "bins", "indexer", "bonus", "initial_value", "csv"} <= shared


def test_train_takes_them_all(tmp_path, capsys):
    command = [
        *SMALL["train"], "--out", str(tmp_path), "--env-kwargs", "is_slippery=False", "--wrappers",
        "test_cli_options:Doubled", "--indexer", "test_cli_options:hashed", "--bonus", "0.5",
        "--epsilon-schedule", "0=0.5", "10=0.1", "--step-size-schedule", "0=1", "10=0.5", "--initial-value", "1",
    ]  # fmt: skip
    assert run(*command, "--csv") == 0
    assert "curve.csv" in capsys.readouterr().out
    agent = ctd.load(tmp_path / "agent.ctd")
    assert agent.exploration == ctd.CountBonus(0.5)
    assert agent.epsilon == ctd.linear(0.5, 0.1, 10)
    assert agent.step_size == ctd.linear(0.1, 0.05, 10)
    assert agent.initial_value == 1.0
    assert not agent.indexer.fixed
    frame = pl.read_csv(tmp_path / "curve.csv")
    assert set(frame["return"]) <= {0.0, 2.0}

    env = Doubled(gym.make("FrozenLake-v1", is_slippery=False))
    settings = {"step_size": agent.step_size, "epsilon": agent.epsilon, "exploration": agent.exploration}
    by_hand = ctd.ChunkedExpectedSarsa(env, indexer=ctd.make_indexer(), initial_value=1.0, **settings)
    by_hand.learn(env, 12)
    assert np.array_equal(by_hand.tables.values, agent.tables.values)

    assert run(*SMALL["train"], "--out", str(tmp_path), "--resume") == 0  # with the same world
    assert json.loads((tmp_path / "environment.json").read_text())["env_kwargs"] == ["is_slippery=False"]
    by_hand.trained_in = None
    by_hand.learn(env, 12)
    assert np.array_equal(by_hand.tables.values, ctd.load(tmp_path / "agent.ctd").tables.values)


def test_compare_takes_them_all(tmp_path, capsys):
    command = [
        *SMALL["compare"], "--out", str(tmp_path), "--env-kwargs", "is_slippery=False", "--bonus", "0.5",
        "--epsilon-schedule", "0=1", "10=0.1", "--initial-value", "1", "--csv",
    ]  # fmt: skip
    assert run(*command) == 0
    assert "runs: compiled" in capsys.readouterr().err
    page = (tmp_path / "compare.html").read_text(encoding="utf-8")
    assert "ε = 1 at episode 0, 0.1 at episode 10, count bonus 0.5/√n, values begin at 1." in page
    frame = pl.read_csv(tmp_path / "compare.csv").filter(pl.col("arm") == "sarsa 0.9")
    assert frame["mean_lambda"].drop_nans().drop_nulls().to_list() == pytest.approx([0.9] * 24)


def test_compare_plays_wrappers_and_indexers_in_gymnasium(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    command = [
        *SMALL["compare"], "--out", str(tmp_path), "--wrappers", "test_cli_options:Doubled", "--indexer", "hash",
        "--initial-value", "1", "--env-kwargs", "is_slippery=False", "--bonus", "1",
    ]  # fmt: skip
    assert run(*command) == 0
    assert "(wrappers, bins and indexers are not compiled)" in capsys.readouterr().err
    assert pl.read_parquet(tmp_path / "compare.parquet")["mean_return"].max() in (0.0, 2.0)


@BOTH
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bonus", "-1"], "must be"),
        (["--epsilon", "0.1", "--epsilon-schedule", "0=1"], "--epsilon and --epsilon-schedule both set it"),
        (["--epsilon-schedule", "0:1"], "--epsilon-schedule must be episode=value each"),
        (["--indexer", "nowhere:x"], "--indexer must be hash or module:function, got 'nowhere:x'"),
        (["--indexer", "hash", "--bins", "3"], "--bins and --indexer both define state ids"),
        (["--low", "0"], "--low and --high are bounds of bins or tiles"),
        (["--env-kwargs", "slippery"], "--env-kwargs must be key=value each"),
        (["--wrappers", "nowhere:X"], "--wrappers must be module:Class each"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(command, options, message, tmp_path, capsys):
    assert run(*SMALL[command], *options, "--out", str(tmp_path)) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--env-kwargs", "is_slippery=False"], "has --env-kwargs (), got ('is_slippery=False',)"),
        (["--bonus", "1"], "has --exploration epsilon-greedy, got CountBonus(scale=1.0)"),
        (["--indexer", "hash"], "has --indexer DiscreteIndexer"),
        (["--initial-value", "1"], "has --initial-value 0.0, got 1.0"),
        (["--step-size-schedule", "0=1", "9=0.1"], "has --step-size 0.1, got Schedule("),
        (["--max-steps", "7"], "has --max-steps 1000, got 7"),
    ],
)
def test_resuming_with_other_options_is_refused(options, message, tmp_path, capsys):
    command = [*SMALL["train"], "--out", str(tmp_path)]
    assert run(*command) == 0
    assert run(*command, "--resume", *options) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("learner", "options", "message"),
    [
        ("NaiveTD0", ["--bonus", "1"], "--bonus: NaiveTD0 takes none"),
        ("NaiveTD0", ["--initial-value", "1"], "--initial-value: NaiveTD0 takes none"),
        ("ChunkedTD", ["--bonus", "1"], "--bonus: ChunkedTD follows the uniform policy"),
    ],
)
def test_learners_without_a_choice_say_so(learner, options, message, tmp_path, capsys):
    assert run(*SMALL["train"], "--learner", learner, *options, "--out", str(tmp_path)) == 2
    assert message in capsys.readouterr().err


def test_initial_values_hold_for_states_that_come_later(tmp_path):
    env = gym.make("FrozenLake-v1")
    agent = ctd.ChunkedSarsa(env, indexer=ctd.make_indexer(), initial_value=2.0)
    agent.learn(env, 5)
    assert agent.q_values(15).tolist() == [2.0] * 4
    assert set(agent.tables.values[agent.n_actions * agent.indexer.size :, 0]) == {2.0}
    agent.save(tmp_path / "agent.ctd")
    twin = ctd.load(tmp_path / "agent.ctd")
    assert twin.initial_value == 2.0
    assert twin.q_values("never seen").tolist() == [2.0] * 4
    assert ctd.ChunkedTD(env, initial_value=-1.0).values(3) == -1.0
    with pytest.raises(ValueError, match=r"initial_value must be .*got nan"):
        ctd.ChunkedSarsa(env, initial_value=float("nan"))
