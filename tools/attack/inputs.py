"""Attacks on what users hand in: recorded episodes, transition tables, files with λ sources, results of studies."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tools.attack.registry import Case, Found, Outcome, attack

ODD: tuple[Any, ...] = (None, "x", "False", b"\xff", 1j, 5, -1, 2**70, 0.5, np.nan, np.inf, 1e308, [], {}, True)
"""Values that stand where others belong."""


def odd(case: Case) -> Any:
    """One of them."""
    value = ODD[int(case.rng.integers(len(ODD)))]
    case.say(repr(value))
    return copy.copy(value)


# ---- recorded episodes


@functools.cache
def episodes() -> Any:
    """Twenty recorded episodes of FrozenLake."""
    import gymnasium as gym

    import chunked_td as ctd

    env = ctd.Recorder(gym.make("FrozenLake-v1"))
    ctd.ChunkedSarsa(env, seed=1, epsilon=1.0).learn(env, 20, progress=False)
    twin().learn_from(env.episodes)
    return env.episodes


def twin() -> Any:
    """A learner that has seen nothing."""
    import gymnasium as gym

    import chunked_td as ctd

    return ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), seed=1)


@attack("recorded episodes: rows missing, doubled or of other values", prepare=episodes, seconds=60.0)
def recorded(case: Case) -> Outcome:
    """Refused before the first update, or every number of the table is one."""
    given = copy.deepcopy(episodes())
    for _ in range(int(case.rng.integers(1, 3))):
        one = given[int(case.rng.integers(len(given)))]
        name = str(case.rng.choice(["observations", "actions", "rewards", "terminations", "truncations"]))
        values = getattr(one, name)
        if not isinstance(values, list):  # odd already
            continue
        place = int(case.rng.integers(max(len(values), 1)))
        case.say(f"{name}[{place}]")
        how = int(case.rng.integers(4)) if values else 3
        if how == 0:
            del values[place]
        elif how == 1:
            values.insert(place, values[place])
        elif how == 2:
            values[place] = odd(case)
        else:
            setattr(one, name, odd(case))
    from chunked_td.learners.state import Diverged

    agent = twin()
    try:
        agent.learn_from(given)
    except Diverged:  # a reward of 1e308 is a number
        return Outcome.REFUSED
    except (ValueError, TypeError):
        if agent.episode or np.any(agent.tables.values):
            raise Found(Outcome.SILENT, "refused, but after the first update") from None
        return Outcome.REFUSED
    if not np.isfinite(agent.tables.values).all():
        raise Found(Outcome.SILENT, "a value is no number")
    return Outcome.HARMLESS


# ---- transition tables


@attack("transition tables: other chances, targets and rewards", seconds=60.0)
def tables(case: Case) -> Outcome:
    """Refused, or a table whose chances sum to 1 in every pair."""
    from chunked_td.envs.dynamics import TransitionTable

    P: dict[Any, Any] = {
        s: {a: [(0.5, (s + a) % 4, 1.0, False), (0.5, 0, 0.0, True)] for a in (0, 1)} for s in range(4)
    }
    for _ in range(int(case.rng.integers(1, 3))):
        s, a, i = (int(case.rng.integers(n)) for n in (4, 2, 2))
        depth, field = int(case.rng.integers(4)), int(case.rng.integers(4))
        try:
            if depth == 0:
                P[odd(case)] = odd(case)
            elif depth == 1:
                P[s] = odd(case)
            elif depth == 2:
                P[s][a] = odd(case)
            else:
                row = list(P[s][a][i])
                row[field] = odd(case)
                P[s][a][i] = tuple(row)
        except (TypeError, LookupError):  # what was there before is odd already, or cannot be a key
            continue
    try:
        made = TransitionTable.from_outcomes(P, starts=0, horizon=9)
    except (ValueError, TypeError) as error:
        if not str(error):
            raise Found(Outcome.TRACEBACK, "the error says nothing") from error
        return Outcome.REFUSED
    for values in made:
        if isinstance(values, np.ndarray) and values.dtype.kind == "f" and not np.isfinite(values).all():
            raise Found(Outcome.SILENT, "a number of the table is none")
    return Outcome.HARMLESS


# ---- files with λ sources, as --method and --lambda-source take them

MINE = """from dataclasses import dataclass
import chunked_td as ctd

@dataclass(frozen=True)
class Half(ctd.LambdaSource):
    share: float = 0.5

    def lambda_t(self, step):
        return self.share
"""
CHARACTERS = ("", "\n", " ", "(", "0", "x", "\x00", "\ud800", "λ", '"""', "1/0\n", "import nothing\n")


@attack("λ source files: characters changed", seconds=60.0)
def source_files(case: Case) -> Outcome:
    """Refused with the name of the file, or a source."""
    from chunked_td.lab.errors import LabError
    from chunked_td.lambdas.reading import read_sources

    text, path = list(MINE), case.folder / "mine.py"
    for _ in range(int(case.rng.integers(1, 4))):
        place = int(case.rng.integers(len(text)))
        text[place] = CHARACTERS[int(case.rng.integers(len(CHARACTERS)))]
    path.write_text("".join(text), encoding="utf-8", errors="surrogatepass")
    case.say("".join(text))
    try:
        read_sources(f"{path}:Half" if case.rng.random() < 0.5 else str(path), "--method")
    except (ValueError, LabError) as error:
        if "--method" not in str(error) and "mine.py" not in str(error):
            raise Found(Outcome.TRACEBACK, f"the error names no file: {error}") from error
        return Outcome.REFUSED
    return Outcome.HARMLESS


# ---- what a study keeps of its runs

STUDY = Path(__file__).parents[2] / "results" / "compression"


def claims_of(run: Path) -> tuple[str, str]:
    """What `chunked-td claims` says of a directory, and its notes."""
    from chunked_td.lab.catalogue import known
    from chunked_td.lab.results.claims import print_claims

    said, notes = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(notes):
        print_claims(run, known(()))
    return said.getvalue(), notes.getvalue()


@functools.cache
def true_claims() -> str:
    """Those of the study as it is."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(STUDY, Path(folder) / STUDY.name)
        return claims_of(Path(folder))[0]


@attack("study: damaged tables and side files", prepare=true_claims, seconds=120.0)
def side_files(case: Case) -> Outcome:
    """The same claims, or the file is named."""
    from chunked_td.lab.errors import LabError

    truth = true_claims()
    shutil.copytree(STUDY, case.folder / STUDY.name)
    path = sorted(p for p in (case.folder / STUDY.name).iterdir() if p.is_file())[int(case.rng.integers(7))]
    content = bytearray(path.read_bytes())
    how = int(case.rng.integers(4))
    case.say(f"{path.name}, way {how}")
    if how == 0:
        for _ in range(int(case.rng.integers(1, 9))):
            content[int(case.rng.integers(len(content)))] ^= 1 << int(case.rng.integers(8))
    elif how == 1:
        del content[int(case.rng.integers(len(content))) :]
    elif how == 2:
        content = bytearray(case.rng.bytes(int(case.rng.integers(2_000))))
    else:
        content = bytearray(b"[]")
    path.write_bytes(content)
    try:
        said, notes = claims_of(case.folder)
    except LabError as error:
        said, notes = "", str(error)
    if path.name in notes or path.name in said:
        return Outcome.REFUSED
    if said != truth:
        raise Found(Outcome.SILENT, f"other claims, and {path.name} is not named: {notes}")
    return Outcome.SAME
