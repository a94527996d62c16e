"""The table of a study as arrays, and the selection of step sizes.

Scores of an arm are float64[step sizes, seeds, checkpoints], step sizes from the largest to the smallest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from chunked_td.statistics import RESAMPLES, bootstrap_weights, mean_sd

INDEX = ("arm", "step_size", "seed", "episode")


class NotRun(ValueError):
    """Runs that a claim or a table requires are missing."""


class Published(NamedTuple):
    """The paper's numbers for an arm: its selected step size, and mean and standard deviation of its score."""

    step_size: float
    mean: float | None = None
    sd: float | None = None


@dataclass(frozen=True)
class ArmRuns:
    """Runs of one arm.

    Attributes:
      step_sizes: float64[E], largest first; seeds: int64[S]; episodes: int64[K], the checkpoints.
      columns: name -> float64[E, S, K], NaN where a run or checkpoint is missing.
    """

    step_sizes: np.ndarray
    seeds: np.ndarray
    episodes: np.ndarray
    columns: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, rows: pl.DataFrame) -> ArmRuns:
        """The rows of one arm as arrays."""
        rising, e = np.unique(rows["step_size"].to_numpy(), return_inverse=True)
        seeds, s = np.unique(rows["seed"].to_numpy(), return_inverse=True)
        episodes, k = np.unique(rows["episode"].to_numpy(), return_inverse=True)
        columns = {}
        for name, kind in rows.schema.items():
            if name not in INDEX and kind.is_numeric():
                values = np.full((len(rising), len(seeds), len(episodes)), np.nan)
                values[len(rising) - 1 - e, s, k] = rows[name].cast(float).fill_null(float("nan")).to_numpy()
                if not np.isnan(values).all():
                    columns[name] = values
        return cls(rising[::-1], seeds, episodes, columns)

    @property
    def length(self) -> int:
        """The last checkpoint."""
        return int(self.episodes[-1])

    def at(self, episode: int | None = None, column: str = "score") -> np.ndarray:
        """float64[E, S] at a checkpoint; None is the last."""
        if episode is not None and episode not in self.episodes:
            raise NotRun(f"episode must be a checkpoint, one of {self.episodes.tolist()}, got {episode}")
        index = -1 if episode is None else int(np.searchsorted(self.episodes, episode))
        return self.columns[column][:, :, index]

    def of_size(self, step_size: float, column: str = "score") -> np.ndarray:
        """float64[S, K]: the curves of one step size."""
        return self.columns[column][int(np.flatnonzero(self.step_sizes == step_size)[0])]

    def only(self, seeds: Iterable[int]) -> ArmRuns:
        """The runs of these seeds."""
        keep = np.isin(self.seeds, list(seeds))
        columns = {name: values[:, keep] for name, values in self.columns.items()}
        return replace(self, seeds=self.seeds[keep], columns=columns)

    def until(self, episode: int) -> ArmRuns:
        """The beginning of every run, up to a checkpoint."""
        inside = self.episodes <= episode
        columns = {name: values[:, :, inside] for name, values in self.columns.items()}
        return replace(self, episodes=self.episodes[inside], columns=columns)


@dataclass(frozen=True)
class Results:
    """A study's table, and constants for its tables, figures and criteria.

    Args:
      arms: the runs of every arm.
      labels: {arm: what tables and figures call it}, in their order.
      episodes: the full length of a run.
      score: what the score is.
      truth: what the score should be, where the step size with the least squared error is selected; None selects the
        least mean score.
      select_at: {arm: episode at which the score is read for selection}; by default the last one.
      best: the best possible score; None if it is unknown.
      fixed: arms whose λ is fixed.
      paper: the paper's numbers.
      ours: arms that the paper does not have.
    """

    arms: Mapping[str, ArmRuns]
    labels: Mapping[str, str]
    episodes: int
    score: str = "score"
    truth: float | None = None
    select_at: Mapping[str, int] = field(default_factory=dict)
    best: float | None = None
    fixed: tuple[str, ...] = ()
    paper: Mapping[str, Published] = field(default_factory=dict)
    ours: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: pl.DataFrame, labels: Mapping[str, str], **about: Any) -> Results:
        """The arms of a table that have labels, in the order of these."""
        rows = {str(key[0]): part for key, part in table.partition_by("arm", as_dict=True).items()}
        return cls({arm: ArmRuns.of(rows[arm]) for arm in labels if arm in rows}, labels, **about)

    @cached_property
    def length(self) -> int:
        """Episodes of the longest runs."""
        return max((runs.length for runs in self.arms.values()), default=0)

    @cached_property
    def present(self) -> tuple[str, ...]:
        """Arms with runs of full length."""
        return tuple(arm for arm, runs in self.arms.items() if runs.length == self.length)

    @cached_property
    def reduced(self) -> tuple[str, ...]:
        """Arms with shorter runs than the others, not compared at the end."""
        return tuple(arm for arm, runs in self.arms.items() if runs.length < self.length)

    @cached_property
    def seeds(self) -> int:
        """Largest number of seeds of an arm."""
        return max((len(runs.seeds) for runs in self.arms.values()), default=0)

    @cached_property
    def selected(self) -> dict[str, float]:
        """{arm: step size} with the least mean loss; the larger of two."""
        return {arm: least(runs, mean_sd(self.loss(arm))[0]) for arm, runs in self.arms.items()}

    def read(self, arm: str) -> np.ndarray:
        """float64[E, S]: scores for selection; the last ones if the runs lack its checkpoint."""
        runs, at = self.arms[arm], self.select_at.get(arm)
        return runs.at(at if at in runs.episodes else None)

    def loss(self, arm: str) -> np.ndarray:
        """float64[E, S]: loss; selection minimises its mean."""
        return self.read(arm) if self.truth is None else (self.read(arm) - self.truth) ** 2

    @cached_property
    def early(self) -> tuple[int, ...]:
        """Checkpoints at which arms of reduced size can be compared with all others: the last common one of each."""
        found = set()
        for arm in self.reduced:
            common = set.intersection(*(set(self.arms[name].episodes.tolist()) for name in (arm, *self.present)))
            found |= {max(common)} if common else set()
        return tuple(sorted(found))

    def runs(self, arm: str) -> ArmRuns:
        """Runs of full length of an arm. NotRun if there are none, or all runs are shorter than the study's."""
        if self.length < self.episodes:
            raise NotRun(f"runs have {self.length:,} episodes, the protocol requires {self.episodes:,}")
        if arm not in self.present:
            raise NotRun(f"no runs of full length: {self.labels[arm]}")
        return self.arms[arm]

    def together(self, *arms: str) -> list[ArmRuns]:
        """Return the runs of several arms for their common seeds, as paired tests require."""
        return shared(*map(self.runs, arms))

    def at_selected(self, arm: str, column: str = "score") -> np.ndarray:
        """float64[S, K]: the curves of an arm at its selected step size."""
        return self.runs(arm).of_size(self.selected[arm], column)

    def selected_together(self, *arms: str) -> list[np.ndarray]:
        """float64[S, K] of several arms, each at its selected step size, over their common seeds."""
        return [runs.of_size(self.selected[arm]) for arm, runs in zip(arms, self.together(*arms), strict=True)]

    def with_seeds(self, count: int) -> Results:
        """The same with the first `count` seeds only."""
        return replace(self, arms={arm: runs.only(range(count)) for arm, runs in self.arms.items()})

    def until(self, episode: int) -> Results:
        """The beginning of every run, up to a checkpoint; arms without that checkpoint are omitted."""
        kept = {arm: runs.until(episode) for arm, runs in self.arms.items() if episode in runs.episodes}
        return replace(self, arms=kept, episodes=episode)


def preferred(table: pl.DataFrame) -> pl.DataFrame:
    """The rows in float64, and of the networks those in TF32, else those in float32 on a CPU."""
    networks = "tf32" if (table["precision"] == "tf32").any() else "float32-cpu"
    return table.filter(pl.col("precision").is_in(["float64", networks]))


def shared(*runs: ArmRuns) -> list[ArmRuns]:
    """The same runs, restricted to common seeds."""
    seeds = set.intersection(*(set(part.seeds.tolist()) for part in runs))
    return [part.only(seeds) for part in runs]


def least(runs: ArmRuns, loss: np.ndarray) -> float:
    """The step size with the least loss, float64[E]; the first of several, NaN for step sizes without runs."""
    return float(runs.step_sizes[int(np.argmin(np.where(np.isnan(loss), np.inf, loss)))])


class Replay(NamedTuple):
    """Results of the paper's procedure if repeated: draw seeds, select a step size, report the mean.

    Attributes:
      shares: float64[E], how often each step size is selected. reported: float64[draws], mean scores at it.
    """

    shares: np.ndarray
    reported: np.ndarray


def replay_selection(loss: np.ndarray, scores: np.ndarray, size: int = 10, draws: int = RESAMPLES) -> Replay:
    """Select a step size from `size` seeds drawn with replacement, many times. Args: loss, scores: float64[E, S]."""
    complete = ~np.isnan(loss).any(axis=0)
    loss, scores = loss[:, complete], scores[:, complete]
    weights = bootstrap_weights(loss.shape[1], draws, size) / size
    picked = np.argmin(weights @ loss.T, axis=1)
    return Replay(np.bincount(picked, minlength=len(loss)) / draws, np.sum(weights * scores[picked], axis=1))
