"""Stored runs as arrays: what figures, tables, claims and the report are made from.

A `Study` is one experiment of a run directory: its description (from the manifest) and, per arm, the scores of all
runs as float64[step sizes, seeds, checkpoints]. Everything here is a pure function of what is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.experiments import CATALOGUE
from chunked_td.lab.statistics import Interval, mean_sd, select_step_size
from chunked_td.lab.store import SCHEMA, Store

if TYPE_CHECKING:
    import polars as pl

RESAMPLES = 2_000


@dataclass(frozen=True)
class Arm:
    """An arm as the manifest describes it, and its runs; `runs` is None where none are stored."""

    id: str
    label: str
    kind: str
    lambda_source: str
    in_paper: bool
    note: str
    runs: Runs | None

    @property
    def fixed_lambda(self) -> float | None:
        """λ of an arm with a constant one."""
        try:
            return float(self.lambda_source)
        except ValueError:
            return None


@dataclass(frozen=True)
class Runs:
    """Runs of one arm.

    Attributes:
      exponents: int64[E], largest first; seeds: int64[S]; episodes: int64[K], the checkpoints.
      step_sizes: float64[E].
      columns: name -> float64[E, S, K], NaN where a run or checkpoint is missing.
    """

    exponents: np.ndarray
    step_sizes: np.ndarray
    seeds: np.ndarray
    episodes: np.ndarray
    columns: Mapping[str, np.ndarray]

    @property
    def length(self) -> int:
        """The last checkpoint."""
        return int(self.episodes[-1])

    def has(self, episode: int) -> bool:
        """Whether there is a checkpoint at this episode."""
        return bool(np.any(self.episodes == episode))

    def at(self, episode: int | None = None, column: str = "score") -> np.ndarray:
        """float64[E, S] at a checkpoint; None is the last."""
        index = len(self.episodes) - 1 if episode is None else int(np.searchsorted(self.episodes, episode))
        if episode is not None and not self.has(episode):
            raise ValueError(f"episode {episode}: there are checkpoints at {self.episodes.tolist()}")
        return self.columns[column][:, :, index]

    def of(self, exponent: int, column: str = "score") -> np.ndarray:
        """float64[S, K]: the curves of one step size."""
        return self.columns[column][int(np.flatnonzero(self.exponents == exponent)[0])]

    def only(self, seeds: Iterable[int]) -> Runs:
        """The runs of these seeds."""
        keep = np.isin(self.seeds, list(seeds))
        columns = {name: values[:, keep] for name, values in self.columns.items()}
        return replace(self, seeds=self.seeds[keep], columns=columns)

    def step_size(self, exponent: int) -> float:
        """The step size of an exponent."""
        return float(self.step_sizes[int(np.flatnonzero(self.exponents == exponent)[0])])


@dataclass(frozen=True)
class Study:
    """One experiment of a run directory."""

    id: str
    description: Mapping[str, Any]
    arms: tuple[Arm, ...]

    @cached_property
    def length(self) -> int:
        """Episodes of the longest runs; 0 if there are none."""
        return max((arm.runs.length for arm in self.arms if arm.runs is not None), default=0)

    @property
    def shortened(self) -> bool:
        """Whether even the longest runs are shorter than the protocol says."""
        return self.length < self.description["episodes"]

    @property
    def best(self) -> float | None:
        """The best possible score of runs this long, where known."""
        return None if self.shortened else self.description["best"]

    @cached_property
    def present(self) -> tuple[Arm, ...]:
        """Arms with runs of full length."""
        return tuple(arm for arm in self.arms if arm.runs is not None and arm.runs.length == self.length)

    @cached_property
    def reduced(self) -> tuple[Arm, ...]:
        """Arms whose runs are shorter than those of the others: not to be compared at the end."""
        return tuple(arm for arm in self.arms if arm.runs is not None and arm.runs.length < self.length)

    @cached_property
    def absent(self) -> tuple[Arm, ...]:
        """Arms of the protocol without runs."""
        return tuple(arm for arm in self.arms if arm.runs is None)

    @cached_property
    def seeds(self) -> int:
        """Seeds of the arm that has most."""
        return max((len(arm.runs.seeds) for arm in self.arms if arm.runs is not None), default=0)

    @cached_property
    def selected(self) -> dict[str, int]:
        """{arm id: exponent}: as the experiment selects, or by least mean score where it does not select."""
        return {arm.id: choose(self, arm) for arm in self.arms if arm.runs is not None}

    @cached_property
    def early(self) -> tuple[int, ...]:
        """Checkpoints at which arms of reduced size can be compared with all others: the last common one of each."""
        found = set()
        for arm in self.reduced:
            runs = [other.runs for other in (arm, *self.present) if other.runs is not None]
            common = set.intersection(*(set(part.episodes.tolist()) for part in runs))
            found |= {max(common)} if common else set()
        return tuple(sorted(found))

    def find(self, arm_id: str) -> Arm | None:
        """The arm with this id if its runs have full length."""
        return next((arm for arm in self.present if arm.id == arm_id), None)

    def runs(self, arm_id: str) -> Runs | None:
        """Runs of full length of an arm."""
        arm = self.find(arm_id)
        return None if arm is None else arm.runs

    def published(self, arm_id: str, quantity: str) -> Mapping[str, Any] | None:
        """The paper's number, if there is one: {"value", "spread", "source", …}."""
        numbers = self.description.get("published", ())
        return next((p for p in numbers if p["arm"] == arm_id and p["quantity"] == quantity), None)

    def with_seeds(self, count: int) -> Study:
        """The same with the first `count` seeds only."""
        return replace(self, arms=tuple(_with_seeds(arm, count) for arm in self.arms))

    def with_arms(self, arms: Iterable[Arm]) -> Study:
        """The same with these arms only."""
        return replace(self, arms=tuple(arms))

    def until(self, episode: int) -> Study:
        """The beginning of every run, up to a checkpoint; arms without that checkpoint are left out."""
        kept = []
        for arm in self.arms:
            if arm.runs is not None and arm.runs.has(episode):
                inside = arm.runs.episodes <= episode
                columns = {name: values[:, :, inside] for name, values in arm.runs.columns.items()}
                kept.append(replace(arm, runs=replace(arm.runs, episodes=arm.runs.episodes[inside], columns=columns)))
        return self.with_arms(kept)


def _with_seeds(arm: Arm, count: int) -> Arm:
    return arm if arm.runs is None else replace(arm, runs=arm.runs.only(range(count)))


def loss_of(study: Study, arm: Arm) -> np.ndarray:
    """What selection minimises the mean of: float64[E, S] of an arm's runs."""
    assert arm.runs is not None
    selection = study.description.get("selection")
    if selection is None:
        return arm.runs.at()
    at = selection["exceptions"].get(arm.id, selection["at"])
    scores = arm.runs.at(at if at is not None and arm.runs.has(at) else None)
    return scores if selection["rule"] == "least mean" else (scores - selection["truth"]) ** 2


def choose(study: Study, arm: Arm) -> int:
    """The selected exponent of an arm."""
    assert arm.runs is not None
    return int(arm.runs.exponents[int(select_step_size(loss_of(study, arm), rule="least mean"))])


def load_studies(store: Store) -> dict[str, Study]:
    """Every experiment of a store that has runs, the catalogue's first and in its order."""
    known = list(CATALOGUE)
    ids = sorted(store.directory.protocol_ids, key=lambda name: known.index(name) if name in known else len(known))
    studies = {name: load_study(store, name) for name in ids}
    return {name: study for name, study in studies.items() if study.length}


def load_study(store: Store, protocol_id: str) -> Study:
    """One experiment of a store."""
    description = store.directory.request(protocol_id)["description"]
    table = store.table(protocol_id)
    return study_of(table, description)


def study_of(table: pl.DataFrame, description: Mapping[str, Any]) -> Study:
    """A study from a table as `Store.table` returns it and a description as `protocols.describe` gives."""
    by_arm = {str(key[0]): rows for key, rows in table.partition_by("arm", as_dict=True).items()}
    arms = tuple(
        Arm(
            id=arm["id"],
            label=arm["label"],
            kind=arm["kind"],
            lambda_source=arm["lambda_source"],
            in_paper=arm["in_paper"],
            note=arm["note"],
            runs=runs_of(by_arm[arm["id"]]) if arm["id"] in by_arm else None,
        )
        for arm in description["arms"]
    )
    return Study(description["id"], description, arms)


def runs_of(rows: pl.DataFrame) -> Runs:
    """The rows of one arm as arrays."""
    exponent, seed, episode = (rows[name].to_numpy() for name in ("exponent", "seed", "episode"))
    rising, e = np.unique(exponent, return_inverse=True)
    seeds, s = np.unique(seed, return_inverse=True)
    episodes, k = np.unique(episode, return_inverse=True)
    e = len(rising) - 1 - e
    step_sizes = np.empty(len(rising))
    step_sizes[e] = rows["step_size"].to_numpy()
    columns = {}
    for name in rows.columns:
        if name == "score" or name not in SCHEMA:
            values = np.full((len(rising), len(seeds), len(episodes)), np.nan)
            values[e, s, k] = rows[name].cast(float).fill_null(float("nan")).to_numpy()
            if not np.isnan(values).all():
                columns[name] = values
    return Runs(rising[::-1], step_sizes, seeds, episodes, columns)


def mean_and_interval(values: np.ndarray, level: float = 0.95, resamples: int = RESAMPLES) -> tuple[Any, Interval]:
    """Mean over seeds and its percentile bootstrap interval, for many columns at once.

    Args:
      values: float64[S, ...], seeds first. Seeds are resampled whole, so the columns of a curve stay together.
        Columns may lack different runs (NaN).
    Returns:
      mean and interval, each float64[...]; NaN where there are no runs. One run gives an interval of no width.
    """
    values = np.asarray(values, dtype=np.float64)
    flat = values.reshape(len(values), -1)
    there = ~np.isnan(flat)
    weights = np.random.default_rng(0).multinomial(len(flat), np.full(len(flat), 1 / len(flat)), size=resamples)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weights @ np.where(there, flat, 0.0)) / (weights @ there)
    low, high = np.full(flat.shape[1], np.nan), np.full(flat.shape[1], np.nan)
    some = there.any(axis=0)
    tail = (1 - level) / 2
    if some.any():
        low[some], high[some] = np.nanquantile(means[:, some], [tail, 1 - tail], axis=0)
    shape = values.shape[1:]
    return mean_sd(np.moveaxis(values, 0, -1))[0], Interval(low.reshape(shape), high.reshape(shape))


@dataclass(frozen=True)
class Replay:
    """What the paper's procedure would give again and again: draw seeds, select a step size, report the mean.

    Attributes:
      shares: float64[E], how often each step size is selected. reported: float64[draws], mean scores at it.
    """

    shares: np.ndarray
    reported: np.ndarray


def replay_selection(study: Study, arm: Arm, size: int = 10, draws: int = RESAMPLES) -> Replay:
    """Select the step size of an arm from `size` seeds drawn with replacement from the stored ones, many times."""
    assert arm.runs is not None
    loss, scores = loss_of(study, arm), arm.runs.at()
    complete = ~np.isnan(loss).any(axis=0)
    loss, scores = loss[:, complete], scores[:, complete]
    count = loss.shape[1]
    weights = np.random.default_rng(0).multinomial(size, np.full(count, 1 / count), size=draws) / size
    picked = np.argmin(weights @ loss.T, axis=1)
    shares = np.bincount(picked, minlength=len(loss)) / draws
    return Replay(shares, np.sum(weights * scores[picked], axis=1))


def evenly(episodes: np.ndarray, until: int) -> np.ndarray:
    """Which checkpoints to draw, bool[K]: those up to `until`, thinned where some lie much closer than others."""
    count = int(np.sum(episodes <= until))
    gaps = np.diff(episodes[:count], prepend=0)
    keep = np.arange(len(episodes)) < count
    if np.max(gaps) > 3 * np.min(gaps[:-1], initial=np.max(gaps)):
        last = 0
        for i in range(count - 1):
            keep[i] = episodes[i] - last >= np.max(gaps)
            last = episodes[i] if keep[i] else last
    return keep


def step_size_text(exponent: int, base: float = 0.1) -> str:
    """A step size as the paper writes it: "0.1 × 2⁻⁵"."""
    superscript = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{base:g} × 2{superscript}"


def labels(arms: Sequence[Arm]) -> str:
    """Arms in words: "A, B and C"."""
    names = [arm.label for arm in arms]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else ""
