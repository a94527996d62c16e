"""Credit stops at junctions: where ways part that differ in value, where ways meet, and where they return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chunked_td._link import kernel
from chunked_td.lambdas.base import MANY, Settled
from chunked_td.lambdas.names import CHUNKED
from chunked_td.lambdas.value import ValueLambda, add_error, value_overlap


@dataclass(frozen=True, repr=False)
class JunctionLambda(ValueLambda):
    """The value kernel, cut where V(x_t) knows more than the past that led to it (ours; not in the paper).

        λ_t = k(x_t) · min(1, n(x_{t−1}) / n(x_t)),   k as in `ValueLambda`;   0 where the episode left x_t before

    Bootstrapping from V(x_t) is worth its delay where chance follows that matters (ways part), where V(x_t) was learned
    from more visits than V(x_{t−1}) (ways meet), and where the episode goes in a circle (traces would pile up). λ_t
    depends on the past and on x_t, not on what comes, so the fixed point is right. The source counts visits itself:
    they say how much was learned, whatever the model is.

    Args:
      width, policy_noise: of the value kernel.
    """

    id, label, group, color = "junction", "Junctions", CHUNKED, "#009E73"
    means = "λ is low where many ways meet, and where chance decides"

    width: float = 1.0

    follows_episode = True
    arrays: ClassVar[dict[str, str]] = {
        **ValueLambda.arrays,
        "latest": "float64[S]",  # the episode in which a state was left last, from 1
        "episodes": "float64[1]",  # that have begun
        "visited": "float64[S]",  # n(x): how often a state was left
    }

    def settled(self, known: Settled) -> Mapping[str, Any]:
        """The scale of the value kernel, and the visits of many episodes."""
        return {**super().settled(known), "visited": known.visits * MANY}

    @kernel
    def recall(source, step, left):
        """An episode that has left x_t before, or has not."""
        source.latest[step.state] = source.episodes[0] - (0.0 if left else 1.0)

    @kernel
    def lambda_t(source, step, i):
        """Value kernel × share of experience."""
        share = 1.0
        if step.previous >= 0:
            if source.latest[step.state] == source.episodes[0]:
                return 0.0
            before = source.visited[step.previous // step.n_actions]
            share = min(before / (source.visited[step.state] + 1.0), 1.0)  # this visit counts, too
        return value_overlap(source, step) * share

    @kernel
    def after_step(source, step, reward, td_error, ended):
        """Add the TD error to the scale; note the visit."""
        add_error(source, td_error)
        if step.previous < 0:
            source.episodes[0] += 1.0
        source.visited[step.state] += 1.0
        source.latest[step.state] = source.episodes[0]
