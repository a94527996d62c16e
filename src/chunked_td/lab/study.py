"""What a study is: protocols (environment, arms, step sizes, seeds, scoring), claims, and how results are shown.

A `Protocol` is one comparison: arms on one problem. A `Study` has one or many of them, and claims about their results.
The paper's experiments, our controls and the larger studies are in `chunked_td.lab.studies`. Yours may be a folder or a
Python file with a module-level `PROTOCOL`, run by the same command:

    chunked-td reproduce my_study.py --out runs/mine

Step sizes are exponents j of `step_size_base` × 2^j, as the paper lists them. Seeds are 0, 1, 2, …
Exploration and checkpoints are stated in absolute episodes, so a shorter run is the beginning of a longer one.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td._checks import check_text
from chunked_td.lab.errors import LabError, UsageError
from chunked_td.lab.identity import check_id, identity, is_ours, resolve, source_hash
from chunked_td.learners.schedule import Schedule, check_schedule

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.running.batches import Batch
    from chunked_td.lab.store.batch_store import Store

Scores = dict[str, np.ndarray]
Columns = dict[str, np.ndarray]
"""A batch's numbers: columns of equal length, runs × checkpoints rows."""

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
NOT_SHOWN, NOT_TESTABLE, NOT_RUN = "not shown", "not testable", "not run"
STATUSES = (HOLDS, IN_PART, FAILS, NOT_SHOWN, NOT_TESTABLE, NOT_RUN)
PAPER, OURS = "paper", "ours"
SIMULATE = "chunked_td.simulate:simulate"
"""Stored address of the compiled simulation."""


@dataclass(frozen=True)
class Verdict:
    """What a criterion found.

    Args:
      status: one of `STATUSES`. "not shown": the runs do not decide it. "not testable": no runs of this study could.
      evidence: the numbers.
      detectable: with "not shown", the effect that these runs would have shown, in words: "a difference above 15 %".
    """

    status: str
    evidence: str
    detectable: str = ""

    def __post_init__(self):
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {self.status!r}")

    @property
    def text(self) -> str:
        """The evidence, with the effect that could have been seen."""
        return f"{self.evidence}; {self.detectable} would have been seen" if self.detectable else self.evidence


def status_of(met: Iterable[bool]) -> str:
    """The status of a claim with several parts: all, some or none of them are met."""
    met = list(met)
    return HOLDS if all(met) else IN_PART if any(met) else FAILS


@dataclass(frozen=True)
class Claim:
    """A claim, with the criterion that it is judged by, stated before the data.

    Args:
      id: stable short name.
      source: where the paper says it, or "ours" and why.
      text: the claim.
      criterion: when it holds.
      arms: ids of the arms that must have runs of full length (for studies without a table of their own).
      judge: `judge(results, all_results)` gives the verdict from what `Study.load` gives of this study, and of all.
      short: what the table of verdicts calls it; "" is the text.
      controls: ids of claims that must hold too before this one means what it seems to say. Their verdicts are shown
        beside its own.
      figure: what shows it in the report: id of a plot, "table-" and the name of a table, or a file in the study's
        folder; "" is the first plot.
      origin: "paper" or "ours"; by default what `source` begins with.
    """

    id: str
    source: str
    text: str
    criterion: str
    arms: tuple[str, ...]
    judge: Callable[[Any, Mapping[str, Any]], Verdict]
    short: str = ""
    controls: tuple[str, ...] = ()
    figure: str = ""
    origin: str = ""

    def __post_init__(self):
        if not self.origin:
            object.__setattr__(self, "origin", OURS if self.source.startswith("ours") else PAPER)
        if self.origin not in (PAPER, OURS):
            raise ValueError(f"origin of claim {self.id!r} must be {PAPER!r} or {OURS!r}, got {self.origin!r}")


class BatchRunner:
    """Runs batches that are no runs of the compiled simulation: deep agents, compressors, a user's environment.

    Derive from it and put an instance (a frozen dataclass, whose settings its repr shows) or its address into
    `Protocol.runner`. Import heavy packages inside the methods.

    Attributes:
      kind: what logs and estimates of time call its arms: "network" for those that run on a GPU where there is one.
    """

    kind = "network"

    def packages(self, batch: Batch) -> tuple[str, ...]:
        """Packages beyond the plain install that a batch needs."""
        return ()

    def compiles_as(self, batch: Batch) -> Any:
        """The same for batches that one compiled loop runs; None where nothing is compiled ahead."""
        return None

    def program_key(self, batch: Batch) -> Any:
        """Batches with the same key run together, as one program; by default each alone."""
        return id(batch)

    def programs(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        """Batches grouped into programs."""
        found: dict[Any, list[Batch]] = {}
        for batch in batches:
            found.setdefault(self.program_key(batch), []).append(batch)
        return list(found.values())

    def run(self, program: Sequence[Batch], threads: int | None, report: Callable[[str], None]) -> list[Columns]:
        """The columns of every batch of a program: `batch.columns(scores)` makes them. `report` takes progress."""
        raise NotImplementedError


@dataclass(frozen=True)
class Environment:
    """Dynamics to simulate: a class with `make(**arguments)`, or its address "package.module:Name".

    An address is resolved when a batch runs. That keeps planning fast.
    """

    dynamics: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> Any:
        """Construct the dynamics."""
        return resolve(self.dynamics).make(**self.arguments)


@dataclass(frozen=True)
class NetworkSpec:
    """A network that arms use as their model.

    Args:
      name: stable short name, part of stored settings.
      config: `config(dynamics)` gives the `NetworkConfig` for an environment. Import JAX inside it, not before.
      noisy_steps: `noisy_steps(dynamics, envs, runs)` gives bool[runs, T], the steps whose outcome is random, for
        diagnostics of λ; None counts every step as predictable.
    """

    name: str
    config: Callable[[Any], Any]
    noisy_steps: Callable[[Any, Any, int], np.ndarray] | None = None

    @property
    def stored_name(self) -> str:
        """How stored settings name it; the source of a user's `config` counts."""
        return f"network:{self.name}{'' if is_ours(self.config) else source_hash(self.config)}"


@dataclass(frozen=True)
class Arm:
    """One method that a study compares.

    Args:
      id: stable short name, used in file names and on the command line.
      label: what figures and tables show.
      learner: "sarsa", "expected_sarsa", "q_learning" or "td".
      lambda_source: a number (constant λ), the name of a class in `chunked_td.lambdas`, or an instance of one.
      model: what the λ source asks: None, "counts", "oracle", counts with an error (`chunked_td.models.errors`), or a
        `NetworkSpec`.
      exponents: step sizes of this arm, if not the protocol's.
      in_paper: False for arms we added.
      episodes: length of this arm's runs, if shorter than the protocol's.
      note: one sentence for the report.
      quick: whether the `quick` profile has it, for arms with a network.
      options: further arguments of the protocol's runner, e.g. {"view": "traces"}.
      group: heading under which tables list it; in a comparison, its λ source as commands name it.
    """

    id: str
    label: str
    learner: str
    lambda_source: Any
    model: Any = None
    exponents: tuple[int, ...] | None = None
    in_paper: bool = True
    episodes: int | None = None
    note: str = ""
    quick: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""

    def __post_init__(self):
        for name in ("label", "note", "group"):
            check_text(f"{name} of arm {self.id!r}", getattr(self, name))

    @property
    def kind(self) -> str:
        """Where λ comes from: "fixed", "counts", "oracle" or "network"."""
        if isinstance(self.model, NetworkSpec):
            return "network"
        if self.model is None:
            return "fixed"
        return self.model if isinstance(self.model, str) else "counts"

    @property
    def compiles_as(self) -> tuple[str, ...]:
        """Arms with the same value share compiled code."""
        fixed = isinstance(self.lambda_source, int | float)
        named = self.lambda_source if isinstance(self.lambda_source, str) else type(self.lambda_source).__name__
        options = (type(option).__name__ for option in self.options.values())
        return (self.learner, "fixed" if fixed else named, self.kind, *options)

    @property
    def stored_model(self) -> str | None:
        """How stored settings name its model."""
        if isinstance(self.model, NetworkSpec):
            return self.model.stored_name
        return self.model if self.model is None or isinstance(self.model, str) else identity(self.model)

    def source(self) -> Any:
        """Its λ source: a number, or an object of `chunked_td.lambdas`."""
        named = isinstance(self.lambda_source, str)
        return resolve(f"chunked_td.lambdas:{self.lambda_source}")() if named else self.lambda_source


@dataclass(frozen=True)
class Selection:
    """How the step size of an arm is chosen from the sweep.

    Args:
      rule: "least mean" of the score over seeds, or "least squared error" of the score against `truth`,
        averaged over seeds.
      at: episode at which the score is read; None is the last one.
      truth: what the score should be, for "least squared error".
      exceptions: {arm id: episode} for arms that are selected at another episode.
    """

    rule: str
    at: int | None = None
    truth: float | None = None
    exceptions: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self):
        if self.rule not in ("least mean", "least squared error"):
            raise ValueError(f"rule of selection must be 'least mean' or 'least squared error', got {self.rule!r}")
        if self.rule == "least squared error" and self.truth is None:
            raise ValueError("truth of selection must be what the score should be with 'least squared error', got None")

    def episode(self, arm_id: str) -> int | None:
        """Episode at which this arm is selected; None is the last one."""
        return self.exceptions.get(arm_id, self.at)


@dataclass(frozen=True)
class Published:
    """A number from the paper: `quantity` is "score" or "exponent" (the selected j), `source` where it stands."""

    arm: str
    quantity: str
    value: float
    source: str
    spread: float | None = None


@dataclass(frozen=True)
class Size:
    """A reduced size: this many seeds and episodes; `exponents` None keeps the step sizes."""

    seeds: int
    episodes: int
    exponents: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Protocol:
    """One comparison: arms on one problem.

    Args:
      id: stable short name.
      title: heading in the report.
      environment: what is simulated.
      arms: the competitors, in the order figures show them.
      exponents: the step sizes, as exponents j.
      episodes: length of a run.
      scoring: function `(runs, record_at) -> {column: float64[R, K]}` (or its address "module:function") from what
        the simulation returns and the K checkpoints to columns of the table; it must give "score".
      score_label: what the score is, for axes and headings.
      smoke: the size that tests run.
      record: checkpoints as `(until, every)` pieces: ((1_000, 100), (10_000, 500)) is 100, 200, … 1,000, 1,500, …
      exploration: ε, a number or a `Schedule` over episodes.
      probes: (state id, action) pairs whose value is recorded at every checkpoint.
      selection: how a step size is chosen; None where all are shown.
      seeds: how many.
      network_quick: size of the network arms in the `quick` profile.
      quick: size of the other arms in it; None is the full one.
      steps_per_episode: for the estimate of running time.
      best: best possible expected score, where known.
      best_label: what that number is.
      published: the paper's numbers.
      deviations: what differs from the paper, and why.
      references: which figures and tables of the paper this reproduces.
      description: a paragraph for the report.
      runner: what runs a batch of arms without networks, called like `chunked_td.simulation.simulate`; put your own
        here (or its address) for runs that the compiled simulation does not cover; or a `BatchRunner`.
      seeds_per_batch: how many seeds one batch, and so one file, holds.
      step_sizes: where they are no multiples of powers of two: exponent −k stands for step_sizes[k].
      unit: what `episodes`, `record` and checkpoints count: "episodes", or "steps" of an agent.
    """

    id: str
    title: str
    environment: Environment
    arms: tuple[Arm, ...]
    exponents: tuple[int, ...]
    episodes: int
    scoring: Callable[[Any, np.ndarray], Scores] | str
    score_label: str
    smoke: Size
    record: tuple[tuple[int, int], ...]
    exploration: float | Schedule = 0.1
    discount: float = 1.0
    probes: tuple[tuple[int, int], ...] = ()
    selection: Selection | None = None
    seeds: int = 10
    step_size_base: float = 0.1
    network_quick: Size | None = None
    quick: Size | None = None
    steps_per_episode: float = 100.0
    best: float | None = None
    best_label: str = ""
    published: tuple[Published, ...] = ()
    deviations: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    description: str = ""
    runner: Callable[..., Any] | BatchRunner | str = SIMULATE
    seeds_per_batch: int = 10
    step_sizes: tuple[float, ...] = ()
    unit: str = "episodes"

    def __post_init__(self):
        names = [arm.id for arm in self.arms]
        if len(set(names)) != len(names):
            raise UsageError(f"protocol {self.id!r}: arm ids must differ, got {names}")
        try:
            check_id("id of a protocol", self.id)
            for name in ("title", "description", "score_label", "best_label"):
                check_text(f"{name} of protocol {self.id!r}", getattr(self, name))
            for name in names:
                check_id(f"id of an arm of protocol {self.id!r}", name)
            check_schedule("exploration", self.exploration, positive=False)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if self.seeds < 1 or self.episodes < 1:
            got = f"must be whole numbers from 1, got {self.seeds!r} and {self.episodes!r}"
            raise UsageError(f"seeds and episodes of protocol {self.id!r} {got}")

    @property
    def schedule(self) -> Schedule:
        """ε over episodes."""
        return self.exploration if isinstance(self.exploration, Schedule) else Schedule(((0, self.exploration),))

    def epsilons(self, episodes: int) -> np.ndarray:
        """ε of each of the first `episodes` episodes, float64[episodes]."""
        return self.schedule.over(np.arange(episodes))

    def arm(self, arm_id: str) -> Arm:
        """The arm with this id."""
        arms = {arm.id: arm for arm in self.arms}
        if arm_id not in arms:
            raise UsageError(f"protocol {self.id!r} has no arm {arm_id!r}; it has {list(arms)}")
        return arms[arm_id]

    def exponents_of(self, arm: Arm) -> tuple[int, ...]:
        """Step-size exponents of `arm`."""
        return self.exponents if arm.exponents is None else arm.exponents

    def step_size(self, exponent: int) -> float:
        """The step size with this exponent."""
        return self.step_sizes[-exponent] if self.step_sizes else self.step_size_base * 2.0**exponent

    @property
    def batch_runner(self) -> BatchRunner | None:
        """Its runner, where that is a `BatchRunner`."""
        if self.runner == SIMULATE:
            return None  # which to import takes time
        runner = resolve(self.runner)
        runner = runner() if isinstance(runner, type) else runner
        return runner if isinstance(runner, BatchRunner) else None

    def kind_of(self, arm: Arm) -> str:
        """What logs and estimates of time call an arm."""
        return self.batch_runner.kind if self.batch_runner else arm.kind

    def record_at(self, episodes: int) -> tuple[int, ...]:
        """Checkpoints of a run of `episodes` episodes; the last is `episodes`."""
        points: set[int] = {episodes}
        start = 0
        for until, every in self.record:
            points.update(range(start + every, until + 1, every))
            start = until
        return tuple(sorted(point for point in points if point <= episodes))


def misses_and_returns(runs: Any, record_at: np.ndarray) -> Scores:
    """Scoring for control: regretful episodes so far ("score"), and the mean return since the last checkpoint."""
    lengths = np.diff(np.asarray(record_at), prepend=0)
    return {"score": np.asarray(runs.misses_at, dtype=np.float64), "mean_return": np.asarray(runs.returns_at) / lengths}


def constant_arms(learner: str, label: str, values: Sequence[float], prefix: str) -> tuple[Arm, ...]:
    """Fixed-λ arms named "{prefix}-{λ}", labelled "{label}(λ)"."""
    return tuple(Arm(f"{prefix}-{value:g}", f"{label}({value:g})", learner, float(value)) for value in values)


@dataclass(frozen=True)
class Study:
    """One or many protocols, claims about their results, and how they are shown: a folder (`chunked_td.lab.catalogue`).

    Args:
      id: stable short name.
      title: heading in the report.
      protocols: the protocols that a profile ("quick", "paper", "smoke") runs.
      module: name of the loaded module or package that it comes from; "" if there is none.
      order: place in lists and reports.
      table: file of the table that `collect` makes of all runs. Such a study has a folder of its own in the run
        directory, named by its id, with that table, its pages and figures. "" for a study of one protocol, whose runs
        are read as they are stored.
      page: file of its page in that folder, which PAGE in report.py writes; "" if it has none.
      by_default: whether `chunked-td reproduce` runs it where no study is named.
    """

    id: str
    title: str
    protocols: Callable[[str], Sequence[Protocol]]
    module: str = ""
    order: float = float("inf")
    table: str = ""
    page: str = ""
    by_default: bool = True

    @classmethod
    def of(cls, protocol: Protocol, module: str = "", order: float = float("inf")) -> Study:
        """The study of one protocol."""
        return cls(protocol.id, protocol.title, lambda profile: (protocol,), module, order)

    @cached_property
    def protocol(self) -> Protocol:
        """The protocol of a study that has one."""
        (only,) = self.protocols("paper")
        return only

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Its claims."""
        return tuple(self.part("claims", "CLAIMS") or ())

    def collect(self, store: Store) -> pl.DataFrame:
        """The table of all stored runs: COLLECT in results.py."""
        return self._needed("results", "COLLECT")(store)

    def load(self, folder: Path) -> Any:
        """What claims and pages read of a folder with its table: LOAD in results.py. LabError where that cannot be."""
        load = self._needed("results", "LOAD")
        try:
            return load(folder)
        except LabError:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            raise LabError(f"{folder / self.table}: not a table of {self.id} ({what})") from error

    def part(self, file: str, name: str) -> Any:
        """A name of the module, or of a file of the package: of `file`, or of claims.py; None if there is none."""
        module = sys.modules.get(self.module)
        if module is None or hasattr(module, name) or not hasattr(module, "__path__"):
            return getattr(module, name, None)
        files = [f"{self.module}.{each}" for each in (file, "claims")]
        found = (importlib.import_module(each) for each in files if importlib.util.find_spec(each) is not None)
        return next((getattr(each, name) for each in found if hasattr(each, name)), None)

    def _needed(self, file: str, name: str) -> Any:
        found = self.part(file, name)
        if found is None:
            raise UsageError(f"study {self.id!r} has a table, so its {file}.py must define {name}")
        return found
