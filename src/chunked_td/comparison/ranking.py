"""Paired comparisons that hold together, and step sizes chosen on other seeds.

    scores: float64[arms, seeds], paired: column k is the same seed in every arm

Two-fold cross-validation over seeds chooses the step sizes (`chosen_sizes`), so that trying more of them flatters no
arm. Differences are paired over seeds; all intervals of a family hold together (`PairedFamily`). Seeds may be added and
the arms judged again (`LOOKS`): the interim analyses share one error rate. `benchmarks/decisions.py` measures error,
power and wrong recommendations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chunked_td.statistics import RESAMPLES, Estimate, mean_and_interval

ERROR = 0.05
"""Share of families of equal arms in which some difference is shown."""
LEAST = 6
"""With fewer seeds there are no intervals and no verdicts: five differences have the same sign in 1 of 16 cases."""
LOOKS = (10, 20, 40)
"""Seeds per arm at which arms are judged."""
CLOSE = 0.05
"""Two arms are equivalent if they differ by at most this share of the distance from the worst to the best mean."""


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
class PairedFamily:
    """Arms whose differences are judged together.

    Attributes:
      scores: float64[arms, seeds], all finite. The first `ranked` of them compete; others are for reference.
      critical: by how many standard errors two arms must differ, so that among all pairs of equal arms no more than
        one family in twenty shows any difference. It comes from a wild bootstrap over seeds: the residuals of the
        paired differences get random signs, the same for all pairs, and the greatest studentised mean is noted. An arm
        with outliers widens its own intervals only.
      error: the share of such families.
    """

    scores: np.ndarray
    critical: float
    ranked: int
    error: float = ERROR

    @classmethod
    def of(cls, scores: np.ndarray, ranked: int | None = None, error: float = ERROR) -> PairedFamily:
        """Find the critical value."""
        scores = np.asarray(scores, np.float64)
        arms, seeds = scores.shape
        competing = arms if ranked is None else ranked
        first, second = np.triu_indices(arms, 1)
        differences = scores[first] - scores[second]
        differences = differences[_standard_error(differences) > _rounding(scores)]
        if not len(differences) or seeds < LEAST:
            return cls(scores, np.inf, competing, error)
        residuals = differences - differences.mean(axis=1, keepdims=True)
        signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(RESAMPLES, seeds))
        mean = signs @ residuals.T / seeds
        spread = np.maximum((residuals**2).mean(axis=1) - mean**2, 0.0)
        deviation = np.sqrt(spread / (seeds - 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(deviation > _rounding(scores), np.abs(mean) / deviation, np.inf)
        critical = float(np.sort(t.max(axis=1))[int(np.ceil((1 - error) * RESAMPLES)) - 1])
        return cls(scores, critical, competing, error)

    @property
    def best(self) -> int:
        """The arm with the greatest mean."""
        return int(self.scores[: self.ranked].mean(axis=1).argmax())

    @property
    def spread(self) -> float:
        """The distance from the lowest to the highest score of any run: no difference can be larger."""
        return float(np.ptp(self.scores)) if self.scores.size else 0.0

    def lead(self, arm: int, other: int) -> Estimate:
        """By how much `arm` is better than `other`; the interval holds together with all others of the family.

        With fewer than `LEAST` seeds, and if all scores are the same, there is no interval: both ends are NaN.

        If all seeds differ by the same amount, an outcome that n seeds have not shown may have a probability of up to
        1 − ε^(1/n), where ε is the error divided by the number of pairs; it may be as far off as scores can differ.
        """
        difference = self.scores[arm] - self.scores[other]
        mean, deviation, (arms, seeds) = float(difference.mean()), float(_standard_error(difference)), self.scores.shape
        if seeds < LEAST or self.spread <= _rounding(self.scores):
            return Estimate(mean, np.nan, np.nan)
        if deviation <= _rounding(self.scores):
            missed = unseen(seeds, self.error / max(arms * (arms - 1) // 2, 1))
            return Estimate(mean, mean - missed * (self.spread + mean), mean + missed * (self.spread - mean))
        half = self.critical * deviation
        return Estimate(mean, max(mean - half, -self.spread), min(mean + half, self.spread))

    @property
    def no_difference(self) -> bool:
        """Whether no arm differs from any other."""
        pairs = ((i, j) for i in range(self.ranked) for j in range(i))
        return not any(self.lead(i, j).shown for i, j in pairs)

    @property
    def close(self) -> float:
        """Arms that differ by no more than this are equivalent; acting at random does not count."""
        return CLOSE * float(np.ptp(self.scores[: self.ranked].mean(axis=1)))

    def equivalent(self, lead: Estimate) -> bool:
        """Whether a difference is shown to be small."""
        return max(lead.high, -lead.low) <= self.close

    @property
    def clear(self) -> bool:
        """Whether every arm is shown to be worse than the best, or equivalent to it."""
        leads = [self.lead(self.best, arm) for arm in range(self.ranked) if arm != self.best]
        return all(lead.shown or lead.high <= self.close for lead in leads)


def unseen(runs: int, error: float) -> float:
    """The probability that an outcome may have which none of so many runs shows, but for this error."""
    return 1.0 - error ** (1.0 / runs)


def own_interval(scores: np.ndarray, lowest: float, highest: float) -> Estimate:
    """One arm's mean and its 95 % bootstrap interval; NaN where there are too few seeds, never of zero width.

    Args:
      scores: float64[seeds]. lowest, highest: of all runs of all arms.
    """
    if scores.size < LEAST or not lowest < highest:
        return Estimate(float(scores.mean()), np.nan, np.nan)
    mean, low, high = map(float, mean_and_interval(scores))
    if high - low > 1e-12 * max(abs(lowest), abs(highest)):
        return Estimate(mean, low, high)
    half = unseen(scores.size, ERROR) * (highest - lowest)
    return Estimate(mean, max(mean - half, lowest), min(mean + half, highest))


def _standard_error(differences: np.ndarray) -> np.ndarray:
    seeds = differences.shape[-1]
    if seeds < 2:
        return np.full(differences.shape[:-1], np.inf)
    return differences.std(axis=-1, ddof=1) / np.sqrt(seeds)


def _rounding(scores: np.ndarray) -> float:
    """Differences below this come from rounding."""
    return 1e-12 * float(np.abs(scores).max(initial=0.0))
