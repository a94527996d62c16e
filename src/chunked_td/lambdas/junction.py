"""Credit stops at junctions: where ways part that differ in value, where ways meet, and where they return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunked_td._numba import code, kernel
from chunked_td.lambdas.base import Needs
from chunked_td.lambdas.step import visits, visits_of
from chunked_td.lambdas.value import ValueLambda, add_error, value_overlap


@dataclass(frozen=True)
class JunctionLambda(ValueLambda):
    """The value kernel, cut where V(x_t) knows more than the past that led to it (ours; not in the paper).

        λ_t = k(x_t) · min(1, n(x_{t−1}) / n(x_t)),   k as in `ValueLambda`;   0 where the episode left x_t before

    Bootstrapping from V(x_t) is worth its delay where chance follows that matters (ways part), where V(x_t) was learned
    from more visits than V(x_{t−1}) (ways meet), and where the episode goes in a circle (traces would pile up). λ_t
    depends on the past and on x_t, not on what comes, so the fixed point is right.

    Args:
      width: of the value kernel.
    """

    width: float = 1.0

    needs = ValueLambda.needs | Needs.VISITS
    follows_episode = True
    arrays: ClassVar[dict[str, str]] = {
        **ValueLambda.arrays,
        "latest": "float64[S]",  # the episode in which a state was left last, from 1
        "episodes": "float64[1]",  # that are over
    }

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        """Value kernel × share of experience."""
        if source.latest[step.state] == source.episodes[0] + 1.0:
            return 0.0
        share = 1.0
        if step.previous >= 0:
            share = min(visits_of(step, step.previous // code(step.n_actions)) / visits(step), 1.0)
        return value_overlap(source, step) * share

    @staticmethod
    @kernel
    def after_step(source, step, reward, td_error, ended):
        """Add the TD error to the scale; note the visit."""
        add_error(source, td_error)
        source.latest[step.state] = source.episodes[0] + 1.0
        if ended != 0:
            source.episodes[0] += 1.0
