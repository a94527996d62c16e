"""Saved agents from strangers: what is wrong is refused by name, and no file makes compiled code leave its arrays."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from helpers import saved_agents
from helpers.compilation import COMPILED

KINDS = list(saved_agents.KINDS)
EXAMPLES = settings(max_examples=150)


def second_process(what, folder):
    """Compiled code checks every index there."""
    command = [sys.executable, saved_agents.__file__, what, str(folder)]
    checking = os.environ | {"CHUNKED_TD_BOUNDSCHECK": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=checking)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Files of agents in the middle of an episode, as bytes by kind."""
    folder = tmp_path_factory.mktemp("saved")
    second_process("make", folder)
    return {path.stem: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """Changed files that load; the last test of this file goes on with them."""
    return tmp_path_factory.mktemp("accepted")


def arrays_of(content):
    with np.load(io.BytesIO(content)) as archive:
        return {name: archive[name] for name in archive.files}


def header_of(arrays):
    return json.loads(bytes(arrays["learner"]))


def packed(arrays, header=None):
    buffer = io.BytesIO()
    if header is not None:
        arrays = arrays | {"learner": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def refused(tmp_path, content, match=""):
    (tmp_path / "agent.ctd").write_bytes(content)
    with pytest.raises(ValueError, match=rf"(?s)agent\.ctd: .*{match}"):
        ctd.load(tmp_path / "agent.ctd")


def refused_or_kept(accepted, kind, content):
    """A ValueError that names the file, or a learner."""
    path = accepted / f"{kind}.{len(list(accepted.iterdir()))}"
    path.write_bytes(content)
    try:
        ctd.load(path)
    except ValueError as problem:
        assert str(problem).startswith(f"{path}: ")  # noqa: PT017
        path.unlink()


# ---- whatever is changed


@EXAMPLES
@given(data=st.data())
def test_bytes(saved, accepted, data):
    kind = data.draw(st.sampled_from(KINDS))
    content = bytearray(saved[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        change = data.draw(st.sampled_from(["flip", "cut", "insert", "head"]))
        if change == "flip":
            content[place] ^= 1 << data.draw(st.integers(0, 7))
        elif change == "insert":
            content[place:place] = data.draw(st.binary(max_size=30))
        else:
            content = content[:place] if change == "cut" else content[place:]
        if not content:
            break
    refused_or_kept(accepted, kind, bytes(content))


EXTREME = [-(2**63), -(2**31), -2, -1, 0, 1, 2, 15, 16, 17, 48, 64, 2**20, 2**31, 2**53, 2**62, 2**63 - 1]
NUMBERS = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, -1.0, 0.0, 0.5, 2.0]
SHAPES = [
    lambda a: a[None],
    lambda a: a[..., None],
    lambda a: a.reshape(-1)[:1],
    np.ravel,
    np.transpose,
    lambda a: np.roll(a, 1),
    lambda a: a[::-1],
    lambda a: np.sort(a, axis=None).reshape(a.shape),
]
DTYPES = ["f4", "f8", ">f8", "i4", "i8", "u1", "u8", "?", "U3", "c16", "S2"]


PLACES = st.floats(0.0, 1.0, exclude_max=True)
WHOLE = st.sampled_from(EXTREME) | st.integers(-3, 70)
CHANGES = st.one_of(
    st.tuples(st.just("dtype"), st.sampled_from(DTYPES)),
    st.tuples(st.just("reorder"), st.sampled_from(SHAPES)),
    st.tuples(st.just("length"), PLACES),
    *[st.tuples(st.sampled_from(["value", "all"]), PLACES, WHOLE, st.sampled_from(NUMBERS))] * 4,
)


def changed(array, what, how, whole=0, number=0.0):
    """An array of another dtype or shape, or with other values."""
    with np.errstate(all="ignore"):
        if what == "dtype":
            return array.astype(how)
        if what == "reorder":
            return how(array)
        if what == "length":
            return np.resize(array, (int(how * 2 * len(array)), *array.shape[1:]))
        new = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
        places = new.ravel()[int(how * new.size) :][: 1 if what == "value" else None]
        places[...] = number if array.dtype.kind == "f" else whole
        return new.astype(array.dtype)


@settings(max_examples=1500)
@given(kind=st.sampled_from(KINDS), changes=st.lists(st.tuples(PLACES, CHANGES), min_size=1, max_size=2))
def test_arrays(saved, accepted, kind, changes):
    arrays = arrays_of(saved[kind])
    names = sorted(arrays.keys() - {"learner"})
    for name, change in {names[int(place * len(names))]: change for place, change in changes}.items():
        arrays[name] = changed(arrays[name], *change)
    refused_or_kept(accepted, kind, packed(arrays))


@EXAMPLES
@given(data=st.data())
def test_members(saved, tmp_path_factory, data):
    arrays = arrays_of(saved[data.draw(st.sampled_from(KINDS))])
    name = data.draw(st.sampled_from(sorted(arrays)))
    other = data.draw(st.sampled_from(sorted(arrays.keys() - {name})))
    change = data.draw(st.sampled_from(["drop", "rename", "add", "swap"]))
    if change == "swap":
        arrays[name], arrays[other] = arrays[other], arrays[name]
        if other != "learner" != name and arrays[name].dtype == arrays[other].dtype:
            return
    elif change == "add":
        arrays[data.draw(st.sampled_from(["more", f"{name}_", "model_x"]))] = arrays[name]
    else:
        array = arrays.pop(name)
        if change == "rename":
            arrays[f"{name}2"] = array
    refused(tmp_path_factory.mktemp("members"), packed(arrays))


JSON = st.recursive(
    st.none() | st.booleans() | st.sampled_from(EXTREME + NUMBERS) | st.text(max_size=3) | st.integers(-3, 70),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def places_in(value):
    """Every item of a nested JSON value: what holds it, and its key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places_in(value[key])


@settings(max_examples=1000)
@given(data=st.data())
def test_settings(saved, accepted, data):
    kind = data.draw(st.sampled_from(KINDS))
    arrays = arrays_of(saved[kind])
    header = header_of(arrays)
    holder, key = data.draw(st.sampled_from(list(places_in(header))))
    change = data.draw(st.sampled_from(["replace", "replace", "drop", "swap"]))
    if change == "drop":
        holder.pop(key)
    elif change == "replace":
        holder[key] = data.draw(JSON)
    else:
        other, there = data.draw(st.sampled_from(list(places_in(header))))
        holder[key], other[there] = other[there], 0
    refused_or_kept(accepted, kind, packed(arrays, header))


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_agents_that_were_accepted_stay_within_their_arrays(saved, accepted):
    """Runs last: files that are not what was saved, and load."""
    for kind, content in saved.items():
        (accepted / f"{kind}.saved").write_bytes(content)
    files = len(list(accepted.iterdir()))
    assert files > 100
    assert int(second_process("walk", accepted)) > 0.5 * files  # the others diverge, or refuse an observation


# ---- refused, and by which name

BAD_ARRAYS = [
    ("sarsa", "values", lambda a: a.astype(np.uint8), r"values must be float64\[48, 1\], got uint8\[48, 1\]"),
    ("sarsa", "values", lambda a: a.astype(">f8"), "values must be little-endian numbers or text, got >f8"),
    ("sarsa", "values", lambda a: a[:-1], "values must have 48 numbers for these settings, got 47"),
    ("sarsa", "values", lambda a: a.T.copy(), r"values must be float64\[48, 1\], got float64\[1, 48\]"),
    ("sarsa", "values", lambda a: np.full_like(a, np.nan), "values must be finite, got inf or nan"),
    ("sarsa", "memory_policy", lambda a: a, "'memory_policy': no array of this learner has that name"),
    ("sarsa", "memory_previous", lambda a: a + 64, r"memory_previous must lie in \[-1, 48\), got"),
    ("sarsa", "trace_rows", lambda a: a + 64, r"trace_rows must lie in \[0, 48\), got"),
    ("sarsa", "trace_rows", lambda a: np.zeros_like(a), "trace_rows must name each row at most once"),
    ("sarsa", "trace_weight", lambda a: a[:-1], r"trace_weight must be float64\[\d+, 1\]"),
    (
        "sarsa",
        "counts_pairs",
        lambda a: np.subtract(a, [0, 10**9, 0, 0]),
        r"counts_pairs must have targets in \[0, 16\)",
    ),
    ("sarsa", "counts_pairs", lambda a: np.add(a, [0, 16, 0, 0]), r"counts_pairs must have targets in \[0, 16\), got"),
    (
        "sarsa",
        "counts_pairs",
        lambda a: np.add(a, [10**6, 0, 0, 0]),
        r"counts_pairs must have origins in \[0, \d+\)",
    ),
    ("sarsa", "counts_pairs", lambda a: np.multiply(a, [1, 1, 0, 1]), r"counts_pairs must have numbers in \[1, "),
    ("sarsa", "counts_pairs", lambda a: a[[0] * 5], "counts_pairs must have each pair of origin and target once"),
    ("sarsa", "counts_pairs", lambda a: a[:, :3], r"counts_pairs must be int64\[\d+, 4\], got int64\[\d+, 3\]"),
    ("offline", "memory_rows", lambda a: a + 48, r"memory_rows must lie in \[0, 48\), got"),
    ("offline", "memory_policy", lambda a: a - 2.0, r"memory_policy must lie in \[0, 1\], got"),
    ("averages", "visited", lambda a: a + 10**6, "visited must be counted pairs"),
    ("averages", "visited", lambda a: a - 10**6, "visited must be pairs of whole numbers from 0"),
    ("averages", "stale", lambda a: a[:-1], "stale must be"),
    ("learns", "lambda_live", lambda a: np.full_like(a, 10**9), r"lambda_live must lie in \[0, 48\)"),
    ("learns", "lambda_live", lambda a: np.zeros_like(a), "lambda_live must name each row at most once"),
    ("learns", "lambda_count", lambda a: np.full_like(a, 10**9), r"lambda_count must lie in \[0, 48\]"),
    ("learns", "lambda_theta", lambda a: np.full_like(a, np.inf), "lambda_theta must be finite"),
    ("values", "lambda_mass", lambda a: a - 1.0, "lambda_mass must be zero between steps"),
    ("lineage", "trace_shared", lambda a: a[:-1], "trace_shared must have a power of 2 of slots"),
    ("lineage", "trace_shared", lambda a: np.ones_like(a), "trace_shared must have a power of 2 of slots from 1024"),
    ("lineage", "planner_queue", lambda a: a + 48, r"planner_queue must lie in \[0, 48\)"),
    ("lineage", "planner_place", lambda a: a + 1, "planner_place must be the places in planner_queue"),
    ("lineage", "world_ends", lambda a: a + 10**6, "world_ends must be at most the numbers of world_counts_pairs"),
    ("greedy", "exploration_visits", lambda a: a - 1000, r"exploration_visits must lie in \[0, "),
    ("tiles", "trace_which", lambda a: a + 99, r"trace_which must lie in \[0, 10\)"),
    ("tiles", "trace_found", lambda a: a + 3, r"trace_found must lie in \[0, 2\]"),
    ("tiles", "trace_weights", lambda a: a[:-1], "trace_weights must have 30 numbers for these settings"),
    ("hashed", "indexer_state_ends", lambda a: a[::-1].copy(), "damaged"),
    ("hashed", "indexer_state_ends", lambda a: a - a[0] - 1, "damaged"),
    ("hashed", "indexer_state_bytes", lambda a: np.zeros_like(a), "damaged"),
]


@pytest.mark.parametrize(("kind", "name", "change", "match"), BAD_ARRAYS)
def test_arrays_that_are_not_as_declared(tmp_path, saved, kind, name, change, match):
    arrays = arrays_of(saved[kind])
    refused(tmp_path, packed(arrays | {name: change(arrays.get(name, np.zeros(3)))}), match)


MERSENNE = {"bit_generator": "MT19937", "state": {"key": [1] * 624, "pos": 10**6}}
BAD_SETTINGS = [
    ("sarsa", lambda h: h["progress"].__setitem__(1, 16), r"state must be an integer in \[-1, 15\], got 16"),
    ("sarsa", lambda h: h["progress"].__setitem__(1, -1), "action must be"),
    ("sarsa", lambda h: h["progress"].__setitem__(2, 4), "action must be"),
    ("sarsa", lambda h: h["progress"].__setitem__(0, -1), "episode must be"),
    ("sarsa", lambda h: h["progress"].__setitem__(4, float("nan")), "step_size must be"),
    ("sarsa", lambda h: h["space"].__setitem__(0, 10**9), "values must have 16000000000 numbers"),
    ("sarsa", lambda h: h["space"].__setitem__(2, 0), "rewards must be"),
    ("sarsa", lambda h: h["settings"]["indexer"].__setitem__("n", 10**9), "values must have 3000000000 numbers"),
    ("sarsa", lambda h: h["settings"]["epsilon"]["points"][1].__setitem__(0, 10**400), "episode"),
    ("sarsa", lambda h: h["settings"].__setitem__("speed", 1), "settings must be .*, got .*speed"),
    ("sarsa", lambda h: h["settings"].pop("prior"), "settings must be .*prior"),
    ("sarsa", lambda h: h.__setitem__("learner", "Learnr"), "learner must be one of .*, got 'Learnr'"),
    ("sarsa", lambda h: h.__setitem__("format", 99), "in format 99; this one, version .*, reads format 2"),
    ("sarsa", lambda h: h["draws"][0]["state"].__setitem__("state", 2**128), "PCG64"),
    ("sarsa", lambda h: h.__setitem__("env_state", MERSENNE), "MT19937"),
    ("offline", lambda h: h["percepts"].__setitem__(0, [0.0, 16]), "state of a percept"),
    ("offline", lambda h: h["percepts"].__setitem__(0, h["percepts"][1]), "percepts must differ"),
    ("offline", lambda h: h["percepts"].pop(), r"counts_pairs must have targets in \[0,"),
]
BAD_INDEXERS = [
    {"kind": "discrete", "n": 16.5, "start": 0},
    {"kind": "discrete", "n": -16, "start": 0},
    {"kind": "grid", "nvec": [-4, -4], "low": [0, 0], "shape": [2], "dtype": "int64"},
    {"kind": "grid", "nvec": [4, 4], "low": [0, 0], "shape": [3], "dtype": "int64"},
    {"kind": "grid", "nvec": [4, 4], "low": [0, 0], "shape": [2], "dtype": "object"},
    {"kind": "product", "parts": [{"kind": "discrete", "n": 16, "start": 0}], "keys": ["a", "b"]},
    {"kind": "discretise", "shape": [3], "bins": [4, 4], "low": [0, 0], "high": [1, 1], "seen": None},
]
BAD_SETTINGS += [("sarsa", lambda h, one=one: h["settings"].__setitem__("indexer", one), "") for one in BAD_INDEXERS]


@pytest.mark.parametrize(("kind", "change", "match"), BAD_SETTINGS)
def test_settings_that_cannot_be(tmp_path, saved, kind, change, match):
    arrays = arrays_of(saved[kind])
    header = header_of(arrays)
    change(header)
    refused(tmp_path, packed(arrays, header), match)


# ---- the archive


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04nonsense", b"\x93NUMPY\x01\x00v\x00{", bytes(500)])
def test_not_an_archive(tmp_path, content):
    refused(tmp_path, content, "not a saved learner")


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.999])
def test_cut_short(tmp_path, saved, share):
    refused(tmp_path, saved["sarsa"][: int(share * len(saved["sarsa"]))], "cut short")


def test_other_archives(tmp_path, saved):
    refused(tmp_path, packed({"values": np.zeros(3)}), "no 'learner'")
    refused(tmp_path, packed({"header": np.zeros(3, np.uint8)}), "saved by version 0.1 of chunked_td; this one reads")
    refused(tmp_path, packed(arrays_of(saved["sarsa"]) | {"learner": np.frombuffer(b"[1, 2]", np.uint8)}))


def rewritten(content, compression=zipfile.ZIP_STORED, **members):
    """The archive with other members, added after the others."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w", compression) as new:
        for name in old.namelist():
            if name.removesuffix(".npy") not in members:
                new.writestr(name, old.read(name))
        for name, data in members.items():
            new.writestr(f"{name}.npy", data)
    return buffer.getvalue()


class Bomb:
    def __reduce__(self):
        return (exec, ("import builtins; builtins.chunked_td_bomb = True",))


def test_objects_are_never_unpickled(tmp_path, saved):
    import builtins

    pickled = io.BytesIO()
    np.save(pickled, np.array([Bomb()], dtype=object), allow_pickle=True)
    refused(tmp_path, rewritten(saved["sarsa"], values=pickled.getvalue()), "objects are never unpickled")
    assert not hasattr(builtins, "chunked_td_bomb")


def test_what_would_unpack_to_more_than_the_file(tmp_path, saved):
    bomb = rewritten(saved["sarsa"], zipfile.ZIP_DEFLATED, values=bytes(1 << 24))
    refused(tmp_path, bomb, "would unpack to more than its own")
    arrays, buffer = arrays_of(saved["sarsa"]), io.BytesIO()
    np.savez_compressed(buffer, **{name: array for name, array in arrays.items() if array.nbytes > 1000})
    refused(tmp_path, buffer.getvalue(), "would unpack to more|compressed")
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)})
    refused(tmp_path, rewritten(saved["sarsa"], values=head.getvalue()), r"values: float64\[\d+\] does not match")


@pytest.mark.timeout(60)
def test_what_is_not_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/zero")
    for name, kind in (("fifo", "a FIFO"), ("folder", "a directory"), ("device", "a device")):
        with pytest.raises(ValueError, match=rf"{name} must be a regular file, got {kind}"):
            ctd.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        ctd.load(Path(tmp_path / "nowhere.ctd"))
