"""`compare`: sweeps over seeds until the answer is clear or the time is used."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from chunked_td._checks import name_hint
from chunked_td._durations import duration_text
from chunked_td._files import write_atomically
from chunked_td._link.cache import elsewhere
from chunked_td._link.link import COMPILED as COMPILES
from chunked_td.comparison.answer import seeds_text
from chunked_td.comparison.arms import FIXED, PLANS, RANDOM, Candidate, make_arms
from chunked_td.comparison.facts import facts_of
from chunked_td.comparison.ranking import LEAST, LOOKS
from chunked_td.comparison.results import Comparison, Outcome, merged
from chunked_td.comparison.running import RunnableProblem, compile_arms, make_learner, play, problem_of
from chunked_td.comparison.settings import EPISODES, Settings
from chunked_td.sweeps import sweep

MINUTES = 5.0
"""Time in which seeds are added, by default."""
LONG = 60.0
"""Seconds; an estimate of more is printed before the start."""
PIECE = 20.0
"""Seconds of work between two checks of the time."""
LEARNING, COMPILED = 3e-5, 2e-7
"""Seconds of a step, for estimates: a learner's in Gymnasium's loop, and a whole compiled one."""
FEWEST = 50
"""Fewest episodes of a run, by default."""
COMPILING = 4
"""Most processes that compile at the same time: each loads its imports for two seconds."""


def compare(
    env: Any,
    *,
    out: str | os.PathLike[str] | None = None,
    minutes: float | None = None,
    engine: str | None = None,
    overwrite: bool = False,
    say: Callable[[str], Any] | None = None,
    **settings: Any,
) -> Comparison:
    """Compare fixed λs, learned λs, expected TD errors and planning on an environment.

    Args:
      env: a Gymnasium id, "package:Id-v0", "maze.py" or "maze.py:Maze", or an environment made from an id.
      out: folder for finished runs; the same call continues from them. None keeps nothing.
      minutes: time in which seeds are added; 5 by default, no limit by default if `seeds` is given.
      engine: None (threads for compiled runs, processes for others), or "ray" for the cluster that RAY_ADDRESS names.
      overwrite: remove runs with other settings from `out`; they are refused otherwise.
      say: called with each line of progress; by default it is printed to standard error.
      settings: any of
        episodes (per run; by default 1,000, or as many as fit into the time), max_steps (of an endless episode),
        seeds (by default 10, then 20 and 40 until the answer is clear),
        lambdas (fixed λs), sources (learned λs and rules, see `chunked-td compare --help`), lambda_source (more),
        bootstraps ("sarsa", "expected_sarsa", "q_learning"), step_sizes (to begin with), extend (of that grid),
        step_size_schedule (factors), discount, epsilon (a number or a `Schedule`), bonus (count bonus), initial_value,
        env_settings, wrappers, bins, low, high, indexer, action_mask, reward_weights, compiled.
    Returns:
      a `Comparison`: print it, `save(folder)`, or read `headline`, `recommended`, `python`, `command`, `rows`, `runs`.
    """
    given = _settings(env, settings)
    if minutes is not None and not minutes > 0:
        raise ValueError(f"minutes must be positive, got {minutes!r}")
    say = say or (lambda text: print(text, file=sys.stderr, flush=True))
    with tempfile.TemporaryDirectory() as nowhere:
        return _Comparing(given, Path(nowhere if out is None else out), minutes, engine, overwrite, say).result()


def _settings(env: Any, given: dict[str, Any]) -> Settings:
    known = [field.name for field in fields(Settings)]
    for name in given:
        if name not in known:
            hint = f"; did you mean {near}?" if (near := name_hint(name, known)) else ""
            raise TypeError(f"compare has no setting {name!r}{hint}")
    if isinstance(env, str):
        return Settings(env, **given)
    spec = getattr(env, "spec", None)
    if spec is None:
        raise ValueError(f"env must be an id, a Python file or an environment made by gymnasium.make, got {env!r}")
    return Settings(spec.id, **{"env_settings": dict(spec.kwargs), **given})


class _Comparing:
    """A comparison in progress."""

    def __init__(
        self, settings: Settings, folder: Path, minutes: float | None, engine: str | None, overwrite: bool,
        say: Callable[[str], Any],
    ):  # fmt: skip
        if minutes is None:
            minutes = MINUTES if settings.seeds is None else math.inf
        self.minutes, self.deadline = minutes, time.monotonic() + 60.0 * minutes
        self.say, self.engine, self.folder = say, engine, folder / "runs"
        self.problem: RunnableProblem = problem_of(settings.problem())
        self.arms = make_arms(settings, self.problem.features)
        self.random = Candidate(settings.bootstraps[0], RANDOM)
        _check_learners(self.problem, self.arms, settings)
        self.facts = facts_of(settings)
        self.looks = LOOKS if settings.seeds is None else (settings.seeds,)
        if overwrite:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.settings = self._with_episodes(settings)
        self.places = {arm: set(settings.ladder[1]) for arm in self.arms} | {self.random: {settings.ladder[1][0]}}
        self.seeds, self.pace = 0, 0.0  # finished; seconds of one

    # ---- before it begins

    def _seconds(self, settings: Settings) -> float:
        """Estimated time of the first interim analysis, without compilation."""
        each = COMPILED if self.problem.dynamics is not None else LEARNING + self.facts.seconds
        work = sum(4.0 if arm.kind == PLANS else 1.0 for arm in self.arms) * len(settings.step_sizes)
        steps = self.looks[0] * (settings.episodes or EPISODES) * self.facts.length
        return work * steps * each / (os.cpu_count() or 1)

    def _with_episodes(self, settings: Settings) -> Settings:
        """Without a given number of episodes: that of the folder's runs, or as many as fit into the time."""
        kept = self.folder.parent / "compare.json"
        if settings.episodes is None:
            needed, episodes = self._seconds(settings), EPISODES
            share = 0.7 * 60.0 * self.minutes / needed if needed else math.inf
            if self.folder.exists() and kept.exists():
                episodes = int(json.loads(kept.read_text("utf-8"))["episodes"])
            elif share < 1.0:
                fit = max(int(EPISODES * share), FEWEST)
                unit = 10 ** int(math.log10(fit))
                episodes = max(step * unit for step in (1, 2, 5) if step * unit <= fit)
                self.say(
                    f"{EPISODES:,} episodes a run would take about {duration_text(needed)}: runs have {episodes} "
                    f"episodes, to fit into {self.minutes:g} minutes (--episodes and --minutes change that)"
                )
            settings = replace(settings, episodes=episodes)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        plain = {name: repr(value) if hasattr(value, "points") else value for name, value in asdict(settings).items()}
        write_atomically(kept, json.dumps(plain, indent=1, ensure_ascii=False).encode())
        return settings

    def _announce(self) -> None:
        """Print the plan, and an estimate of the time if it is long."""
        settings, first, needed = self.settings, seeds_text(self.looks[0]), self._seconds(self.settings)
        most = "" if len(self.looks) == 1 else f" (then up to {self.looks[-1]})"
        self.say(
            f"{len(self.arms)} learners, {len(settings.step_sizes)} step sizes, {first}{most}, {settings.episodes:,} "
            f"episodes a run; runs: {self.problem.how}"
        )
        if needed > LONG:
            more = f", more than --minutes {self.minutes:g} allows" if needed > 60 * self.minutes else ""
            self.say(f"{first} take about {duration_text(needed)}{more}; Ctrl-C keeps what is finished")

    # ---- running

    def result(self) -> Comparison:
        """Add seeds and judge until the answer is clear or the time is used."""
        if "processes" in self._by_engine():
            start_workers()  # before the first line on the screen, because Ctrl-C is ignored meanwhile
        self._announce()
        self._compile()
        found = None
        for target in self.looks:
            whole = self._advance(target)
            found = self._judged()
            if not whole or found.family.clear:
                break
        assert found is not None
        return found

    def _compile(self) -> None:
        """Compile the arms that differ in more than numbers, in several processes: Numba compiles one at a time."""
        compiled = self._by_engine().get("threads", []) if COMPILES else []
        arms = list({arm.bootstrap if arm.kind in (FIXED, RANDOM) else arm: arm for arm in reversed(compiled)}.values())
        processes = min(os.cpu_count() or 1, COMPILING, len(arms))
        with ExitStack() as stack:
            for k in reversed(range(processes)):  # each begins elsewhere in the list, and loads programs of the others
                first = k * len(arms) // processes
                each = [arm.settings() for arm in arms[first:] + arms[:first]]
                if k:
                    stack.enter_context(elsewhere(compile_arms, each, self.settings.shared, wait=False))
                else:
                    compile_arms(each, self.settings.shared)

    def _advance(self, target: int) -> bool:
        """Add seeds up to a number; False if the time did not suffice."""
        while self.seeds < target:
            fit = self._fitting()
            if fit < 1:
                whole = duration_text(max(LEAST - self.seeds, 0) * self.pace)
                more = f"; a verdict needs {LEAST}, about {whole} more" if self.seeds < LEAST else ""
                self.say(f"{self.minutes:g} minutes are used after {seeds_text(self.seeds)}{more}")
                return False
            piece = 1 if self.seeds < 2 else max(int(PIECE / self.pace), 1)
            until = min(self.seeds + min(piece, fit), target)
            begun = time.monotonic()
            self._run(range(self.seeds, until))
            self.pace, self.seeds = (time.monotonic() - begun) / (until - self.seeds), until
        return True

    def _fitting(self) -> int:
        """Seeds that fit into the time that is left; the first always does."""
        if not self.seeds or self.deadline == math.inf:
            return 10**6
        return int((self.deadline - time.monotonic()) / max(self.pace, 1e-3))

    def _run(self, seeds: range) -> Any:
        """The table of runs with these seeds; missing ones are run."""
        import polars as pl

        by_engine = self._by_engine()
        if "processes" in by_engine:
            start_workers()  # they end when they have had no work for minutes
        tables = [self._sweep(arms, seeds, engine) for engine, arms in by_engine.items()]
        return pl.concat(tables, how="diagonal_relaxed")

    def _by_engine(self) -> dict[str, list[Candidate]]:
        """The arms by the engine that runs them."""
        found: dict[str, list[Candidate]] = {}
        for arm in self.places:
            compiled = self.problem.compiles(arm) and self.settings.step_size_schedule is None
            found.setdefault(self.engine or ("threads" if compiled else "processes"), []).append(arm)
        return found

    def _sweep(self, arms: Sequence[Candidate], seeds: range, engine: str) -> Any:
        ladder = self.settings.ladder[0]
        try:
            return sweep(
                play,
                {arm.name: arm.settings() for arm in arms},
                {arm.name: [ladder[place] for place in sorted(self.places[arm])] for arm in arms},
                seeds,
                out=self.folder,
                engine=engine,
                quiet=not sys.stderr.isatty(),
                **self.settings.shared,
            )
        except ValueError as problem:
            if not str(problem).startswith("out must be a folder whose runs"):
                raise
            raise ValueError(f"{problem} --overwrite removes its runs.") from None

    # ---- judging

    def _judged(self) -> Comparison:
        """Every arm with the seeds so far; grids whose best step size is at the edge grow while there is time."""
        ladder = self.settings.ladder[0]
        while True:
            table = self._run(range(self.seeds))
            outcomes = [Outcome.of(arm, table) for arm in self.arms]
            wider = {one.arm: more for one in outcomes if (more := self._beyond(one))}
            share = sum(map(len, wider.values())) / sum(map(len, self.places.values()))
            if not wider or self._fitting() < max(share * self.seeds, 1):
                break
            sizes = ", ".join(f"{ladder[place]:.3g}" for place in sorted(set().union(*wider.values())))
            self.say(f"the best step size of {len(wider)} learners is at the edge of the grid: trying {sizes}")
            for arm, places in wider.items():
                self.places[arm] |= places
        random, settings = Outcome.of(self.random, table), replace(self.settings, seeds=self.seeds)
        return Comparison(settings, merged(outcomes), random, len(self.looks), self.facts, self.problem.how, table)

    def _beyond(self, one: Outcome) -> set[int]:
        """Step sizes beyond the edges of an arm's grid that are preferred."""
        places, (low, high) = self.places[one.arm], one.at_edge
        more = ({min(places) - 1} if low else set()) | ({max(places) + 1} if high else set())
        return more & set(range(len(self.settings.ladder[0]))) - places


def start_workers() -> None:
    """Start the sweep's processes, unless they run, and let them ignore Ctrl-C: the main process ends them."""
    import joblib

    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # processes begun now inherit it
    except ValueError:  # not the main thread
        return
    try:
        joblib.Parallel(n_jobs=-1, backend="loky")(joblib.delayed(abs)(k) for k in range(2 * (os.cpu_count() or 1)))
    finally:
        signal.signal(signal.SIGINT, before)


def _check_learners(problem: RunnableProblem, arms: Sequence[Candidate], settings: Settings) -> None:
    """Make every learner that is not compiled once: wrong settings fail here, before anything runs."""
    for arm in arms:
        if not problem.compiles(arm):
            source, options = arm.made
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options = {"lambda_source": source, "discount": settings.discount, **options}
                make_learner(problem.settings, arm.bootstrap, settings.step_sizes[0], 0, options)[0].close()
