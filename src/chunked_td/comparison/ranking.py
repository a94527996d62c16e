"""Simultaneous intervals of paired differences, and step sizes selected on other seeds.

    scores: float64[arms, seeds], paired: column k is the same seed in every arm

Two-fold cross-validation over seeds selects the step sizes (`chosen_sizes`), so a larger grid does not bias an arm's
score. All intervals of a family hold simultaneously (`PairedFamily`). Seeds may be added and the arms judged again
(`LOOKS`): the interim analyses share one error rate. `benchmarks/decisions.py` measures error, power and wrong
recommendations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chunked_td.statistics import RESAMPLES, Estimate, mean_and_interval, mean_sd

ERROR = 0.05
"""Family-wise error rate: share of families of equal arms with any difference shown."""
LEAST = 6
"""Fewest seeds for an interval or a verdict: five differences have the same sign in 1 of 16 cases."""
LOOKS = (10, 20, 40)
"""Seeds per arm at the interim analyses."""
CLOSE = 0.05
"""Two arms are equivalent if they differ by at most this share of the distance from the worst to the best mean."""


def chosen_sizes(scores: np.ndarray) -> np.ndarray:
    """Index of the step size that is best on the other half of the seeds, for every seed: int64[seeds].

    Args:
      scores: float64[step sizes, seeds]; −∞ for runs that diverged. Halves are the even and the odd seeds, so that
        they remain when seeds are added. A single seed is its own other half.
    """
    found = np.zeros(scores.shape[1], np.int64)
    for half in (0, 1):
        others = scores[:, 1 - half :: 2] if scores.shape[1] > 1 else scores
        found[half::2] = others.mean(axis=1).argmax()
    return found


@dataclass(frozen=True)
class PairedFamily:
    """Arms whose differences are judged together.

    Attributes:
      scores: float64[arms, seeds], all finite. The first `ranked` of them compete; others are for reference.
      critical: half-width of the intervals in standard errors, by a wild bootstrap over seeds: the residuals of the
        paired differences get random signs, the same for all pairs, and the quantile of the greatest studentised mean
        is taken. An arm with outliers widens its own intervals only.
      error: family-wise error rate, the share of families of equal arms in which any interval excludes 0.
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
        """By how much `arm` is better than `other`; the intervals of all pairs hold simultaneously.

        With fewer than `LEAST` seeds, and if all scores are the same, there is no interval: both ends are NaN. If all
        seeds differ by the same amount, an outcome that n seeds have not shown may have a probability of up to
        1 − ε^(1/n), where ε is the error divided by the number of pairs; it may be as far off as scores can differ.
        """
        difference, (arms, seeds) = self.scores[arm] - self.scores[other], self.scores.shape
        mean, deviation = float(difference.mean()), float(_standard_error(difference))
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
        """Limit of equivalence: 5 % of the range of the competing arms' means."""
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
    """Upper confidence bound on the probability of an outcome that none of n runs shows."""
    return 1.0 - error ** (1.0 / runs)


def own_interval(scores: np.ndarray, lowest: float, highest: float) -> Estimate:
    """One arm's mean and its 95 % bootstrap interval: NaN with too few seeds, never of zero width.

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
    return mean_sd(differences)[1] / np.sqrt(differences.shape[-1])


def _rounding(scores: np.ndarray) -> float:
    """Differences below this come from rounding."""
    return 1e-12 * float(np.abs(scores).max(initial=0.0))
