"""Runs cases in child processes, and counts what came of them.

A child tries many cases, one after another, and tells the parent when each begins and ends. If it dies, or runs past
the limit of a case, that case is to blame; another child takes its place. Memory is limited for the child as a whole,
and watched for every case.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tools.attack.registry import Attack, Case, Found, Outcome, load

PREPARING = 300.0  # seconds for an attack's preparation, which may compile
GRACE = 1_800.0  # seconds after the time is over for attacks that have had too few tries
PATIENCE = 10  # how many times a case may take, by the clock, what it may take of the processor
HARD_LIMIT = 6 << 30  # bytes of data of a child

Task = tuple[str, int, int]  # attack, seed, number


@dataclass(frozen=True)
class Finding:
    """A case that came out badly."""

    attack: str
    number: int
    outcome: Outcome
    text: str


@dataclass
class Tally:
    """What came of all cases so far."""

    outcomes: dict[str, Counter[Outcome]] = field(default_factory=lambda: defaultdict(Counter))
    seconds: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    """Attacks that have no further cases."""

    def too_few(self, attacks: Sequence[Attack], least: int) -> list[str]:
        """Attacks that were tried less often than this though they have more cases."""
        tried = {attack.name: sum(self.outcomes[attack.name].values()) for attack in attacks}
        return [f"{name} ({tried[name]})" for name in tried if tried[name] < least and name not in self.ended]

    def add(self, name: str, number: int, outcome: Outcome, text: str, seconds: float) -> None:
        """Count a case."""
        self.outcomes[name][outcome] += 1
        self.seconds[name] += seconds  # type: ignore[assignment]
        if not outcome.good:
            self.findings.append(Finding(name, number, outcome, text))

    @property
    def tries(self) -> int:
        """Cases in all."""
        return sum(sum(counts.values()) for counts in self.outcomes.values())

    def table(self) -> str:
        """Tries and outcomes of every attack, as Markdown."""
        lines = [f"| attack | tries | {' | '.join(Outcome)} |", "|---" * (len(Outcome) + 2) + "|"]
        total: Counter[Outcome] = Counter()
        for name, counts in sorted(self.outcomes.items()):
            total += counts
            lines.append(_row(name, counts))
        return "\n".join([*lines, _row("**all**", total)])


def _row(name: str, counts: Counter[Outcome]) -> str:
    return f"| {name} | {sum(counts.values()):,} | {' | '.join(f'{counts[o]:,}' for o in Outcome)} |"


# ---- children


def _child(pipe: Connection, folder: str) -> None:
    """Try cases until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    log = os.open(Path(folder) / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    resource.setrlimit(resource.RLIMIT_DATA, (HARD_LIMIT, HARD_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    attacks, ready = load(), set()
    while True:
        try:
            name, seed, number = pipe.recv()
        except EOFError:
            return
        chosen = attacks[name]
        if name not in ready and chosen.prepare is not None:
            chosen.prepare()
        ready.add(name)
        os.ftruncate(log, 0)
        pipe.send("begin")
        pipe.send(_try(chosen, seed, number, Path(folder) / "case"))


def _try(chosen: Attack, seed: int, number: int, folder: Path) -> tuple[Outcome | None, str]:
    """What came of a case, and what to tell about it."""
    folder.mkdir()
    os.chdir(folder)
    case = Case(number, chosen.rng(seed, number), folder)
    before = _resident(reset=True)
    outcome: Outcome | None
    try:
        outcome = chosen.run(case)
    except Found as found:
        outcome = found.outcome
        case.say(str(found))
    except MemoryError:
        outcome = Outcome.MEMORY
    except BaseException:  # also a panic of compiled libraries
        outcome = Outcome.TRACEBACK
        case.say(traceback.format_exc())
    finally:
        os.chdir(folder.parent)
        shutil.rmtree(folder, ignore_errors=True)
    taken = (_resident("VmHWM") - before) / 1024
    if outcome is not None and outcome.good and taken > chosen.megabytes:
        outcome = Outcome.MEMORY
        case.say(f"{taken:,.0f} MB")
    return outcome, "; ".join(case.said)


def _resident(line: str = "VmRSS", reset: bool = False) -> int:
    """Memory of this process in kilobytes: VmRSS now, VmHWM at most since the last reset."""
    with contextlib.suppress(OSError):
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        for text in Path("/proc/self/status").read_text().splitlines():
            if text.startswith(line):
                return int(text.split()[1])
    return 0


class _Worker:
    """A child, seen from the parent."""

    def __init__(self, folder: Path):
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self.context = multiprocessing.get_context("spawn")
        self.task: Task | None = None
        self._start()

    def _start(self) -> None:
        self.pipe, other = self.context.Pipe()
        self.process = self.context.Process(target=_child, args=(other, str(self.folder)), daemon=True)
        self.process.start()
        other.close()

    def give(self, task: Task) -> None:
        self.task = task
        self.begin(PREPARING)
        self.pipe.send(task)

    def begin(self, seconds: float) -> None:
        """From now on it has so many seconds."""
        self.begun, self.used, self.seconds = time.monotonic(), self.processor_time(), seconds
        self.deadline = self.begun + seconds

    def hangs(self) -> bool:
        """Whether its time is over: used up by the child itself, or waited for `PATIENCE` times, on a busy machine."""
        now = time.monotonic()
        if now < self.deadline:
            return False
        if self.processor_time() - self.used < self.seconds and now - self.begun < PATIENCE * self.seconds:
            self.deadline = now + self.seconds / 4
            return False
        return True

    def processor_time(self) -> float:
        """Seconds that the child has used; endless where the system does not tell."""
        with contextlib.suppress(OSError, ValueError):
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
        return math.inf

    def again(self) -> None:
        """Another child in place of one that died or hangs."""
        self.process.kill()
        self.process.join()
        self.pipe.close()
        shutil.rmtree(self.folder / "case", ignore_errors=True)
        self._start()

    def last_words(self) -> str:
        with contextlib.suppress(OSError):
            return (self.folder / "said").read_text(errors="replace")[-2000:].strip()
        return ""

    def close(self) -> None:
        self.pipe.close()
        self.process.join(5)
        self.process.kill()


def run(
    attacks: Sequence[Attack],
    seed: int,
    seconds: float,
    *,
    workers: int = 2,
    tries: int | None = None,
    first: int = 0,
    least: int = 0,
) -> Tally:
    """Try cases until the time is over.

    Args:
      seconds: budget of time; what has begun is finished.
      workers: how many children at a time.
      tries: at most so many cases of each attack; None is no limit.
      first: number of the first case.
      least: so many cases of each attack are tried even if the time, which a cold start eats, is over; but not for more
        than `GRACE` seconds.
    """
    tally, numbers, open_ = Tally(), dict.fromkeys((a.name for a in attacks), first), {a.name: a for a in attacks}
    spent: Counter[str] = Counter()
    folder = Path(tempfile.mkdtemp(prefix="attack-"))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    end = time.monotonic() + seconds
    pool = [_Worker(folder) for _ in range(workers)]
    try:
        while True:
            for worker in pool:
                late = time.monotonic() - end
                left = open_ if late < 0 else [n for n in open_ if late < GRACE and numbers[n] - first < least]
                if worker.task is None and left:
                    name = min(left, key=lambda n: (spent[n] / (open_[n].share or 1.0), n))
                    spent[name] += 1e-3  # type: ignore[assignment]  # so that the children take turns
                    worker.give((name, seed, numbers[name]))
                    numbers[name] += 1
                    if tries is not None and numbers[name] - first >= tries:
                        del open_[name]
            busy = [worker for worker in pool if worker.task is not None]
            if not busy:
                return tally
            _listen(busy, {a.name: a for a in attacks}, tally, spent, open_)
    finally:
        for worker in pool:
            worker.close()
        shutil.rmtree(folder, ignore_errors=True)


def _listen(
    busy: list[_Worker], attacks: dict[str, Attack], tally: Tally, spent: Counter[str], open_: dict[str, Any]
) -> None:
    """Take in what children report, until one is free."""
    until = min(worker.deadline for worker in busy)
    heard = wait([worker.pipe for worker in busy], max(until - time.monotonic(), 0.0))
    for worker in busy:
        assert worker.task is not None
        name, _, number = worker.task
        outcome: Outcome | None
        if worker.pipe in heard:
            try:
                message = worker.pipe.recv()
            except (EOFError, ConnectionResetError):
                worker.process.join()
                outcome, text = Outcome.CRASH, f"exit code {worker.process.exitcode}: {worker.last_words()}"
                worker.again()
            else:
                if message == "begin":
                    worker.begin(attacks[name].seconds)
                    continue
                outcome, text = message
        elif worker.hangs():
            outcome, text = Outcome.HANG, f"more than {worker.seconds:.0f} s: {worker.last_words()}"
            worker.again()
        else:
            continue
        worker.task, taken = None, time.monotonic() - worker.begun
        spent[name] += taken  # type: ignore[assignment]
        if outcome is None:
            open_.pop(name, None)
            tally.ended.add(name)
        else:
            tally.add(name, number, outcome, text, taken)
