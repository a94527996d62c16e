"""Who is best, and who cannot be told apart from the best.

    scores: float64[arms, seeds], paired: column k is the same seed in every arm

Step sizes are chosen on one half of the seeds and scored on the other, both ways round (`chosen_sizes`), so that no
arm gains from having been tried more often. Arms are compared over seeds in pairs (`PairedFamily`): all intervals of a
family hold together, so looking at many arms makes no difference appear that is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chunked_td.lab.statistics import RESAMPLES

LEVEL = 0.95
FEW = 10
"""With fewer seeds than this, only large differences are told apart; with very few, none."""


def chosen_sizes(scores: np.ndarray) -> np.ndarray:
    """For every seed the place of the step size that is best on the other half of the seeds: int64[seeds].

    Args:
      scores: float64[step sizes, seeds]; −∞ for runs that diverged. Halves are the even and the odd seeds. One seed
        alone is its own other half.
    """
    seeds = scores.shape[1]
    found = np.zeros(seeds, np.int64)
    for half in (0, 1):
        others = np.arange(seeds) % 2 != half
        if seeds == 1:
            others[:] = True
        if others.any():
            found[np.arange(seeds) % 2 == half] = scores[:, others].mean(axis=1).argmax()
    return found


@dataclass(frozen=True)
class Gap:
    """How far one arm is behind another: mean over seeds, and its interval, which holds with all others of a family."""

    mean: float
    low: float
    high: float

    @property
    def shown(self) -> bool:
        """Whether the difference is more than chance explains."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def text(self) -> str:
        """Mean and interval, as tables have them."""
        if not np.isfinite(self.low):
            return f"{self.mean:.3g} (too few seeds)"
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class PairedFamily:
    """Arms whose differences are judged together.

    Attributes:
      scores: float64[arms, seeds], all finite.
      critical: by how many standard errors two arms must differ, so that among all pairs of equal arms no more than
        one family in twenty shows any difference. It comes from a wild bootstrap over seeds: the residuals of the
        paired differences get random signs, the same for all pairs, and the greatest studentised mean is noted. An arm
        with outliers widens its own intervals only.
    """

    scores: np.ndarray
    critical: float

    @classmethod
    def of(cls, scores: np.ndarray, level: float = LEVEL) -> PairedFamily:
        """Find the critical value."""
        scores = np.asarray(scores, np.float64)
        arms, seeds = scores.shape
        first, second = np.triu_indices(arms, 1)
        differences = scores[first] - scores[second]
        differences = differences[_standard_error(differences) > _rounding(scores)]
        if not len(differences):
            return cls(scores, 0.0)
        if seeds < 2:
            return cls(scores, np.inf)
        residuals = differences - differences.mean(axis=1, keepdims=True)
        signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(RESAMPLES, seeds))
        mean = signs @ residuals.T / seeds
        spread = np.maximum((residuals**2).mean(axis=1) - mean**2, 0.0)
        error = np.sqrt(spread / (seeds - 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(error > _rounding(scores), np.abs(mean) / error, np.inf)
        return cls(scores, float(np.sort(t.max(axis=1))[int(np.ceil(level * RESAMPLES)) - 1]))

    @property
    def best(self) -> int:
        """The arm with the greatest mean."""
        return int(self.scores.mean(axis=1).argmax())

    def gap(self, arm: int, other: int | None = None) -> Gap:
        """How far `arm` is behind `other`, by default the best."""
        difference = self.scores[self.best if other is None else other] - self.scores[arm]
        mean, error = float(difference.mean()), float(_standard_error(difference))
        if error <= _rounding(self.scores):
            return Gap(0.0, 0.0, 0.0) if abs(mean) <= _rounding(self.scores) else Gap(mean, mean, mean)
        return Gap(mean, mean - self.critical * error, mean + self.critical * error)

    def tied(self) -> list[int]:
        """Arms that cannot be told apart from the best, itself among them, best first."""
        order = np.argsort(-self.scores.mean(axis=1), kind="stable")
        return [int(arm) for arm in order if not self.gap(int(arm)).shown]

    @property
    def no_difference(self) -> bool:
        """Whether no arm differs from any other."""
        pairs = ((i, j) for i in range(len(self.scores)) for j in range(i))
        return not any(self.gap(i, j).shown for i, j in pairs)

    @property
    def widest(self) -> float:
        """The greatest difference that the intervals leave open."""
        return max((self.gap(arm).high for arm in range(len(self.scores))), default=0.0)


def _standard_error(differences: np.ndarray) -> np.ndarray:
    seeds = differences.shape[-1]
    if seeds < 2:
        return np.full(differences.shape[:-1], np.inf)
    return differences.std(axis=-1, ddof=1) / np.sqrt(seeds)


def _rounding(scores: np.ndarray) -> float:
    """Differences below this come from rounding."""
    return 1e-12 * float(np.abs(scores).max(initial=0.0))


def paired_gap(better: Sequence[np.ndarray] | np.ndarray, worse: Sequence[np.ndarray] | np.ndarray) -> Gap:
    """Mean difference between two groups of arms, matched one to one, over seeds, with a 95 % interval of its own.

    Args:
      better, worse: float64[arms, seeds].
    """
    both = np.stack([np.mean(better, axis=0), np.mean(worse, axis=0)])
    return PairedFamily.of(both).gap(1, 0)
