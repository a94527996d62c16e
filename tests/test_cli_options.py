"""The options that `train` and `compare` share, on both commands: what they do, and what they refuse."""

from __future__ import annotations

import json
import struct
import time
from dataclasses import fields

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

import chunked_td as ctd
from chunked_td import cli
from chunked_td.cli.compare import Compare
from chunked_td.cli.problem import ProblemOptions
from chunked_td.cli.train import Train
from chunked_td.lab.comparison.page import exploration_text

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


def scalars(folder):
    """Tags of a TensorBoard folder, and (step, value) of each; the file's records are length, crc, event, crc."""
    from tensorboardX.proto.event_pb2 import Event

    found: dict[str, list[tuple[int, float]]] = {}
    for path in folder.glob("events.*"):
        content, at = path.read_bytes(), 0
        while at < len(content):
            (size,) = struct.unpack("<Q", content[at : at + 8])
            event = Event.FromString(content[at + 12 : at + 12 + size])
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
            at += 16 + size
    return found


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
    assert {"env_kwargs", "wrappers", "bins", "indexer", "exploration", "initial_value", "csv", "log"} <= shared


def test_train_takes_them_all(tmp_path, capsys):
    pytest.importorskip("tensorboardX")
    command = [
        *SMALL["train"], "--out", str(tmp_path), "--env-kwargs", "is_slippery=False", "--wrappers",
        "test_cli_options:Doubled", "--indexer", "test_cli_options:hashed", "--exploration", "count-bonus", "--bonus",
        "0.5", "--epsilon-schedule", "0=0.5", "10=0.1", "--step-size-schedule", "0=1", "10=0.5", "--initial-value", "1",
    ]  # fmt: skip
    assert run(*command, "--csv", "--log", "tensorboard") == 0
    assert "curve.csv" in capsys.readouterr().out
    agent = ctd.load(tmp_path / "agent.ctd")
    assert agent.exploration == ctd.CountBonus(0.5)
    assert agent.epsilon == ctd.linear(0.5, 0.1, 10)
    assert agent.step_size == ctd.linear(0.1, 0.05, 10)
    assert agent.initial_value == 1.0
    assert not agent.indexer.fixed
    frame = pl.read_csv(tmp_path / "curve.csv")
    assert set(frame["return"]) <= {0.0, 2.0}
    logged = scalars(tmp_path / "tensorboard")
    assert logged["return"] == list(zip(frame["episode"], frame["return"], strict=True))
    assert [value for _, value in logged["length"]] == frame["length"].to_list()

    env = Doubled(gym.make("FrozenLake-v1", is_slippery=False))
    settings = {"step_size": agent.step_size, "epsilon": agent.epsilon, "exploration": agent.exploration}
    by_hand = ctd.ChunkedSarsa(env, indexer=ctd.make_indexer(), initial_value=1.0, **settings)
    by_hand.learn(env, 12)
    assert np.array_equal(by_hand.tables.values, agent.tables.values)

    assert run(*SMALL["train"], "--out", str(tmp_path), "--resume", "--log", "tensorboard") == 0  # with the same world
    assert json.loads((tmp_path / "environment.json").read_text())["env_kwargs"] == ["is_slippery=False"]
    assert sorted(step for step, _ in scalars(tmp_path / "tensorboard")["return"]) == list(range(1, 25))
    by_hand.trained_in = None
    by_hand.learn(env, 12)
    assert np.array_equal(by_hand.tables.values, ctd.load(tmp_path / "agent.ctd").tables.values)


def test_compare_takes_them_all(tmp_path, capsys):
    pytest.importorskip("tensorboardX")
    command = [
        *SMALL["compare"], "--out", str(tmp_path), "--env-kwargs", "is_slippery=False", "--exploration", "softmax",
        "--temperature-schedule", "0=1", "10=0.1", "--initial-value", "1", "--csv", "--log", "tensorboard",
    ]  # fmt: skip
    assert run(*command) == 0
    assert "runs are compiled" in capsys.readouterr().out
    assert (
        "softmax, temperature 1 at episode 0, 0.1 at episode 10, values begin at 1."
        in (tmp_path / "compare.html").read_text()
    )
    logged = scalars(tmp_path / "tensorboard")
    frame = pl.read_csv(tmp_path / "compare.csv").filter(pl.col("lambda_source") == "λ = 0.9")
    means = frame.group_by("episode").agg(pl.col("mean_return").mean()).sort("episode")
    assert [step for step, _ in logged["sarsa-lambda-0.9/mean_return"]] == means["episode"].to_list()
    assert [value for _, value in logged["sarsa-lambda-0.9/mean_return"]] == pytest.approx(
        means["mean_return"].to_list()
    )
    assert [value for _, value in logged["sarsa-lambda-0.9/mean_lambda"]] == pytest.approx([0.9] * 12)


def test_compare_plays_wrappers_and_indexers_in_gymnasium(tmp_path, capsys, monkeypatch):
    command = [
        *SMALL["compare"], "--out", str(tmp_path), "--wrappers", "test_cli_options:Doubled", "--indexer", "hash",
        "--initial-value", "1", "--env-kwargs", "is_slippery=False", "--exploration", "count-bonus",
    ]  # fmt: skip
    from chunked_td.lab.comparison import running

    monkeypatch.setattr(running, "_in_workers", lambda runs: [running._one_run(run) for run in runs])  # no processes
    assert run(*command) == 0
    assert "not compiled (wrappers, bins and indexers" in capsys.readouterr().out
    assert pl.read_parquet(tmp_path / "compare.parquet")["mean_return"].max() in (0.0, 2.0)


@BOTH
def test_wandb_offline(command, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for patience in ("WANDB_X_SERVICE_WAIT", "WANDB_INIT_TIMEOUT"):
        monkeypatch.setenv(patience, "300")
    assert run(*SMALL[command], "--out", str(tmp_path), "--log", "wandb") == 0
    (log,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    words = (b"return", b"length") if command == "train" else (b"mean_return", b"mean_lambda")
    until = time.monotonic() + 300  # a process of W&B's writes the file, on a busy machine late
    while not all(word in log.read_bytes() for word in words) and time.monotonic() < until:
        time.sleep(0.2)
    assert all(word in log.read_bytes() for word in words)


@BOTH
def test_wandb_without_a_login_is_a_sentence_before_any_work(command, tmp_path, monkeypatch, capsys):
    wandb = pytest.importorskip("wandb")
    from wandb.errors import UsageError

    def refuse(**_):
        raise UsageError("No API key configured. Use `wandb login` to log in.")

    monkeypatch.setattr(wandb, "init", refuse)
    assert run(*SMALL[command], "--out", str(tmp_path), "--log", "wandb") == 2
    said = capsys.readouterr()
    assert "--log wandb: No API key configured. Use `wandb login` to log in. WANDB_MODE=offline" in said.err
    assert list(tmp_path.iterdir()) == []


@BOTH
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--temperature", "1"], "--temperature goes with --exploration softmax, got --exploration epsilon-greedy"),
        (["--exploration", "softmax", "--bonus", "1"], "--bonus goes with --exploration count-bonus"),
        (["--exploration", "softmax", "--epsilon", "0.1"], "--epsilon has no part in --exploration softmax"),
        (["--exploration", "softmax", "--temperature", "0"], "temperature must be"),
        (["--exploration", "count-bonus", "--bonus", "-1"], "scale must be"),
        (["--epsilon", "0.1", "--epsilon-schedule", "0=1"], "--epsilon and --epsilon-schedule both say"),
        (["--epsilon-schedule", "0:1"], "--epsilon-schedule must be episode=value each"),
        (["--indexer", "nowhere:x"], "--indexer must be hash or module:function, got 'nowhere:x'"),
        (["--indexer", "hash", "--bins", "3"], "--bins and --indexer both say"),
        (["--low", "0"], "--low and --high are bounds of --bins"),
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
        (["--exploration", "softmax"], "has --exploration epsilon-greedy, got Softmax(temperature=1.0)"),
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
        ("NaiveTD0", ["--exploration", "softmax"], "--exploration: NaiveTD0 takes none"),
        ("NaiveTD0", ["--initial-value", "1"], "--initial-value: NaiveTD0 takes none"),
        ("ChunkedTD", ["--exploration", "softmax"], "--exploration: ChunkedTD follows the uniform policy"),
    ],
)
def test_learners_without_a_choice_say_so(learner, options, message, tmp_path, capsys):
    assert run(*SMALL["train"], "--learner", learner, *options, "--out", str(tmp_path)) == 2
    assert message in capsys.readouterr().err


def test_exploration_in_words():
    settings = Compare("FrozenLake-v1", exploration="count-bonus", bonus=2.0, epsilon=0.0).settings()
    assert exploration_text(settings) == "exploration: count bonus 2/√n, ε = 0"
    assert exploration_text(Compare("FrozenLake-v1").settings()) == "exploration: ε-greedy, ε = 0.1"


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
