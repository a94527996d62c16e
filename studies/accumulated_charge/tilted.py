"""A λ that reads the charge as a number, as the network of Accumulated-Charge does, without the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from chunked_td._checks import check_unit, check_whole
from chunked_td._link import kernel
from chunked_td.lambdas.base import LambdaSource


@dataclass(frozen=True)
class TiltedLambda(LambdaSource):
    """λ of a model that predicts quiet steps better if the charge is high.

        quiet step:     λ = p, with p = high above the mean charge at that time, low elsewhere
        charging step:  λ = noisy

    States are (first action, charge, time). The defaults are what was measured in three networks of the experiment
    between their episodes 500 and 1,000. The mean charge is that of the run so far.

    Args:
      high, low, noisy: see above.
      expected: whether quiet steps have p², the expected probability, instead of p.
      trial: number of first visits of a state with λ = 1.
    """

    high: float = 0.975
    low: float = 0.94
    noisy: float = 0.015
    expected: bool = False
    trial: int = 0

    arrays: ClassVar[Mapping[str, str]] = {
        "visits": "float64[S]",
        "times": "float64[S]",
        "mean": "float64[S]",
    }  # the last two by time

    def __post_init__(self) -> None:
        for name in ("high", "low", "noisy"):
            check_unit(name, getattr(self, name))
        check_whole("trial", self.trial, 0)

    @kernel
    def lambda_t(source, step, i):
        """The formula."""
        times, charges = step.tables.nvec[2], step.tables.nvec[1]
        charge, after = step.state // times % charges, step.next_state // times % charges
        if source.visits[step.state] < source.trial:
            return 1.0
        if after != charge:
            return source.noisy
        p = source.high if charge > source.mean[step.state % times] else source.low
        return p * p if source.expected else p

    @kernel
    def after_step(source, step, reward, td_error, ended):
        """Count the visit, and average the charge at this time."""
        times, charges = step.tables.nvec[2], step.tables.nvec[1]
        t, charge = step.state % times, step.state // times % charges
        source.visits[step.state] += 1.0
        source.times[t] += 1.0
        source.mean[t] += (charge - source.mean[t]) / source.times[t]
