"""Gate, moonshot and constants of the study by its registered rules (`registered.md`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from chunked_td.statistics import Estimate, bootstrap_interquartile_means, estimate_from, interquartile_mean

FIXED = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
USUAL = 0.95
GATE = ("true-kernel", "true-expected")
TOLERANCE = 0.05
TWIN = "gymnax-cart-pole"
"""The second of two implementations of one task; means over tasks leave it out."""
SOLVED = 0.9
"""A run has solved its task if the mean of its episodes' scores over the last quarter of training is at least this."""
ALL_OR_NOTHING = ("charge", "charge-mirrored", "cart-pole", "xland-door-key")
"""Tasks whose success rates are reported."""


Scores = Mapping[Any, Mapping[str, np.ndarray]]
"""task → arm → scores of the judged runs."""


def compared(ours: Estimate, theirs: Estimate) -> str:
    """ "better", "worse" or "no difference"."""
    return "better" if ours.above(theirs) else "worse" if theirs.above(ours) else "no difference"


def best_fixed(estimates: Mapping[str, Estimate]) -> str:
    """The fixed λ with the greatest score on a task."""
    return max((str(x) for x in FIXED), key=lambda name: estimates[name].value)


def gate(estimates: Mapping[str, Estimate], arms: tuple[str, ...] = GATE) -> str:
    """The gate on one task: "passed", "half" or "closed". Args: arms: those with λ from the true model."""
    true = [estimates[name] for name in arms]
    if any(e.above(estimates[best_fixed(estimates)]) for e in true):
        return "passed"
    return "half" if any(e.above(estimates[str(USUAL)]) for e in true) else "closed"


def mean_of_tasks(scores: Scores, arm: str) -> Estimate:
    """An arm's mean over tasks, which weigh equally; seeds are resampled within tasks."""
    value = np.mean([interquartile_mean(runs[arm]) for runs in scores.values()])
    return estimate_from(float(value), np.mean([bootstrap_interquartile_means(r[arm]) for r in scores.values()], 0))


class Moonshot(NamedTuple):
    """Whether a source passed it, the means over tasks of fixed λ and sources, and how many tasks there were."""

    holds: bool
    means: dict[str, Estimate]
    tasks: int

    @property
    def best(self) -> tuple[str, str]:
        """The best source and the best fixed λ, each with its mean."""
        fixed = [str(x) for x in FIXED]
        rest = [arm for arm in self.means if arm not in fixed]
        source, rival = (max(arms, key=lambda arm: self.means[arm].value) for arms in (rest, fixed))
        return f"{source} {self.means[source].value:.3f}", f"{rival} {self.means[rival].value:.3f}"


def moonshot(scores: Scores, sources: Sequence[str]) -> Moonshot:
    """The moonshot of one agent. Args: sources: learned ones."""
    fixed = [str(x) for x in FIXED]
    means = {arm: mean_of_tasks(scores, arm) for arm in (*fixed, *sources)}

    def near(source: str) -> bool:
        return all(
            interquartile_mean(runs[source]) >= (1 - TOLERANCE) * max(interquartile_mean(runs[x]) for x in fixed)
            for runs in scores.values()
        )

    holds = any(all(means[source].above(means[x]) for x in fixed) and near(source) for source in sources)
    return Moonshot(holds, means, len(scores))
