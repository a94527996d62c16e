"""`chunked-td deep`: how much is trained, what is saved when, what is refused, and runs that diverge."""

from __future__ import annotations

import json
import os
import re
import signal
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from chunked_td import cli
from chunked_td.deep import training as training_module
from chunked_td.deep.agents.base import RunTally
from chunked_td.deep.training import (
    DeepTraining,
    diverged_runs,
    load_states,
    plan_blocks,
    save_states,
    summary,
)

FIXED = ("--lambda", "0.9", "--seeds", "2")


def run(*arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(["deep", *arguments])
    return int(stop.value.code or 0)


def steps_in(folder):
    return pl.read_parquet(folder / "curve.parquet")["step"].to_list()


@pytest.mark.parametrize(
    ("asked", "blocks"),
    [
        ((50_000, 10), [5_000] * 10),
        ((5, 10), [1] * 5),
        ((12, 5), [3] * 4),
        ((13, 5), [3, 3, 3, 2, 2]),
        ((7, 1), [7]),
        ((50_000, 10, 1_024), [7 * 1_024] * 7),
        ((1_000, 10, 1_024), [1_024]),
        ((25, 1, 10), [30]),
    ],
)
def test_blocks_fit_the_steps_and_not_the_other_way_round(asked, blocks):
    assert plan_blocks(*asked) == blocks


def test_so_many_steps_are_trained_as_were_asked_for(tmp_path, capsys):
    assert run("charge", *FIXED, "--steps", "5", "--out", str(tmp_path)) == 0
    assert steps_in(tmp_path) == [1.0, 2.0, 3.0, 4.0, 5.0]
    said = capsys.readouterr().out
    assert "step         5   score –   return –" in said  # no episode of charge is so short
    assert "instead of" not in said
    assert pl.read_parquet(tmp_path / "curve.parquet")["score"].null_count() == 5


def test_ppo_says_that_it_trains_whole_rollouts(tmp_path, capsys, monkeypatch):
    trained = []
    row = dict.fromkeys(("step", "episodes"), 0.0) | dict.fromkeys(("score", "return", "lambda")) | {"diverged": 0}
    monkeypatch.setattr(DeepTraining, "train", lambda self, steps, blocks: trained.append((steps, blocks)) or [row])
    assert run("charge", *FIXED, "--agent", "ppo", "--steps", "10000", "--blocks", "5", "--out", str(tmp_path)) == 0
    assert trained == [(2_048, 1)] * 5
    assert "ppo trains whole rollouts of 1,024: 10,240 transitions instead of 10,000" in capsys.readouterr().out


@pytest.mark.parametrize("presses", [1, 2])
def test_an_interrupt_loses_no_more_than_a_block(tmp_path, capsys, monkeypatch, presses):
    """The first Ctrl-C ends training after its block, the second at once."""
    train = DeepTraining.train

    def interrupted(self, *arguments, **settings):
        for _ in range(presses if self.steps == 4 else 0):
            os.kill(os.getpid(), signal.SIGINT)
        return train(self, *arguments, **settings)

    monkeypatch.setattr(DeepTraining, "train", interrupted)
    monkeypatch.setattr("chunked_td.lab.errors.os._exit", lambda code: (_ for _ in ()).throw(SystemExit(code)))
    command = ("charge", *FIXED, "--out", str(tmp_path))
    assert run(*command, "--steps", "20", "--blocks", "5") == 130
    done = 8 if presses == 1 else 4
    message = f"interrupted after {done} of 20 transitions; --resume --steps {20 - done} goes on from "
    assert message in capsys.readouterr().err
    assert steps_in(tmp_path)[-1] == done
    monkeypatch.undo()
    if presses == 1:
        assert run(*command, "--steps", "12", "--blocks", "3", "--resume") == 0
        assert steps_in(tmp_path)[-1] == 20


def test_resuming_another_task_is_refused(tmp_path, capsys):
    command = (*FIXED, "--steps", "4", "--blocks", "1", "--out", str(tmp_path))
    assert run("charge", *command) == 0
    assert run("charge-mirrored", *command, "--resume") == 2
    assert "was trained with sarsa on charge, this agent has sarsa on charge-mirrored" in capsys.readouterr().err
    assert run("charge", *command, "--resume") == 0
    assert steps_in(tmp_path) == [4.0, 8.0]
    saved = tmp_path / "states.npz"
    with np.load(saved) as stored:
        arrays = dict(stored)
    about = json.loads(str(arrays.pop("about")))
    for name, array in list(arrays.items())[::20]:
        for wrong in (array.astype(np.complex64), array[..., None]):
            np.savez(saved, about=json.dumps(about), **{**arrays, name: wrong})
            assert run("charge", *command, "--resume") == 2
            said = capsys.readouterr().err
            assert re.search(r"states\.npz: [.\[].* must be \w+\[.*\], got ", said), said
    about["task"] = about["task"].replace("horizon=", "horizon=1")
    np.savez(saved, about=json.dumps(about), **arrays)
    assert run("charge", *command, "--resume") == 2  # the same name, another task behind it
    assert "error: task: " in capsys.readouterr().err
    assert run("charge", *command, "--resume", "--overwrite") == 2
    assert "give one of the two" in capsys.readouterr().err
    for content in (b"text", saved.read_bytes()[:1_000], b""):
        saved.write_bytes(content)
        assert run("charge", *command, "--resume") == 2
        message = capsys.readouterr().err
        assert "states.npz: is damaged, or was not written by DeepTraining.save" in message
        assert "pickle" not in message


def test_a_flipped_bit_of_saved_states_is_found(tmp_path):
    path, states = tmp_path / "states.npz", {"weights": np.arange(6, dtype=np.float32).reshape(2, 3)}
    save_states(path, {"log": []}, states)
    np.testing.assert_array_equal(load_states(path, {}, states)[1]["weights"], states["weights"])
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"states\.npz: is damaged"):
            load_states(path, {}, states)


def test_bad_options_are_refused_before_training(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(training_module, "train_fleet", None)
    (tmp_path / "file").write_text("")
    cases = [
        (("--out", str(tmp_path / "file")), "--out must be a folder"),
        (("--out", str(tmp_path / "file" / "below")), "--out must be a folder"),
        (("--seed", "3000000000"), "--seed must be a whole number from 0"),
        (("--seed", "2147483647"), "--seed must be a whole number from 0"),
        (("--seed", "-1"), "--seed must be a whole number from 0"),
        (("--memory", "lstm"), "invalid choice 'lstm' for argument '--memory'"),
    ]
    for options, message in cases:
        assert run("charge", *FIXED, "--out", str(tmp_path / "fresh"), *options) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"^seeds must be an integer in \[0, 2147483647\], got 2147483648"):
        DeepTraining(None, 0.1, [2**31])  # type: ignore[arg-type]


def test_runs_that_diverge_are_counted_and_left_out(tmp_path, capsys, monkeypatch):
    """One of two runs is given a weight that is not finite."""
    start = training_module.start_fleet

    def broken(agent, seeds):
        states = start(agent, seeds)
        weights = states.learned.critic.weights
        spoilt = (weights[0].at[1, 0, 0].set(np.nan), *weights[1:])
        return states._replace(learned=states.learned._replace(critic=states.learned.critic._replace(weights=spoilt)))

    monkeypatch.setattr(training_module, "start_fleet", broken)
    assert run("charge", *FIXED, "--seed", "7", "--steps", "8", "--blocks", "2", "--out", str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "diverged 1 of 2\n" in said
    assert "1 of 2 runs diverged: weights or λ are not finite (seeds 8)" in said
    assert "nan" not in said
    log = pl.read_parquet(tmp_path / "curve.parquet")
    assert log["diverged"].to_list() == [1, 1]
    assert log["diverged_seeds"].to_list() == ["8", "8"]
    assert np.isfinite(log["rms_error"].to_numpy()).all()


def test_means_are_those_of_the_runs_that_count():
    tally = RunTally(*(np.array([2.0, 1.0, np.nan]) for _ in range(8)))._replace(steps=np.full(3, 10.0))
    row = summary(tally, 5, np.array([True, True, False]))
    assert (row["step"], row["episodes"], row["score"]) == (15.0, 3.0, 1.0)
    assert row["lambda"] == pytest.approx(3 / 20)
    assert set(summary(tally, 5, np.zeros(3, bool)).values()) == {15.0, 0.0, None}
    states = SimpleNamespace(learned=np.ones((3, 2)), source=(np.array([1.0, np.inf, 0.0]), np.arange(3)))
    assert diverged_runs(states).tolist() == [False, True, False]
