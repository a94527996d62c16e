"""Attacks on saved states of deep agents and on history compressors."""

from __future__ import annotations

import functools
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from tools.attack.files import crafted_array, crafted_json
from tools.attack.inputs import odd
from tools.attack.registry import Case, Found, Outcome, attack

# ---- states of deep agents


def training() -> Any:
    """A training run of two seeds that has just begun."""
    from chunked_td.deep.lambdas import read_source
    from chunked_td.deep.training import DeepTraining, make_agent
    from chunked_td.envs.tasks import make_task_by_name

    return DeepTraining(make_agent("sarsa", make_task_by_name("charge"), read_source("0.9")), 0.3, (1, 2))


@functools.cache
def states() -> bytes:
    """Saved states of such a run, as bytes."""
    import tempfile

    begun = training()
    begun.train(4, blocks=2)
    with tempfile.TemporaryDirectory() as folder:
        begun.save(Path(folder) / "states.npz")
        return (Path(folder) / "states.npz").read_bytes()


@functools.cache
def fresh() -> Any:
    """What cases resume; the states that it has then are thrown away."""
    states()
    return training()


def resume(case: Case, content: bytes) -> Any:
    """A run that has taken up a file, or None where the file was refused by its name, with the run as it was."""
    path, run = case.folder / "states.npz", fresh()
    path.write_bytes(content)
    before, log = run.states, list(run.log)
    try:
        run.resume(path)
    except ValueError as error:
        if "states.npz" not in str(error):
            raise Found(Outcome.TRACEBACK, f"the error does not name the file: {error}") from error
        if run.states is not before or run.log != log:
            raise Found(Outcome.SILENT, "refused, but the run has changed") from error
        return None
    return run


def content_of(saved: bytes) -> tuple[Any, list[bytes]]:
    """What saved states say; the order of the fields of a log has no part in it."""
    with np.load(io.BytesIO(saved)) as arrays:
        return json.loads(str(arrays["about"])), [arrays[name].tobytes() for name in arrays.files if name != "about"]


@attack("deep states: damaged bytes", prepare=fresh)
def damaged_states(case: Case) -> Outcome:
    """Refused, or what was saved."""
    content, how = bytearray(states()), int(case.rng.integers(3))
    place = int(case.rng.integers(len(content)))
    case.say(f"{('bits at', 'cut at', 'noise at')[how]} {place}")
    if how == 0:
        for _ in range(int(case.rng.integers(1, 4))):
            content[(place + int(case.rng.integers(50))) % len(content)] ^= 1 << int(case.rng.integers(8))
    elif how == 1:
        del content[place:]
    else:
        content[place:place] = case.rng.bytes(int(case.rng.integers(1, 50)))
    run = resume(case, bytes(content))
    if run is None:
        return Outcome.REFUSED
    run.save(case.folder / "again.npz")
    if content_of((case.folder / "again.npz").read_bytes()) != content_of(states()):
        raise Found(Outcome.SILENT, "resumed with other content")
    return Outcome.SAME


@attack("deep states: crafted content", prepare=fresh)
def crafted_states(case: Case) -> Outcome:
    """Refused, or training goes on and can be saved."""
    from chunked_td._archives import pack

    with np.load(io.BytesIO(states())) as stored:
        arrays = dict(stored)
    name = list(arrays)[int(case.rng.integers(len(arrays)))]
    if name == "about" or case.rng.random() < 0.5:
        about = crafted_json(case.rng, json.loads(str(arrays["about"])))
        arrays["about"] = np.array(json.dumps(about))
        case.say(f"about {about!r}"[:2000])
    else:
        arrays[name] = crafted_array(case.rng, arrays[name])
        case.say(f"{name} {arrays[name].dtype}{arrays[name].shape}")
    run = resume(case, pack(arrays))
    if run is None:
        return Outcome.REFUSED
    rows = run.train(4, blocks=1)
    if not np.isfinite(rows[0]["step"]):
        raise Found(Outcome.SILENT, f"the number of steps is {rows[0]['step']}")
    run.save(case.folder / "again.npz")
    return Outcome.HARMLESS


# ---- compressors


@functools.cache
def compressor() -> Any:
    """A small one, trained a little."""
    from chunked_td.compression import HistoryCompressor

    made = HistoryCompressor(levels=3, hidden=4, time_bits=8, seed=1).fit(["abcabcabd"] * 4, epochs=2)
    made.decompress(made.compress("abcabcab"))
    return made


@attack("compressors: crafted items, sequences and settings", prepare=compressor)
def compressors(case: Case) -> Outcome:
    """Refused with a sentence, or what comes back are symbols of the alphabet."""
    from chunked_td.compression import HistoryCompressor

    made = compressor()
    kept = made.compress("abcabdabc"[: int(case.rng.integers(1, 9))])
    how = int(case.rng.integers(4))
    try:
        if how == 0:
            items = crafted_array(case.rng, kept.items)
            case.say(f"items {items!r}"[:500])
            back = made.decompress(items)
        elif how == 1:
            back = made.decompress(odd(case))
        elif how == 2:
            given = list("abcab")
            given[int(case.rng.integers(5))] = odd(case)
            back = made.decompress(made.compress(given if case.rng.random() < 0.8 else odd(case)))
        else:
            names = ("levels", "hidden", "cell", "criterion", "threshold", "window", "settled", "learning_rate",
                     "automatize", "time_bits", "alphabet", "seed")  # fmt: skip
            name = str(case.rng.choice(names))
            case.say(name)
            HistoryCompressor(**{name: odd(case)})
            return Outcome.HARMLESS
    except (ValueError, TypeError) as error:
        if not str(error):
            raise Found(Outcome.TRACEBACK, "the error says nothing") from error
        return Outcome.REFUSED
    if not set(back) <= set(made.alphabet):
        raise Found(Outcome.SILENT, f"other symbols: {back!r}")
    return Outcome.HARMLESS
