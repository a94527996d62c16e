"""Normalised scores, with everything that is chosen, chosen on other seeds than those scored.

0 is the worst and 1 the best fixed λ in hindsight. The two halves of the seeds take turns: step sizes, the best and the
worst fixed λ are chosen on one half and scored on the other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from chunked_td.statistics import RESAMPLES, Estimate, nested_estimate, normalised
from studies.credit.families import family_called
from studies.credit.methods import FIXED, TIED
from studies.runner.text import DIVERGED

Runs = dict[tuple[str, str], dict[str, np.ndarray]]
"""{(family, setting): {method: float64[step sizes, seeds]}} of one score."""


@dataclass(frozen=True)
class Scored:
    """One score: {family: {setting: {method: float64[seeds]}}}, normalised.

    `unclear`: problems that were left out. `fixed`: ids of the fixed λs. `held_out` chooses between held-out families
    (True), the others (False) and all (None).
    """

    cells: dict[str, dict[str, dict[str, np.ndarray]]]
    unclear: tuple[str, ...]
    fixed: tuple[str, ...] = tuple(FIXED)

    def of(self, held_out: bool | None = None) -> dict[str, list[dict[str, np.ndarray]]]:
        """{family: [{method: float64[seeds]} of each setting]}."""
        return {
            name: list(cells.values())
            for name, cells in self.cells.items()
            if held_out is None or family_called(name).held_out == held_out
        }

    def by_family(self, method: str, held_out: bool | None = None) -> dict[str, float]:
        """Mean over the settings of every family."""
        return {
            name: float(np.mean([each[method].mean() for each in cells])) for name, cells in self.of(held_out).items()
        }

    def methods(self, held_out: bool | None = None) -> set[str]:
        """Methods that were run on every problem."""
        return set.intersection(*(set(each) for cells in self.of(held_out).values() for each in cells))

    def mean(self, method: str, held_out: bool | None = None) -> float:
        """Mean over families; NaN if there are none."""
        found = list(self.by_family(method, held_out).values())
        return float(np.mean(found)) if found else float("nan")

    def best_fixed(self, held_out: bool | None = None) -> str:
        """The single fixed λ with the largest mean."""
        run = self.methods(held_out)
        return max((name for name in self.fixed if name in run), key=lambda name: self.mean(name, held_out))

    def difference(self, method: str, other: str, held_out: bool | None = None, draws: int = RESAMPLES) -> Estimate:
        """Mean difference of two methods; the interval is over families, their settings and seeds."""
        ends = [self.mean(name, held_out) == -np.inf for name in (method, other)]
        if any(ends):  # −∞ less a number is −∞; between two methods that diverge there is no difference to tell
            return Estimate(*[np.nan if all(ends) else -np.inf if ends[0] else np.inf] * 3)
        groups = [[each[method] - each[other] for each in cells] for cells in self.of(held_out).values()]
        return nested_estimate(groups, draws)


def on_common_seeds(runs: Runs, names: Collection[str]) -> Runs:
    """These methods on the problems where all of them were run, each problem on the first seeds that all have there."""
    found: Runs = {}
    for problem, methods in runs.items():
        if set(names) <= set(methods):
            seeds = min(methods[name].shape[1] for name in names)
            found[problem] = {name: methods[name][:, :seeds] for name in names}
    return found


def scored(runs: Runs, fixed: Collection[str] = tuple(FIXED)) -> Scored:
    """Normalise one score. A method with fewer seeds of a problem than others is omitted there.

    Args:
      fixed: ids of the fixed λs.
    """
    cells: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    unclear = []
    for (family, setting), every in runs.items():
        seeds = max(each.shape[1] for each in every.values())
        methods = {name: each for name, each in every.items() if each.shape[1] == seeds}
        with np.errstate(invalid="ignore"):  # −∞ less −∞: the best or the worst fixed λ diverged, and is no reference
            found = normalised(methods, [name for name in fixed if name in methods])
        if found is None:
            unclear.append(f"{family} {setting}")
        else:
            cells.setdefault(family, {})[setting] = {
                name: np.where(each < DIVERGED, -np.inf, each) for name, each in found.items()
            }
    return Scored(cells, tuple(unclear), tuple(fixed))


def raw_scores(table: pl.DataFrame) -> dict[str, Runs]:
    """The runs of every score that was run, by its name."""
    where = {"values": ("given", "score"), "decisions": ("given", "decision"), "control": ("bonus", "score")}
    where |= {f"control-{name}": (name, "score") for name in ("greedy", "error-bonus")}
    found: dict[str, Runs] = {}
    for name, (behaviour, column) in where.items():
        runs: Runs = {}
        part = table.filter(table["behaviour"] == behaviour)
        part = part.sort("exponent", "seed", descending=[True, False], maintain_order=True)
        for (family, setting, arm), rows in part.group_by("family", "setting", "arm", maintain_order=True):
            seeds = rows["seed"].n_unique()
            if len(rows) != seeds * rows["exponent"].n_unique():
                raise ValueError(
                    f"{family} {setting}, {arm}: step sizes must have the same seeds, got {len(rows)} runs"
                )
            each = rows[column].to_numpy().astype(np.float64).reshape(-1, seeds)
            runs.setdefault((str(family), str(setting)), {})[str(arm)] = each
        if runs:
            found[name] = runs
    return found


def with_tied(runs: Runs, exponents: Sequence[int]) -> Runs:
    """Add the method "λ tied to the step size" from the runs of its two fixed λs.

    Args:
      exponents: of all step sizes, largest first.
    """
    below = np.exp2(np.array(exponents, float))[:, None] < 0.25
    found = {key: dict(methods) for key, methods in runs.items()}
    for methods in found.values():
        small, large = methods.get("replacing-1"), methods.get("replacing-0.4")
        if small is not None and large is not None and len(small) == len(below):
            methods[TIED] = np.where(below, small, large)
    return found
