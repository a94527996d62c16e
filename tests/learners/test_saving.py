"""Saved learners: a resumed run equals an uninterrupted one bit for bit, and a file is never trusted."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import gymnasium as gym
import minigrid  # noqa: F401 (registers its environments)
import numpy as np
import pytest

import chunked_td as ctd
from helpers import saved_by_0_1
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
    header = json.loads(bytes(arrays.pop("header")))
    for name in ("rows", "delta", "lambda_"):  # the room for an episode may differ; what it holds may not
        arrays[f"memory_{name}"] = arrays[f"memory_{name}"][: int(arrays["memory_length"][0])]
    return header, arrays


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


# ---- files that are not what they should be


@pytest.fixture
def saved(tmp_path):
    env = gym.make("FrozenLake-v1")
    agent = ctd.ChunkedSarsa(env, seed=1)
    agent.learn(env, 30, progress=False)
    agent.save(tmp_path / "agent.ctd")
    return tmp_path / "agent.ctd"


def rewritten(path, **changes):
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files} | changes
    np.savez(path.with_suffix(".npz"), **arrays)
    return path.with_suffix(".npz")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_cut_short(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"agent\.ctd: not a saved learner, or cut short"):
        ctd.load(saved)


def test_every_flipped_byte_is_an_error_or_changes_nothing(saved):
    content, rng = saved.read_bytes(), np.random.default_rng(0)
    for position in rng.integers(len(content), size=60):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        saved.write_bytes(damaged)
        try:
            agent = ctd.load(saved)
        except ValueError as problem:
            assert "agent.ctd" in str(problem) or "saved learner" in str(problem)  # noqa: PT017
        else:
            assert isinstance(agent, ctd.ChunkedSarsa)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04nonsense", b"\x93NUMPY\x01\x00v\x00{", bytes(500)])
def test_not_a_saved_learner(tmp_path, content):
    (tmp_path / "x.ctd").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.ctd: not a saved learner"):
        ctd.load(tmp_path / "x.ctd")


def test_other_numpy_files(tmp_path, saved):
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "archive.npz", values=np.zeros(3))
    for name in ("array.npy", "archive.npz"):
        with pytest.raises(ValueError, match="not a saved learner"):
            ctd.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        ctd.load(tmp_path / "nowhere.ctd")
    with pytest.raises(ValueError, match="not a saved learner"):
        ctd.load(rewritten(saved, header=np.frombuffer(b"[1, 2]", np.uint8)))


class Bomb:
    def __reduce__(self):
        return (exec, ("import builtins; builtins.chunked_td_bomb = True",))


def test_load_executes_nothing(saved):
    import builtins

    with zipfile.ZipFile(saved) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    pickled = io.BytesIO()
    np.save(pickled, np.array([Bomb()], dtype=object), allow_pickle=True)
    entries["values.npy"] = pickled.getvalue()
    with zipfile.ZipFile(saved, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match="objects are never unpickled"):
        ctd.load(saved)
    assert not hasattr(builtins, "chunked_td_bomb")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("values", np.zeros((3, 1))),
        ("counts_origin", np.full(3, 10**6)),
        ("trace_rows", np.array([10**6])),
        ("memory_policy", np.zeros(1)),
        ("memory_length", np.array([10**6])),
        ("capacity", np.array([1, 1])),
    ],
)
def test_tables_that_do_not_fit_are_refused(saved, name, array):
    """Compiled code would read and write outside them."""
    with pytest.raises(ValueError, match=r"not a saved learner|do not fit together"):
        ctd.load(rewritten(saved, **{name: array}))


def changed_header(path, **changes):
    with np.load(path) as archive:
        header = json.loads(bytes(archive["header"])) | changes
    return rewritten(path, header=np.frombuffer(json.dumps(header).encode(), np.uint8))


def test_other_versions(saved):
    with pytest.raises(ValueError, match="format 99"):
        ctd.load(changed_header(saved, format=99))
    with pytest.raises(ValueError, match="'Learnr', which this version does not know"):
        ctd.load(changed_header(saved, learner="Learnr"))


def test_what_a_file_cannot_hold_is_asked_for(tmp_path):
    env = gym.make("FrozenLake-v1")
    agent = ctd.ChunkedTD(env, policy=lambda s: np.full(4, 0.25), model=ctd.TableModel(env.unwrapped.P, 4))
    agent.learn(env, 2, progress=False)
    agent.save(tmp_path / "x.ctd")
    with pytest.raises(ValueError, match="pass policy="):
        ctd.load(tmp_path / "x.ctd")
    with pytest.raises(ValueError, match="pass it as model="):
        ctd.load(tmp_path / "x.ctd", policy=agent.policy)
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


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        ctd.ChunkedSarsa(gym.make("FrozenLake-v1")).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["agent.ctd"]


@pytest.mark.parametrize("name", saved_by_0_1.AGENTS)
def test_agents_of_version_0_1_load_and_go_on_as_they_would_have(name):
    """The files and the numbers were written by version 0.1 (`saved_by_0_1/__init__.py`)."""
    folder = Path(saved_by_0_1.__file__).parent
    agent = ctd.load(folder / f"{name}.ctd")
    saved_by_0_1.walk(agent, 60, 1, name == "factored")
    rows = agent.tables.values
    expected = json.loads((folder / "after.json").read_text())[name]
    np.testing.assert_array_equal(rows[np.abs(rows).sum(axis=1) > 0], expected)


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
