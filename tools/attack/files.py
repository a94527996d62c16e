"""Attacks on saved agents and on run directories: damaged bytes, crafted contents, things that are not files."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from tools.attack.registry import Case, Found, Outcome, attack

# ---- saved agents


@functools.cache
def agents() -> dict[str, bytes]:
    """Saved agents of several kinds, in the middle of an episode, as bytes."""
    import tempfile

    import gymnasium as gym

    import chunked_td as ctd

    made = {
        "sarsa": ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), seed=1, epsilon=ctd.linear(1.0, 0.1, 30)),
        "backward": ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), seed=1, lambda_source=ctd.BackwardLambda()),
        "sampled": ctd.NStepChunkedTD(gym.make("FrozenLake-v1"), seed=1, percept="reward-state"),
        "tdc": ctd.CorrectedTD(gym.make("FrozenLake-v1"), seed=1),
        "planner": ctd.ChunkedExpectedSarsa(gym.make("FrozenLake-v1"), seed=1, planner=ctd.Dyna()),
        "bonus": ctd.SarsaLambda(gym.make("FrozenLake-v1"), seed=1, exploration=ctd.CountBonus()),
        "lineage": ctd.ExpectedSarsaLambda(gym.make("FrozenLake-v1"), seed=1, lambda_=1.0, view="lineage"),
        "mature": ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), seed=1, lambda_source=ctd.Mature(ctd.ForwardLambda())),
        "hashed": ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), seed=1, indexer=ctd.make_indexer(None)),
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, agent in made.items():
            walk(agent, 200)
            path = Path(folder) / name
            agent.save(path)
            found[name] = path.read_bytes()
            walk(ctd.load(path), 5)  # compiles what the cases will run
    return found


def walk(agent: object, steps: int) -> None:
    """Play on among the states that FrozenLake has."""
    rng = np.random.default_rng(0)
    fresh = agent.state < 0  # type: ignore[attr-defined]
    for _ in range(steps):
        state = int(rng.integers(16))
        if fresh:
            fresh = agent.start(state) is None  # type: ignore[attr-defined]
        else:
            fresh = agent.step(float(rng.random()), state, bool(rng.random() < 0.05)) is None  # type: ignore[attr-defined]


def try_agent(case: Case, content: bytes, original: bytes) -> Outcome:
    """Load bytes that were damaged: refused by name, or the same agent."""
    import chunked_td as ctd

    path = case.folder / "agent.ctd"
    path.write_bytes(content)
    try:
        agent = ctd.load(path)
    except ValueError as error:
        if "agent.ctd" not in str(error):
            raise Found(Outcome.TRACEBACK, f"the error does not name the file: {error}") from error
        return Outcome.REFUSED
    agent.save(case.folder / "again.ctd")
    if (case.folder / "again.ctd").read_bytes() != original:
        raise Found(Outcome.SILENT, "loaded with other content")
    return Outcome.SAME


def pick(case: Case) -> tuple[str, bytes]:
    """One of the saved agents."""
    name = list(agents())[int(case.rng.integers(len(agents())))]
    case.say(name)
    return name, agents()[name]


@attack("saved agent: flipped bits", prepare=agents)
def flipped_bits(case: Case) -> Outcome:
    _, original = pick(case)
    damaged = bytearray(original)
    for _ in range(int(case.rng.choice([1, 1, 1, 2, 8]))):
        place, bit = int(case.rng.integers(len(damaged))), int(case.rng.integers(8))
        case.say(f"byte {place} bit {bit}")
        damaged[place] ^= 1 << bit
    return try_agent(case, bytes(damaged), original)


@attack("saved agent: cut short", prepare=agents)
def cut_agent(case: Case) -> Outcome | None:
    original = agents()["sarsa"]
    if case.number >= len(original):
        return None
    case.say(f"{case.number} bytes")
    return try_agent(case, original[: case.number], original)


@attack("saved agent: bytes added or moved", prepare=agents)
def spliced_agent(case: Case) -> Outcome:
    _, original = pick(case)
    place, length = int(case.rng.integers(len(original) + 1)), int(case.rng.integers(1, 100))
    kind = int(case.rng.integers(4))
    case.say(f"{('added', 'in front', 'inside', 'repeated')[kind]}: {length} at {place}")
    noise = case.rng.bytes(length)
    damaged = {
        0: original + noise,
        1: noise + original,
        2: original[:place] + noise + original[place:],
        3: original[:place] + original[max(place - length, 0) :],
    }[kind]
    return try_agent(case, damaged, original) if damaged != original else Outcome.SAME


# ---- saved agents with a right digest and wrong content

NASTY = (0, 1, -1, 2**31, -(2**31), 2**53, 10**9, -(10**9), 2**63 - 1, -(2**63))
DTYPES = ("<i4", "<f4", "<f8", "<i8", "|b1", "|u1", "<u8", ">f8", ">i8", "<U4")
JUNK: tuple[object, ...] = (
    None,
    True,
    "",
    "x",
    [],
    {},
    [[]],
    1.5,
    -1,
    10**9,
    2**63,
    10**30,
    1e308,
    float("nan"),
    "a" * 300,
)


def crafted_array(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """The array with something wrong: numbers, dtype, byte order, shape."""
    kind, array = int(rng.integers(6)), array.copy()
    if kind <= 2 and array.size and array.dtype.kind in "iufb":
        flat = array.reshape(-1)
        place = int(rng.integers(flat.size))
        if array.dtype.kind == "f":
            flat[place] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 2.0, -1.0])
        elif kind == 2:
            flat[place] = flat[int(rng.integers(flat.size))]
        else:
            limits = (0, 1) if array.dtype.kind == "b" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
            flat[place] = min(max(int(rng.choice(np.array(NASTY, object))), limits[0]), limits[1])
        return array
    if kind == 3:
        return array.astype(str(rng.choice(DTYPES)))
    if kind == 4:
        return np.resize(array, max(array.size + int(rng.integers(-3, 4)), 0))
    return np.concatenate([array, array]) if array.ndim and kind == 5 else array.reshape(1, -1)


def crafted_json(rng: np.random.Generator, value: object) -> object:
    """JSON values with something wrong somewhere."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[int(rng.integers(len(value)))]
        if rng.random() < 0.05:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: crafted_json(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = int(rng.integers(len(value)))
        return [*value[:place], crafted_json(rng, value[place]), *value[place + 1 :]]
    if isinstance(value, int | float) and rng.random() < 0.5:
        return value + int(rng.choice([-1, 1, 1000, -1000, 10**6]))
    return JUNK[int(rng.integers(len(JUNK)))]


@attack("saved agent: crafted content", prepare=agents, share=3)
def crafted_agent(case: Case) -> Outcome:
    import io
    import json

    import chunked_td as ctd
    from chunked_td._archives import pack

    _, original = pick(case)
    with np.load(io.BytesIO(original)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(bytes(arrays["header"]))
    for _ in range(int(case.rng.integers(1, 3))):
        name = list(arrays)[int(case.rng.integers(len(arrays)))]
        if name == "header" or case.rng.random() < 0.35:
            header = crafted_json(case.rng, header)
            arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
            case.say(f"header {header!r}"[:2000])
        else:
            arrays[name] = crafted_array(case.rng, arrays[name])
            case.say(f"{name} {arrays[name].dtype}{arrays[name].shape} {arrays[name]!r}"[:500])
    if case.rng.random() < 0.05:
        arrays["header"] = crafted_array(case.rng, arrays["header"])
        case.say(f"header {arrays['header'].dtype}{arrays['header'].shape}")
    path = case.folder / "agent.ctd"
    path.write_bytes(pack(arrays))
    try:
        agent = ctd.load(path)
    except ValueError as error:
        if "agent.ctd" not in str(error):
            raise Found(Outcome.TRACEBACK, f"the error does not name the file: {error}") from error
        return Outcome.REFUSED
    try:
        walk(agent, 200)
        agent.save(case.folder / "again.ctd")
        ctd.load(case.folder / "again.ctd")
    except (ValueError, FloatingPointError) as error:
        case.say(str(error))
    return Outcome.HARMLESS


@attack("saved agent: bombs", prepare=agents, share=0.3, megabytes=768)  # a header is an array, and a text
def bomb(case: Case) -> Outcome:
    import io
    import zipfile

    import chunked_td as ctd
    from chunked_td._archives import seal

    _, original = pick(case)
    with zipfile.ZipFile(io.BytesIO(original)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    size = int(case.rng.choice([2**26, 2**28, 2**30]))
    name = str(case.rng.choice([*members, "unknown.npy", "model_x.npy", "lambda_x.npy"]))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (size,)})
    members[name] = header.getvalue()
    case.say(f"{name} of {size:,} bytes")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            with archive.open(member, "w", force_zip64=True) as file:
                file.write(content)
                if member == name:
                    for _ in range(size >> 20):
                        file.write(bytes(1 << 20))
    path = case.folder / "agent.ctd"
    path.write_bytes(seal(buffer.getvalue()))
    try:
        ctd.load(path)
    except ValueError:
        return Outcome.REFUSED
    raise Found(Outcome.SILENT, "a bomb was loaded")


# ---- run directories

TOY = str(Path(__file__).parents[2] / "tests" / "helpers" / "toy.py")


@functools.cache
def directory() -> Path:
    """A finished run directory of the toy protocol; cases copy it."""
    import atexit
    import shutil
    import tempfile

    from chunked_td.lab.running.reproduce import reproduce

    folder = Path(tempfile.mkdtemp(prefix="attack-toy-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if reproduce([TOY], out=folder / "run", networks=False, quiet=True) != 0:
        raise RuntimeError("the toy protocol did not run")
    (folder / "run" / "lock").unlink(missing_ok=True)
    return folder / "run"


@functools.cache
def true_table() -> object:
    from chunked_td.lab.store.batch_store import Store

    return Store.read(directory()).table("toy")


@functools.cache
def prepared() -> None:
    """What every case of run directories needs, so that its time is not the first case's."""
    directory()
    true_table()


class Sandbox:
    """A copy of the run directory, and a folder beside it that nobody may touch."""

    def __init__(self, case: Case):
        import shutil

        self.run, self.outside = case.folder / "run", case.folder / "outside"
        shutil.copytree(directory(), self.run)
        self.outside.mkdir()
        (self.outside / "canary").write_text("untouched")

    def batches(self) -> list[Path]:
        return sorted(self.run.glob("batches/*/*.parquet"))

    def check(self) -> None:
        """Refuse anything that happened outside."""
        names = [path.name for path in self.outside.rglob("*")]
        around = sorted(path.name for path in self.run.parent.iterdir())
        if names != ["canary"] or (self.outside / "canary").read_text() != "untouched":
            raise Found(Outcome.OUTSIDE, f"outside there is now {names}")
        if around != ["outside", "run"] and around != ["from", "outside", "run"]:
            raise Found(Outcome.OUTSIDE, f"beside the directory there is now {around}")


def command(*arguments: str) -> tuple[int, str]:
    """Exit code and error text of `chunked-td`."""
    import contextlib
    import io

    from chunked_td.cli import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(list(arguments))
        except SystemExit as end:
            return int(end.code or 0), said.getvalue()
    return 0, said.getvalue()


def judge_directory(run: Path, victims: list[Path]) -> Outcome:
    """Read a directory: the same rows, or damage that is named and no wrong row."""
    from chunked_td.lab.errors import LabError
    from chunked_td.lab.store.batch_store import Store

    truth = true_table()
    try:
        store = Store.read(run)
        found = store.table("toy")
    except LabError as error:
        if str(run) not in str(error):
            raise Found(Outcome.TRACEBACK, f"the error does not name a file: {error}") from error
        return Outcome.REFUSED
    if found.equals(truth):  # type: ignore[attr-defined]
        return Outcome.SAME if not store.damaged else Outcome.REFUSED
    if found.join(truth, on=found.columns, how="anti", nulls_equal=True).height:  # type: ignore[arg-type]
        raise Found(Outcome.SILENT, "rows that were never written")
    if not store.damaged or not {damage.path for damage in store.damaged} & set(victims):
        raise Found(Outcome.SILENT, f"rows are missing and the damage names {store.damaged}")
    return Outcome.REFUSED


def flip(case: Case, path: Path, count: int) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(count):
        place, bit = int(case.rng.integers(len(content))), int(case.rng.integers(8))
        case.say(f"{path.name} byte {place} bit {bit}")
        content[place] ^= 1 << bit
    path.write_bytes(content)


@attack("stored batch: flipped bits", prepare=prepared, share=2)
def flipped_batch(case: Case) -> Outcome:
    box = Sandbox(case)
    files = box.batches()
    victims = [files[int(k)] for k in case.rng.choice(len(files), int(case.rng.integers(1, 3)), replace=False)]
    for victim in victims:
        flip(case, victim, int(case.rng.choice([1, 1, 1, 3])))
    outcome = judge_directory(box.run, victims)
    box.check()
    return outcome


@attack("stored batch: cut short", prepare=prepared)
def cut_batch(case: Case) -> Outcome | None:
    box = Sandbox(case)
    victim = box.batches()[0]
    content = victim.read_bytes()
    if case.number >= len(content):
        return None
    victim.write_bytes(content[: case.number])
    return judge_directory(box.run, [victim])


@attack("run directory: flipped bits in manifest, digests, log", prepare=prepared)
def flipped_others(case: Case) -> Outcome:
    box = Sandbox(case)
    victim = box.run / str(case.rng.choice(["manifest.json", "digests.sha256", "log.jsonl"]))
    flip(case, victim, 1)
    outcome = judge_directory(box.run, [victim, *box.batches()])
    Read(box.run).log()
    return outcome


class Read:
    """What reports read of a directory's log."""

    def __init__(self, run: Path):
        self.run = run

    def log(self) -> None:
        from chunked_td.lab.report.page import distinct, time_table
        from chunked_td.lab.store.log import RunLog

        log = RunLog(self.run)
        time_table(log.batches())
        distinct(log.sessions())


@attack("stored batch: flipped bits, no digest", prepare=prepared, share=0.5, seconds=60)
def flipped_unrecorded(case: Case) -> Outcome:
    box = Sandbox(case)
    files = box.batches()
    (box.run / "digests.sha256").unlink()
    victims = [files[int(k)] for k in case.rng.choice(len(files), 4, replace=False)]
    for victim in victims:
        flip(case, victim, 1)
    return judge_directory(box.run, victims)


@attack("stored batch: crafted, with its digest", prepare=prepared)
def crafted_batch(case: Case) -> Outcome:
    import json

    import polars as pl

    from chunked_td.lab.store.batch_store import METADATA_KEY
    from chunked_td.lab.store.certify import sha256
    from chunked_td.lab.store.settings import digest_of

    box = Sandbox(case)
    victim = box.batches()[int(case.rng.integers(6))]
    header = json.loads(pl.read_parquet_metadata(victim)[METADATA_KEY])
    table = pl.read_parquet(victim)
    kind = int(case.rng.integers(6))
    case.say(f"kind {kind}")
    if kind == 0:
        header = crafted_json(case.rng, header)
    elif kind == 1:
        table = table.with_columns(pl.lit("sarsa-1").alias("arm"))
    elif kind == 2:
        table = pl.concat([table] * int(case.rng.integers(2, 20)))
    elif kind == 3:
        header["settings"] = crafted_json(case.rng, header["settings"])
        header["key"] = digest_of(header["settings"]) if isinstance(header["settings"], dict) else ""
    elif kind == 4:
        table = table.with_columns(pl.col("score").cast(pl.String))
    else:
        count = 10**6
        one = table.head(1)
        table = pl.DataFrame({name: one[name].new_from_index(0, count) for name in one.columns})
        header["rows"] = count
    table.write_parquet(victim, metadata={METADATA_KEY: json.dumps(header)}, compression="zstd")
    del table
    with (box.run / "digests.sha256").open("a") as file:
        file.write(f"{sha256(victim.read_bytes())}  {victim.relative_to(box.run).as_posix()}\n")
    outcome = judge_directory(box.run, [victim])
    box.check()
    return outcome


@attack("manifest: crafted, with its checksum", prepare=prepared, share=2)
def crafted_manifest(case: Case) -> Outcome:
    return try_manifest(case, "claims")


@attack("manifest: crafted, as a report", prepare=prepared, share=0.5, seconds=180)
def crafted_report(case: Case) -> Outcome:
    return try_manifest(case, "report")


def try_manifest(case: Case, what: str) -> Outcome:
    import json

    from chunked_td.lab.store.settings import digest_of

    box = Sandbox(case)
    path = box.run / "manifest.json"
    values = json.loads(path.read_text())
    values.pop("checksum")
    values["protocols"] = crafted_json(case.rng, values["protocols"])
    if case.rng.random() < 0.2:
        name = str(case.rng.choice(["../../outside/x", str(box.outside / "x"), '"><script>', "a/b", "..", ""]))
        values = json.loads(json.dumps(values).replace('"toy"', json.dumps(name)))
    case.say(json.dumps(values)[:3000])
    path.write_text(json.dumps({**values, "checksum": digest_of(values)}))
    code, said = command(what, str(box.run))
    box.check()
    if code == 0:
        return Outcome.HARMLESS
    if code not in (1, 2, 3) or not said.strip():
        raise Found(Outcome.TRACEBACK, f"exit code {code}: {said}")
    return Outcome.REFUSED


@attack("import: crafted results", prepare=prepared)
def crafted_import(case: Case) -> Outcome:
    import json

    import polars as pl

    from chunked_td._archives import pack
    from chunked_td.lab.store.batch_store import METADATA_KEY
    from chunked_td.lab.store.settings import digest_columns

    box = Sandbox(case)
    victim = box.batches()[0]
    header = json.loads(pl.read_parquet_metadata(victim)[METADATA_KEY])
    table = pl.read_parquet(victim)
    columns = {name: table[name].to_numpy() for name in table.columns if name != "arm"}
    settings = header["settings"]
    if case.rng.random() < 0.5:
        key = str(case.rng.choice(["protocol", "arm"]))
        settings[key] = str(case.rng.choice(["../../outside", str(box.outside), "..", "a/b", "\x00", "x" * 400, "ok"]))
        case.say(f"{key} {settings[key]!r}")
    else:
        settings = crafted_json(case.rng, settings)
        case.say(json.dumps(settings)[:1000])
    if case.rng.random() < 0.3:
        name = list(columns)[int(case.rng.integers(len(columns)))]
        columns[name] = crafted_array(case.rng, columns[name])
        case.say(f"{name} {columns[name]!r}"[:300])
    head = {"settings": settings, "digest": digest_columns(columns), "columns": list(columns)}
    source = case.folder / "from"
    source.mkdir()
    (source / "x.npz").write_bytes(pack({"__header__": np.array(json.dumps(head)), **columns}))
    (source / "log.jsonl").write_text(log_noise(case.rng))
    before = {path: path.read_bytes() for path in box.batches()}
    code, said = command(
        "reproduce", TOY, "--import", str(source), "--out", str(box.run), "--no-networks", "--no-report"
    )
    box.check()
    if any(path.read_bytes() != content for path, content in before.items()):
        raise Found(Outcome.SILENT, "a stored batch was replaced")
    if code == 0:
        return Outcome.HARMLESS
    if code not in (1, 2, 3) or not said.strip():
        raise Found(Outcome.TRACEBACK, f"exit code {code}: {said}")
    return Outcome.REFUSED


def log_noise(rng: np.random.Generator) -> str:
    """Lines of a log that make no sense."""
    import json

    line = {
        "event": "batch",
        "time": 1.0,
        "protocol": "toy",
        "arm": "a",
        "kind": "k",
        "runs": 1,
        "steps": 1,
        "seconds": 1,
    }
    lines = [json.dumps(crafted_json(rng, {**line, "event": str(rng.choice(["batch", "session"]))})) for _ in range(20)]
    odd = [
        "{",
        "[]",
        "null",
        "1e999",
        '{"event": 5, "self": 1, "values": 2}',
        '{"event": "batch", "host": "\\ud800"}',
        "[" * 10**5,
    ]
    return "\n".join([*lines, str(rng.choice(odd))])


@attack("log: malformed lines", prepare=prepared)
def malformed_log(case: Case) -> Outcome:
    box = Sandbox(case)
    (box.run / "log.jsonl").write_text(log_noise(case.rng), errors="replace")
    case.say((box.run / "log.jsonl").read_text()[:1500])
    Read(box.run).log()
    code, said = command("reproduce", TOY, "--out", str(box.run), "--no-networks", "--no-report")
    if code != 0:
        raise Found(Outcome.TRACEBACK, f"exit code {code}: {said}")
    return Outcome.HARMLESS


@attack("run directory: things that are not files", prepare=prepared, seconds=60)
def not_files(case: Case) -> Outcome:
    import os
    import shutil
    import socket

    box = Sandbox(case)
    canary = box.outside / "canary"
    own = ["lock", "owner.json", "manifest.json", "log.jsonl", "digests.sha256", "batches", "figures", "tables"]
    path = box.run / str(case.rng.choice([*own, "batches/toy", "batches/other", *map(str, box.batches())]))
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    kind = str(
        case.rng.choice(["fifo", "directory", "link to a file", "link to a folder", "link to a device", "socket"])
    )
    case.say(f"{path.relative_to(box.run)} is a {kind}")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            os.chdir(path.parent)
            made.bind(path.name[:90])
            os.chdir(case.folder)
    else:
        path.symlink_to({"link to a file": canary, "link to a folder": box.outside}.get(kind, Path("/dev/zero")))
    mine = box.run / "notes.unfinished"
    mine.write_text("mine")
    outcomes = []
    for arguments in (
        ("claims", str(box.run)),
        ("reproduce", TOY, "--out", str(box.run), "--no-networks", "--no-report"),
    ):
        code, said = command(*arguments)
        box.check()
        if code not in (0, 1, 2, 3, 4) or (code and not said.strip()):
            raise Found(Outcome.TRACEBACK, f"{arguments[0]}: exit code {code}: {said}")
        outcomes.append(code)
    if mine.read_text() != "mine":
        raise Found(Outcome.OUTSIDE, "a user's own file was changed")
    if outcomes[-1] == 0:
        return judge_directory(box.run, box.batches()) and Outcome.HARMLESS
    return Outcome.REFUSED
