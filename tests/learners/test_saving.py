"""Saved learners: a resumed run equals an uninterrupted one bit for bit. (Files from strangers: tests/fuzz.)"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import minigrid  # noqa: F401 (registers its environments)
import numpy as np
import pytest

import chunked_td as ctd
from helpers.resume import play_tape

EPSILON = ctd.linear(1.0, 0.1, 30)
STEP = ctd.Schedule(((0, 0.5), (10, 0.2), (25, 0.1)), hold=True)
LAKE = ("FrozenLake-v1", {"reward_schedule": [1, -1, -0.1]})  # something to learn from at every step
CHARGE = ("ChunkedTD/AccumulatedCharge-v0", {"horizon": 12, "points": 3})
KEY = ("ChunkedTD/KeyToDoor-v0", {"horizon": 6, "distractors": 2})
GRID = ("MiniGrid-Empty-5x5-v0", {"max_steps": 30})

CASES = {
    "sarsa": (ctd.ChunkedSarsa, LAKE, {"epsilon": EPSILON, "step_size": STEP}),
    "expected-lambda": (ctd.ChunkedSarsa, LAKE, {"lambda_source": ctd.ExpectedLambda()}),
    "backward": (ctd.ChunkedTD, LAKE, {"lambda_source": ctd.BackwardLambda(), "cutoff": 1e-3, "replacing": True}),
    "sampled": (ctd.NStepChunkedSarsa, LAKE, {"percept": "reward-state"}),
    "offline": (ctd.ChunkedExpectedSarsa, LAKE, {"view": "offline", "prior": 0.5}),
    "policy": (ctd.ChunkedTD, LAKE, {"policy": np.full((16, 4), 0.25), "lambda_source": ctd.WatkinsLambda(0.5)}),
    "tdc": (ctd.CorrectedTD, LAKE, {}),
    "one-over-n": (ctd.TDOneOverN, LAKE, {}),
    "charge": (ctd.ChunkedSarsa, CHARGE, {"discount": 1.0, "lambda_source": ctd.VisitLambda()}),
    "factored": (ctd.FactoredChunkedExpectedSarsa, KEY, {"lambda_source": ctd.FactoredLambda(((0, 4), 1, 2, 3, 4, 5))}),
    "hashed": (ctd.ChunkedSarsa, GRID, {"percept": "reward-state"}),
    "hashed-tdc": (ctd.CorrectedTD, GRID, {}),
}
TAPES = {
    "mid-traces": (ctd.ChunkedSarsa, LAKE, {"epsilon": EPSILON, "lambda_source": 0.9}),
    "mid-replacing": (ctd.TDLambda, LAKE, {"lambda_": 1.0, "discount": 0.9, "replacing": True}),
    "mid-sampled": (ctd.NStepChunkedTD, LAKE, {"percept": "reward-state"}),
    "mid-offline": (ctd.ChunkedExpectedSarsa, LAKE, {"view": "offline", "step_size": STEP}),
    "mid-tdc": (ctd.CorrectedTD, LAKE, {}),
    "mid-backward": (ctd.ChunkedSarsa, LAKE, {"lambda_source": ctd.BackwardLambda()}),
}


def record_tape(agent, env, events):
    """Play on; returns what happened in a form that JSON can hold."""
    tape, fresh = [], True
    while len(tape) < events:
        if fresh:
            observation, _ = env.reset(seed=7 if not tape else None)
            event = {"start": True, "observation": observation, "info": {}}
            action = agent.start(observation, {})
        else:
            observation, reward, terminated, truncated, _ = env.step(action)
            event = {"start": False, "observation": observation, "info": {}, "reward": reward}
            event |= {"terminated": terminated, "truncated": truncated}
            action = agent.step(reward, observation, terminated, truncated, {})
        fresh = action is None
        tape.append({**event, "action": action})
    return tape


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Uninterrupted runs here, and the second half of interrupted ones in another process."""
    path, todo = tmp_path_factory.mktemp("saved"), []
    for name, (cls, (env_id, made), settings) in CASES.items():
        whole, half = (
            cls(gym.make(env_id, **made), seed=2, **settings),
            cls(gym.make(env_id, **made), seed=2, **settings),
        )
        whole.learn(gym.make(env_id, **made), 36, progress=False)
        whole.save(path / f"{name}.whole.ctd")
        half.learn(gym.make(env_id, **made), 18, progress=False)
        half.save(path / f"{name}.half.ctd")
        todo.append({"name": name, "env": env_id, "settings": made, "episodes": 18})
    for name, (cls, (env_id, made), settings) in TAPES.items():
        whole, half = (cls(gym.make(env_id, **made), seed=2, **settings) for _ in range(2))
        tape = record_tape(whole, gym.make(env_id, **made), 300)
        whole.save(path / f"{name}.whole.ctd")
        middle = next(k for k in range(100, 300) if not any(event["start"] for event in tape[k - 3 : k + 4]))
        play_tape(half, tape[:middle])
        assert half.state >= 0
        half.save(path / f"{name}.half.ctd")
        todo.append({"name": name, "tape": tape[middle:]})
    (path / "cases.json").write_text(json.dumps(todo))
    command = [sys.executable, "-W", "ignore", str(Path(__file__).parents[1] / "helpers" / "resume.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


def contents(path):
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(bytes(arrays.pop("learner"))), arrays


@pytest.mark.parametrize("name", [*CASES, *TAPES])
def test_resumed_in_another_process_equals_uninterrupted(folder, name):
    header, arrays = contents(folder / f"{name}.whole.ctd")
    resumed_header, resumed = contents(folder / f"{name}.resumed.ctd")
    assert resumed_header == header
    assert resumed.keys() == arrays.keys()
    for key, array in arrays.items():
        assert array.dtype == resumed[key].dtype
        np.testing.assert_array_equal(resumed[key], array, err_msg=key)
    _, half = contents(folder / f"{name}.half.ctd")
    assert half["values"].any() or name.startswith("hashed")
    assert not np.array_equal(half["values"], arrays["values"]) or name.startswith("hashed")


def test_saving_changes_nothing(tmp_path):
    values = []
    for interrupted in (False, True):
        env = gym.make("FrozenLake-v1")
        agent = ctd.NStepChunkedSarsa(env, seed=1)
        for _ in range(10):
            agent.learn(env, 3, progress=False)
            if interrupted:
                agent.save(tmp_path / "x.ctd")
        values.append(agent.tables.values.copy())
    np.testing.assert_array_equal(*values)


def test_tables_in_any_memory_order_are_saved(tmp_path):
    env = gym.make("FrozenLake-v1")
    agent = ctd.ChunkedTD(env, policy=np.asfortranarray(np.tile([0.1, 0.2, 0.3, 0.4], (16, 1))))
    agent.save(tmp_path / "agent.ctd")
    np.testing.assert_array_equal(ctd.load(tmp_path / "agent.ctd").policy, agent.policy)


def test_an_agent_that_has_seen_nothing_is_saved(tmp_path):
    source = ctd.MetaGradientLambda(per_state=True)
    agent = ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), lambda_source=source, indexer=ctd.make_indexer())
    agent.save(tmp_path / "agent.ctd")
    assert ctd.load(tmp_path / "agent.ctd").indexer.size == 0


# ---- what a file cannot hold


def test_what_a_file_cannot_hold_is_asked_for(tmp_path):
    env = gym.make("FrozenLake-v1")
    agent = ctd.ChunkedTD(env, policy=lambda s: np.full(4, 0.25), model=ctd.TableModel(env.unwrapped.P, 4))
    agent.learn(env, 2, progress=False)
    agent.save(tmp_path / "x.ctd")
    with pytest.raises(ValueError, match="pass it as model="):
        ctd.load(tmp_path / "x.ctd")
    with pytest.raises(ValueError, match="pass policy="):
        ctd.load(tmp_path / "x.ctd", model=agent.model)
    again = ctd.load(tmp_path / "x.ctd", policy=agent.policy, model=agent.model)
    for one in (agent, again):
        one.learn(gym.make("FrozenLake-v1"), 5, progress=False)
    np.testing.assert_array_equal(again.tables.values, agent.tables.values)


def test_models_that_can_be_saved_are(tmp_path):
    class Learning:
        """Trusts what it has seen more and more."""

        def __init__(self):
            self.seen = np.zeros(1)

        def observe(self, *_):
            self.seen += 1

        def probabilities(self, *_):
            return np.full(4, 1 - 1 / (1 + self.seen[0]))

        def state_arrays(self):
            return {"seen": self.seen}

        def load_arrays(self, arrays):
            self.seen = arrays["seen"]

    agent, env = ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), model=Learning()), gym.make("FrozenLake-v1")
    agent.learn(env, 5, progress=False)
    agent.save(tmp_path / "x.ctd")
    again = ctd.load(tmp_path / "x.ctd", model=Learning())
    for one in (agent, again):
        one.learn(gym.make("FrozenLake-v1"), 5, progress=False)
    assert again.model.seen == agent.model.seen
    np.testing.assert_array_equal(again.tables.values, agent.tables.values)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    saved, env = tmp_path / "agent.ctd", gym.make("FrozenLake-v1")
    ctd.ChunkedSarsa(env, seed=1).save(saved)
    before = saved.read_bytes()

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        ctd.ChunkedSarsa(env).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["agent.ctd"]


def test_what_no_file_can_hold_is_refused_before_it_is_written(tmp_path):
    class Objects:
        def observe(self, *_): ...

        def probabilities(self, *_):
            return np.full(4, 0.5)

        def state_arrays(self):
            return {"seen": np.array([{}], object)}

    agent = ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), model=Objects())
    with pytest.raises(ValueError, match="model_seen must be numbers or text to be saved, got object"):
        agent.save(tmp_path / "agent.ctd")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"lambda_source": ctd.ConstantLambda(0.5)}, "lambda_source: the saved learner uses .*'ForwardLambda'"),
        ({"model": ctd.TableModel([[[(1.0, 0, 0.0, False)]]], 1)}, "model: the saved learner uses None, got"),
        ({"view": ctd.Lineage()}, "view: the saved learner uses traces, got"),
    ],
)
def test_other_parts_than_the_saved_ones_are_refused(tmp_path, given, match):
    ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), seed=1).save(tmp_path / "agent.ctd")
    with pytest.raises(ValueError, match=match):
        ctd.load(tmp_path / "agent.ctd", **given)


def test_saving_makes_no_folders(tmp_path):
    agent = ctd.TDLambda(gym.make("FrozenLake-v1"), step_size=0.1, discount=0.9, lambda_=0.5, seed=0)
    with pytest.raises(FileNotFoundError, match="path must be in a folder that exists"):
        agent.save(tmp_path / "absent" / "agent.ctd")
    assert list(tmp_path.iterdir()) == []


def test_a_learner_that_has_diverged_is_not_saved(tmp_path):
    agent = ctd.TDLambda(gym.make("FrozenLake-v1"), step_size=0.1, discount=0.9, lambda_=0.5, seed=0)
    agent.tables.values[3] = np.inf
    with pytest.raises(ValueError, match="its values must be finite, got inf or nan: learning has diverged"):
        agent.save(tmp_path / "agent.ctd")
    assert list(tmp_path.iterdir()) == []
