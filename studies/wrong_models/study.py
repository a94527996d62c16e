"""Wrong models: is chunking robust to errors of its model, where planning with the same model is not?

Three models are wrong on purpose: a third of the probability lies on wrong states, the next states of a third of all
(s, a) are permuted, or the counts are frozen after ten episodes. Every method runs with the right model and with each
wrong one, ε-greedily, on four families with three problems each. 0 is the worst and 1 the best fixed λ with oracle
selection, every method at its best step size; intervals are over families, settings and seeds. The loss of a method is
its score with the right model less that with the wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chunked_td import (
    CertaintyEquivalence,
    Dyna,
    ExpectedError,
    ExpectedLambda,
    ForwardLambda,
    Lineage,
    sweep,
)
from chunked_td.simulation import simulate
from chunked_td.statistics import Estimate
from studies.credit.families import FAMILIES, middles
from studies.runner import plots
from studies.runner.criteria import FAILS, HOLDS, IN_PART, Verdict, source
from studies.runner.text import estimate_text, markdown
from studies.wrong_models.errors import CorruptedModel, PermutedModel, StaleModel
from studies.wrong_models.relative import RelativeScores

WRONG = ("delay", "noisy-states", "grid", "garnet")
CHOICES = ("delay", "noisy-states")  # the score is the share of episodes with the right choice; elsewhere the return
LAMBDAS = (0.0, 0.4, 0.8, 0.9, 0.95, 0.99, 1.0)
FIXED = {f"fixed-{value:g}": {"lambda_source": value} for value in LAMBDAS}
ERRORS = {"corrupted": CorruptedModel(0.3), "permuted": PermutedModel(0.3), "stale": StaleModel(until=10)}
CHUNKING, PAPER, PLANNERS = "expected", "forward", ("dyna", "solved")
METHODS: dict[str, dict[str, Any]] = {
    "expected": {"lambda_source": ExpectedLambda()},
    "forward": {"lambda_source": ForwardLambda()},
    "dyna": {"lambda_source": 0.0, "planner": Dyna(steps=5)},
    "solved": {"lambda_source": 0.0, "planner": CertaintyEquivalence(sweeps=50, tolerance=1e-6)},
}
LABELS = {
    "expected": "expected chunking",
    "forward": "the paper's λ",
    "dyna": "Dyna, 5 updates",
    "solved": "certainty equivalence",
}
RULES = {"half": ExpectedError(0.5), "all": ExpectedError(1.0), "guarded": ExpectedError(0.5, guard=2.0)}
EXPECTED_ERRORS = {
    name: {"lambda_source": 1.0, "view": Lineage(), "reward_source": rule} for name, rule in RULES.items()
}
STEP_SIZES = [2.0**-j for j in range(12)]
MOST = 0.3
"""The largest mean loss of expected TD errors that their criterion allows."""
KEY = ("comparison", "family", "setting", "arm", "step_size", "seed")


def run(
    step_size: float, seed: int, *, family: str, setting: Any, lambda_source: Any, model: Any = "counts", **options: Any
) -> dict[str, Any]:
    """One run: its score over all episodes, and the transitions that it took."""
    problem = FAMILIES[family]
    view = options.pop("view", "traces")
    found = simulate(
        problem.problem(setting),
        learner="expected_sarsa",
        lambda_source=lambda_source,
        model=model,
        view=view,
        step_sizes=step_size,
        seeds=seed,
        epsilon=problem.epsilon,
        discount=problem.discount,
        episodes=problem.episodes,
        record_at=range(problem.episodes // 8, problem.episodes + 1, problem.episodes // 8),
        threads=1,
        **options,
    )
    right = 1.0 - found.misses[0] / problem.episodes
    mean = np.cumsum(found.returns_at[0])[-1] / problem.episodes
    score = right if family in CHOICES else np.inf if found.diverged[0] >= 0 else mean
    return {"score": np.float32(score), "steps": np.int32(found.steps[0])}


def with_errors(methods: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Methods with the right model, and with every wrong one."""
    wrong = {f"{arm}-{name}": own | {"model": error} for name, error in ERRORS.items() for arm, own in methods.items()}
    return FIXED | methods | wrong


def runs(out: Path, quick: bool, **how: Any) -> pl.DataFrame:
    """Both comparisons on twelve problems. Quick: the middle problem of each family, four step sizes, ten seeds."""
    comparisons = {
        "planning": (with_errors(METHODS), STEP_SIZES, 30),
        "expected-errors": (with_errors(EXPECTED_ERRORS), STEP_SIZES[:9], 20),
    }
    found, every = [], [(family, setting) for family in WRONG for setting in FAMILIES[family].settings]
    for comparison, (arms, sizes, seeds) in comparisons.items():
        sizes, seeds = (sizes[:8:2], 10) if quick else (sizes, seeds)
        own = {arm: sizes[:1] if arm.startswith("solved") else sizes for arm in arms}  # it has no step size
        for family, setting in middles(*WRONG) if quick else every:
            where = {"out": out / comparison / f"{family}-{setting}", "family": family, "setting": setting}
            table = sweep(run, arms, own, range(seeds), **where, **how)
            named = {"comparison": comparison, "family": family, "setting": str(setting)}
            found.append(table.select(*(pl.lit(text).alias(name) for name, text in named.items()), pl.all()))
    return pl.concat(found)


def scores(table: pl.DataFrame, comparison: str = "planning") -> RelativeScores:
    """Relative scores of one comparison."""
    return RelativeScores(table.filter(comparison=comparison), tuple(FIXED))


def losses(found: RelativeScores, methods: Sequence[str]) -> dict[tuple[str, str], Estimate]:
    """{(error, method): loss of the method by the error}."""
    return {(error, arm): found.difference(arm, f"{arm}-{error}") for error in ERRORS for arm in methods}


@source("ours")
def robust_where_planning_is_not(table: pl.DataFrame) -> Verdict:
    """Chunking is robust to errors of the model where planning with the same model is not.

    Supported if, for each of the three errors, the mean loss of expected chunking over the wrong-model families is
    smaller than that of Dyna and of certainty equivalence, with disjoint 95 % bootstrap intervals for at least two of
    the three. Mixed if its mean loss is the smallest for some of the errors, but not all of that is met; not supported
    if for none. (The intervals were over problems × seeds at first. After the data a review found that the settings of
    a family are not independent; since then families are drawn, then settings, then seeds.)
    """
    lost = losses(scores(table), tuple(METHODS))
    texts = []
    for error in ERRORS:
        ours, paper, dyna, solved = (estimate_text(lost[error, arm]) for arm in (CHUNKING, PAPER, *PLANNERS))
        texts.append(
            f"Model {error}: expected chunking loses {ours}, the paper's λ {paper}, Dyna {dyna}, certainty equivalence "
            f"{solved}."
        )
    texts.append(f"With the paper's λ in the place of expected chunking: {robustness(lost, PAPER)}.")
    texts.append(
        "The permutation is one to one, which leaves Σ P̂² as it was, so expected chunking can lose nothing by it but "
        "what differs between actions."
    )
    return Verdict(robustness(lost, CHUNKING), " ".join(texts))


def robustness(lost: dict[tuple[str, str], Estimate], method: str) -> str:
    """The status with this method for chunking."""
    smaller, apart = 0, 0
    for error in ERRORS:
        ours, theirs = lost[error, method], [lost[error, arm] for arm in PLANNERS]
        smaller += all(ours.value < other.value for other in theirs)
        apart += all(ours.high < other.low for other in theirs)
    return HOLDS if smaller == len(ERRORS) and apart >= 2 else IN_PART if smaller else FAILS


CLAIMS = (robust_where_planning_is_not,)


def tables(table: pl.DataFrame) -> dict[str, str]:
    """Loss of each method by each error."""
    found, rows = scores(table), []
    for arm, label in LABELS.items():
        cells = [estimate_text(found.difference(arm, f"{arm}-{error}")) for error in ERRORS]
        rows.append((label, estimate_text(found.mean(arm)), *cells))
    heads = "method", "right model", *(f"loss, {error}" for error in ERRORS)
    return {"planning": markdown(heads, rows), "expected-errors": expected_errors(table)}


def expected_errors(table: pl.DataFrame) -> str:
    """The same for expected TD errors, with the criterion of a mean loss of at most 0.3."""
    found, rows = scores(table, "expected-errors"), []
    for arm, rule in RULES.items():
        cells = []
        for error in ERRORS:
            loss, by_problem = found.difference(arm, f"{arm}-{error}"), found.losses(arm, f"{arm}-{error}")
            family, setting = worst = max(by_problem, key=by_problem.__getitem__)
            most = f"{by_problem[worst]:.2f} ({FAMILIES[family].title}, {FAMILIES[family].dial} {setting})"
            cells.append(f"{estimate_text(loss)}, most {most}: {'met' if loss.value <= MOST else 'missed'}")
        rows.append((f"`{rule}`", estimate_text(found.mean(arm)), *cells))
    return markdown(("rule", "right model", *(f"loss, {error}" for error in ERRORS)), rows)


def figure(table: pl.DataFrame) -> Figure:
    """Mean loss of every method by each error, with intervals."""
    found = scores(table)
    drawn, axes = plots.new_figure(height=2.6)
    for place, (arm, label) in enumerate(LABELS.items()):
        means = [found.difference(arm, f"{arm}-{error}") for error in ERRORS]
        x = np.arange(len(means)) + 0.16 * (place - 1.5)
        reach = np.array([[each.value - each.low, each.high - each.value] for each in means]).T
        color, marker = plots.PALETTE[place], plots.MARKERS[place]
        axes.errorbar(x, [each.value for each in means], reach, fmt=marker, color=color, capsize=2, label=label)
    axes.axhline(0.0, color=plots.GREY, linewidth=0.8)
    axes.set_xticks(range(len(ERRORS)), [f"model {error}" for error in ERRORS])
    axes.set_ylabel("loss of relative score")
    plots.legend_below(drawn)
    return drawn
