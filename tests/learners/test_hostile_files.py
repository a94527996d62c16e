"""Saved agents from strangers: wrong is refused by name, before compiled code sees it; nothing is dangerous."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
import zipfile

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td._archives import pack, seal


def agent_of(kind):
    env = gym.make("FrozenLake-v1")
    made = {
        "sarsa": lambda: ctd.ChunkedSarsa(env, seed=1, epsilon=ctd.linear(1.0, 0.1, 30)),
        "offline": lambda: ctd.ChunkedExpectedSarsa(env, seed=1, view="offline"),
        "percepts": lambda: ctd.NStepChunkedTD(env, seed=1, percept="reward-state"),
        "tdc": lambda: ctd.CorrectedTD(env, seed=1),
        "learns": lambda: ctd.ChunkedSarsa(env, seed=1, lambda_source=ctd.lambdas.MetaGradientLambda()),
        "values": lambda: ctd.ChunkedSarsa(env, seed=1, lambda_source=ctd.lambdas.ValueLambda()),
        "hashed": lambda: ctd.ChunkedSarsa(env, seed=1, indexer=ctd.make_indexer(None)),
    }
    agent, rng = made[kind](), np.random.default_rng(0)
    agent.learn(env, 5, progress=False)
    agent.start(0)
    for _ in range(12):
        agent.step(float(rng.random()), int(rng.integers(16)), False)
    return agent


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Files of agents in the middle of an episode, as bytes."""
    folder, found = tmp_path_factory.mktemp("saved"), {}
    for kind in ("sarsa", "offline", "percepts", "tdc", "hashed", "learns", "values"):
        agent_of(kind).save(folder / kind)
        found[kind] = (folder / kind).read_bytes()
    return found


def arrays_of(content):
    with np.load(io.BytesIO(content)) as archive:
        return {name: archive[name] for name in archive.files}


def refused(tmp_path, content, match=""):
    (tmp_path / "agent.ctd").write_bytes(content)
    with pytest.raises(ValueError, match=rf"(?s)agent\.ctd.*{match}"):
        ctd.load(tmp_path / "agent.ctd")


def test_every_flipped_bit_and_every_length_is_refused(tmp_path, saved):
    content, rng = saved["sarsa"], np.random.default_rng(0)
    for place in range(0, len(content), 17):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        refused(tmp_path, damaged)
    for length in range(0, len(content), 17):
        refused(tmp_path, content[:length])
    refused(tmp_path, content + b"\0")
    refused(tmp_path, b"\0" + content)


def test_a_file_is_still_a_numpy_archive_and_files_without_a_digest_load(tmp_path, saved):
    arrays = arrays_of(saved["sarsa"])
    np.savez(tmp_path / "old.npz", **arrays)
    agent = ctd.load(tmp_path / "old.npz")
    agent.save(tmp_path / "new.ctd")
    assert (tmp_path / "new.ctd").read_bytes() == saved["sarsa"]


BAD_ARRAYS = [
    ("sarsa", "values", lambda a: a.astype(np.uint8)),
    ("sarsa", "values", lambda a: a.astype(">f8")),
    ("sarsa", "values", lambda a: a.astype(np.float32)),
    ("sarsa", "values", lambda a: a[:-1]),
    ("sarsa", "values", lambda a: np.full_like(a, np.nan)),
    ("sarsa", "counts_target", lambda a: np.full_like(a, -(10**9))),
    ("sarsa", "counts_target", lambda a: np.full_like(a, 16)),
    ("sarsa", "counts_target", lambda a: np.zeros_like(a)),  # pairs that are there twice
    ("sarsa", "counts_origin", lambda a: a[::-1].copy()),
    ("sarsa", "counts_following", lambda a: np.arange(a.size)),  # each its own successor
    ("sarsa", "counts_following", lambda a: np.full_like(a, -1)),
    ("sarsa", "counts_head", lambda a: np.zeros_like(a)),
    ("sarsa", "counts_number", lambda a: a - 1),
    ("sarsa", "counts_number", lambda a: a + 1),
    ("sarsa", "counts_total", lambda a: a + 1),
    ("sarsa", "counts_prior", lambda a: a + 0.5),
    ("sarsa", "trace_rows", lambda a: np.append(a[:-1], a[0])),
    ("sarsa", "trace_rows", lambda a: a + 64),
    ("sarsa", "trace_weight", lambda a: a[:-1]),
    ("sarsa", "memory_previous", lambda a: a + 64),
    ("offline", "memory_length", lambda a: np.full_like(a, 10**9)),
    ("offline", "memory_length", lambda a: np.full_like(a, -1)),
    ("offline", "memory_rows", lambda a: np.full_like(a, 64)),
    ("offline", "memory_delta", lambda a: a.T.copy()),
    ("tdc", "visited", lambda a: a + 10**6),
    ("tdc", "visited", lambda a: a - 10**6),
    ("tdc", "stale", lambda a: a[:-1]),
    ("learns", "lambda_live", lambda a: np.full_like(a, 10**9)),
    ("learns", "lambda_live", lambda a: np.zeros_like(a)),
    ("learns", "lambda_count", lambda a: np.full_like(a, 10**9)),
    ("learns", "lambda_theta", lambda a: np.full_like(a, np.inf)),
    ("learns", "lambda_slope", lambda a: a[:-1]),
    ("values", "lambda_mass", lambda a: a - 1.0),
    ("hashed", "indexer_ends", lambda a: a[::-1].copy()),
    ("hashed", "indexer_ends", lambda a: a - a[0] - 1),
    ("hashed", "indexer_bytes", lambda a: np.zeros_like(a)),
]


@pytest.mark.parametrize(("kind", "name", "change"), BAD_ARRAYS)
def test_arrays_outside_the_schema_are_refused(tmp_path, saved, kind, name, change):
    arrays = arrays_of(saved[kind])
    assert not np.array_equal(change(arrays[name]), arrays[name]) or change(arrays[name]).dtype != arrays[name].dtype
    refused(tmp_path, pack(arrays | {name: change(arrays[name])}))


BAD_HEADERS = [
    ("sarsa", lambda h: h["progress"].__setitem__(1, 10**9), "state"),
    ("sarsa", lambda h: h["progress"].__setitem__(1, 16), "state"),
    ("sarsa", lambda h: h["progress"].__setitem__(1, -1), "action"),
    ("sarsa", lambda h: h["progress"].__setitem__(2, 4), "action"),
    ("sarsa", lambda h: h["progress"].__setitem__(2, -1), "action"),
    ("sarsa", lambda h: h["progress"].__setitem__(0, -1), "episode"),
    ("sarsa", lambda h: h["progress"].__setitem__(3, float("nan")), "step_size"),
    ("sarsa", lambda h: h["settings"].__setitem__("actions", 10**9), "actions"),
    ("sarsa", lambda h: h["settings"].__setitem__("rewards", 0), "rewards"),
    ("sarsa", lambda h: h["indexer"].__setitem__("n", 10**9), "states"),
    ("sarsa", lambda h: h["epsilon"]["points"][1].__setitem__(0, 10**400), "episode"),
    ("sarsa", lambda h: h["policy_draws"]["state"].__setitem__("state", 2**128), "PCG64"),
    ("sarsa", lambda h: h["env_state"].__setitem__("state", None), "PCG64"),
    ("sarsa", lambda h: h.__setitem__("env_state", MERSENNE), "MT19937"),
    ("percepts", lambda h: h["percepts"].__setitem__(0, [0.0, 16]), "percept"),
    ("percepts", lambda h: h["percepts"].__setitem__(0, h["percepts"][1]), "percepts"),
    ("percepts", lambda h: h["percepts"].pop(), "counts_target"),
]
MERSENNE = {"bit_generator": "MT19937", "state": {"key": [1] * 624, "pos": 10**6}}


@pytest.mark.parametrize(("kind", "change", "match"), BAD_HEADERS)
def test_headers_outside_the_schema_are_refused(tmp_path, saved, kind, change, match):
    arrays = arrays_of(saved[kind])
    header = json.loads(bytes(arrays["header"]))
    change(header)
    refused(tmp_path, pack(arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}), match)


@pytest.mark.parametrize(
    "indexer",
    [
        {"kind": "discrete", "n": 16.5, "start": 0},
        {"kind": "discrete", "n": -16, "start": 0},
        {"kind": "grid", "nvec": [-4, -4], "low": [0, 0], "shape": [2], "dtype": "int64"},
        {"kind": "grid", "nvec": [4, 4], "low": [0, 0], "shape": [3], "dtype": "int64"},
        {"kind": "grid", "nvec": [4, 4], "low": [0, 0], "shape": [2], "dtype": "object"},
        {"kind": "product", "parts": [{"kind": "discrete", "n": 16, "start": 0}], "keys": ["a", "b"]},
        {"kind": "discretise", "shape": [3], "bins": [4, 4], "low": [0, 0], "high": [1, 1], "seen": None},
    ],
)
def test_indexers_that_cannot_be_are_refused(tmp_path, saved, indexer):
    arrays = arrays_of(saved["sarsa"])
    header = json.loads(bytes(arrays["header"])) | {"indexer": indexer}
    refused(tmp_path, pack(arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}))


@pytest.mark.parametrize("name", ["unknown", "model_x", "values"])
def test_declared_sizes_are_checked_before_memory_is_taken(tmp_path, saved, name):
    """A bomb: zeros that are packed a thousandfold."""
    size, buffer, head = 1 << 27, io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (size // 8,)})
    with zipfile.ZipFile(io.BytesIO(saved["sarsa"])) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            if member != f"{name}.npy":
                new.writestr(member, old.read(member))
        with new.open(f"{name}.npy", "w", force_zip64=True) as file:
            file.write(head.getvalue())
            for _ in range(size >> 20):
                file.write(bytes(1 << 20))
    (tmp_path / "agent.ctd").write_bytes(seal(buffer.getvalue()))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"agent\.ctd"):
            ctd.load(tmp_path / "agent.ctd", max_bytes=1 << 26 if name == "values" else None)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


@pytest.mark.timeout(60)
def test_what_is_not_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/zero")
    for name, kind in (("fifo", "a FIFO"), ("folder", "a directory"), ("device", "a device")):
        with pytest.raises(ValueError, match=rf"{name} must be a regular file, got {kind}"):
            ctd.load(tmp_path / name)


def test_tables_in_any_memory_order_are_saved(tmp_path):
    env = gym.make("FrozenLake-v1")
    agent = ctd.ChunkedTD(env, policy=np.asfortranarray(np.tile([0.1, 0.2, 0.3, 0.4], (16, 1))))
    agent.save(tmp_path / "agent.ctd")
    np.testing.assert_array_equal(ctd.load(tmp_path / "agent.ctd").policy, agent.policy)


def test_large_sparse_tables_are_saved_so_that_they_load(tmp_path, monkeypatch):
    """Zeros pack a thousandfold, as bombs do; `save` leaves them unpacked rather than write what `load` refuses."""
    from chunked_td import _archives

    monkeypatch.setattr(_archives, "ROOM", 1 << 20)
    agent = ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), indexer=ctd.indexing.DiscreteIndexer(100_000))
    agent.save(tmp_path / "agent.ctd")
    assert ctd.load(tmp_path / "agent.ctd").indexer.size == 100_000


def test_memory_for_an_array_is_taken_once(tmp_path):
    """What a file declares may be all that there is room for."""
    import tracemalloc

    from chunked_td._archives import Archive

    content, large = pack({"zeros": np.zeros(1 << 22)}), 8 << 22
    tracemalloc.start()
    array = Archive(content)["zeros"]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert array.nbytes == large
    assert array.flags.writeable
    assert most < 1.3 * large
