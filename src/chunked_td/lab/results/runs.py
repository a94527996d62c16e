"""Stored runs as arrays: what figures, tables, claims and the report are made from; and selection of step sizes.

A `Results` is one protocol of a run directory: its description (from the manifest) and, per arm, the scores of all runs
as float64[step sizes, seeds, checkpoints]. Everything here is a pure function of what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from chunked_td.lab.catalogue import catalogue
from chunked_td.lab.store.batch_store import SCHEMA, Store
from chunked_td.lab.store.manifest import ArmDescription, Description
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.study import Protocol, Published, Selection
from chunked_td.statistics import RESAMPLES, bootstrap_weights, mean_sd

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class ArmResults(ArmDescription):
    """An arm with its runs; `runs` is None where none are stored."""

    runs: RunArrays | None = None

    def require_runs(self) -> RunArrays:
        """Its runs, of an arm that has some."""
        if self.runs is None:
            raise ValueError(f"arm {self.id!r} must have runs, got none")
        return self.runs


@dataclass(frozen=True)
class RunArrays:
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

    def only(self, seeds: Iterable[int]) -> RunArrays:
        """The runs of these seeds."""
        keep = np.isin(self.seeds, list(seeds))
        columns = {name: values[:, keep] for name, values in self.columns.items()}
        return replace(self, seeds=self.seeds[keep], columns=columns)


@dataclass(frozen=True)
class Results:
    """What a run directory has of one protocol: its description, and the runs of its arms."""

    about: Description
    arms: tuple[ArmResults, ...]

    @property
    def id(self) -> str:
        """The protocol's id."""
        return self.about.id

    @cached_property
    def length(self) -> int:
        """Episodes of the longest runs; 0 if there are none."""
        return max((arm.runs.length for arm in self.arms if arm.runs is not None), default=0)

    @property
    def shortened(self) -> bool:
        """Whether even the longest runs are shorter than the protocol says."""
        return self.length < self.about.episodes

    @property
    def best(self) -> float | None:
        """The best possible score of runs this long, where known."""
        return None if self.shortened else self.about.best

    @cached_property
    def present(self) -> tuple[ArmResults, ...]:
        """Arms with runs of full length."""
        return tuple(arm for arm in self.arms if arm.runs is not None and arm.runs.length == self.length)

    @cached_property
    def reduced(self) -> tuple[ArmResults, ...]:
        """Arms whose runs are shorter than those of the others: not to be compared at the end."""
        return tuple(arm for arm in self.arms if arm.runs is not None and arm.runs.length < self.length)

    @cached_property
    def absent(self) -> tuple[ArmResults, ...]:
        """Arms of the protocol without runs."""
        return tuple(arm for arm in self.arms if arm.runs is None)

    @cached_property
    def seeds(self) -> int:
        """Seeds of the arm that has most."""
        return max((len(arm.runs.seeds) for arm in self.arms if arm.runs is not None), default=0)

    @cached_property
    def selected(self) -> dict[str, int]:
        """{arm id: exponent}: as the experiment selects, or by least mean score where it does not select."""
        selection = self.about.selection
        return {arm.id: selected_exponent(arm.runs, selection, arm.id) for arm in self.arms if arm.runs is not None}

    @cached_property
    def early(self) -> tuple[int, ...]:
        """Checkpoints at which arms of reduced size can be compared with all others: the last common one of each."""
        found = set()
        for arm in self.reduced:
            runs = [other.runs for other in (arm, *self.present) if other.runs is not None]
            common = set.intersection(*(set(part.episodes.tolist()) for part in runs))
            found |= {max(common)} if common else set()
        return tuple(sorted(found))

    def find(self, arm_id: str) -> ArmResults | None:
        """The arm with this id if its runs have full length."""
        return next((arm for arm in self.present if arm.id == arm_id), None)

    def runs(self, arm_id: str) -> RunArrays | None:
        """Runs of full length of an arm."""
        arm = self.find(arm_id)
        return None if arm is None else arm.runs

    def published(self, arm_id: str, quantity: str) -> Published | None:
        """The paper's number for an arm, if there is one."""
        return next((p for p in self.about.published if p.arm == arm_id and p.quantity == quantity), None)

    def with_seeds(self, count: int) -> Results:
        """The same with the first `count` seeds only."""
        return self.with_arms(
            arm if arm.runs is None else replace(arm, runs=arm.runs.only(range(count))) for arm in self.arms
        )

    def with_arms(self, arms: Iterable[ArmResults]) -> Results:
        """The same with these arms only."""
        return replace(self, arms=tuple(arms))

    def until(self, episode: int) -> Results:
        """The beginning of every run, up to a checkpoint; arms without that checkpoint are left out."""
        kept = []
        for arm in self.arms:
            if arm.runs is not None and arm.runs.has(episode):
                inside = arm.runs.episodes <= episode
                columns = {name: values[:, :, inside] for name, values in arm.runs.columns.items()}
                kept.append(replace(arm, runs=replace(arm.runs, episodes=arm.runs.episodes[inside], columns=columns)))
        return self.with_arms(kept)


def load_results(store: Store) -> dict[str, Results]:
    """Every protocol of a store that has runs, the catalogue's first and in its order."""
    known = list(catalogue())
    ids = sorted(store.directory.protocol_ids, key=lambda name: known.index(name) if name in known else len(known))
    studies = {name: load_protocol(store, name) for name in ids}
    return {name: study for name, study in studies.items() if study.length}


def load_protocol(store: Store, protocol_id: str) -> Results:
    """One protocol of a store."""
    about = store.directory.request(protocol_id).description
    by_arm = {str(key[0]): rows for key, rows in store.table(protocol_id).partition_by("arm", as_dict=True).items()}
    arms = (ArmResults(**vars(arm), runs=runs_of(by_arm[arm.id]) if arm.id in by_arm else None) for arm in about.arms)
    return Results(about, tuple(arms))


def stored_arms(
    store: Store, protocols: Callable[[str], Sequence[Protocol]]
) -> Iterator[tuple[Protocol, str, RunArrays]]:
    """Every stored arm of a study, with its runs: of its tiny size only where nothing of its full size is stored."""
    stored = set(store.directory.protocol_ids)
    whole = [protocol for protocol in protocols("paper") if protocol.id in stored]
    for protocol in whole or [protocol for protocol in protocols("smoke") if protocol.id in stored]:
        for arm in load_protocol(store, protocol.id).arms:
            if arm.runs is not None:
                yield protocol, arm.id, arm.runs


def collector(
    protocols: Callable[[str], Sequence[Protocol]], rows: Callable[[Protocol, str, RunArrays], Any], *order: str
) -> Callable[[Store], pl.DataFrame]:
    """For COLLECT of a study: the rows of every stored arm, a Polars table each, as one table, sorted by `order`."""

    def collect(store: Store) -> pl.DataFrame:
        import polars as pl

        table = pl.concat([rows(*found) for found in stored_arms(store, protocols)])
        return table.sort(*order, maintain_order=True) if order else table

    return collect


def runs_of(rows: pl.DataFrame) -> RunArrays:
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
    return RunArrays(rising[::-1], step_sizes, seeds, episodes, columns)


def per_run(runs: RunArrays, named: Mapping[str, Any], **values: np.ndarray) -> pl.DataFrame:
    """One row per run: what is the same in all, its step size and seed, and its values, given as float64[E, S]."""
    import polars as pl

    steps, seeds = np.repeat(runs.step_sizes, len(runs.seeds)), np.tile(runs.seeds, len(runs.step_sizes))
    columns = {name: np.full(steps.size, value) for name, value in named.items()}
    flat = {name: array.ravel() for name, array in values.items()}
    return pl.DataFrame({**columns, "step_size": steps, "seed": seeds, **flat})


@dataclass(frozen=True)
class RunTable:
    """What claims and pages read of a study with a table, runs.parquet; derive from it. Args: frame: the table."""

    frame: Any

    @classmethod
    def load(cls, folder: Path) -> Self:
        """From a folder with runs.parquet: for LOAD of a study."""
        return cls(load_table(folder / "runs.parquet"))


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


def _scores_at_selection(runs: RunArrays, selection: Selection | None, arm_id: str) -> np.ndarray:
    """float64[E, S]: the scores that selection reads; the last ones where the runs lack its checkpoint."""
    at = None if selection is None else selection.episode(arm_id)
    return runs.at(at if at is not None and runs.has(at) else None)


def selection_loss(runs: RunArrays, selection: Selection | None, arm_id: str) -> np.ndarray:
    """float64[E, S]: what selection minimises the mean of; the score where the experiment does not select."""
    scores = _scores_at_selection(runs, selection, arm_id)
    if selection is None or selection.rule == "least mean":
        return scores
    return (scores - selection.truth) ** 2


def selected_exponent(runs: RunArrays, selection: Selection | None, arm_id: str) -> int:
    """The selected exponent of an arm: by the study's rule, or by least mean score where it has none."""
    return _least(runs, mean_sd(selection_loss(runs, selection, arm_id))[0])


def exponent_by_error_of_mean(runs: RunArrays, selection: Selection, arm_id: str) -> int:
    """The exponent under the other reading of "least squared error" (App. A.1): that of the mean over seeds."""
    return _least(runs, (mean_sd(_scores_at_selection(runs, selection, arm_id))[0] - selection.truth) ** 2)


def _least(runs: RunArrays, loss: np.ndarray) -> int:
    """The exponent with the least loss, float64[E]; the first of several, NaN for step sizes without runs."""
    return int(runs.exponents[int(np.argmin(np.where(np.isnan(loss), np.inf, loss)))])


@dataclass(frozen=True)
class SelectionReplay:
    """What the paper's procedure would give if repeated: draw seeds, select a step size, report the mean.

    Attributes:
      shares: float64[E], how often each step size is selected. reported: float64[draws], mean scores at it.
    """

    shares: np.ndarray
    reported: np.ndarray


def replay_selection(
    runs: RunArrays, selection: Selection | None, arm_id: str, size: int = 10, draws: int = RESAMPLES
) -> SelectionReplay:
    """Select the step size of an arm from `size` seeds drawn with replacement from the stored ones, many times."""
    loss, scores = selection_loss(runs, selection, arm_id), runs.at()
    complete = ~np.isnan(loss).any(axis=0)
    loss, scores = loss[:, complete], scores[:, complete]
    weights = bootstrap_weights(loss.shape[1], draws, size) / size
    picked = np.argmin(weights @ loss.T, axis=1)
    shares = np.bincount(picked, minlength=len(loss)) / draws
    return SelectionReplay(shares, np.sum(weights * scores[picked], axis=1))
