"""Claims and figures of Chain-and-Split: the paper's figures and its table of step sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from chunked_td.lab.report.choice import FigureChoice, Plot
from chunked_td.lab.report.plots import curve_plot, error_plot, level
from chunked_td.lab.results import criteria
from chunked_td.lab.results.runs import Results
from chunked_td.lab.studies.chain_and_split.protocol import TRUTH
from chunked_td.lab.study import Claim, Verdict

EARLY = 100_000
ARMS = {"sarsa-0": "SARSA(0)", "sarsa-1": "SARSA(1)", "chunked": "Chunked SARSA"}


def _fastest(study: Results, _: Mapping[str, Results]) -> Verdict:
    ids = ("chunked", "sarsa-0", "sarsa-1")
    early = criteria.runs_of(study, "chunked").episodes <= EARLY
    curves = criteria.selected_of(study, ids)
    wrong = {ARMS[arm]: 100 * np.mean(part[:, early] <= 0, axis=1) for arm, part in zip(ids, curves, strict=True)}
    shares = ", ".join(f"{label} {np.mean(values):.0f} %" for label, values in wrong.items())
    return criteria.smaller(
        wrong.pop(ARMS["chunked"]), wrong, f"checkpoints with a wrong order: {shares}; difference {{}}"
    )


def _approaches(study: Results, _: Mapping[str, Results]) -> Verdict:
    episodes, curves = criteria.selected_curves(study, "chunked")
    early, late = (
        criteria.within(curves[:, episodes == at][:, 0], 0.5 * TRUTH, 1.5 * TRUTH, f"ΔQ after {at:,} episodes {{}}")
        for at in (EARLY, int(episodes[-1]))
    )
    return replace(early, evidence=f"{early.evidence}; {late.evidence}")


def _monte_carlo_negative(study: Results, _: Mapping[str, Results]) -> Verdict:
    episodes, curves = criteria.selected_curves(study, "sarsa-1")
    early = curves[:, episodes <= EARLY // 2].mean(axis=1)
    return criteria.within(early, -np.inf, 0.0, f"mean ΔQ of SARSA(1) over the first {EARLY // 2:,} episodes {{}}")


def _positive_in_the_end(study: Results, _: Mapping[str, Results]) -> Verdict:
    return criteria.all_hold(
        [
            criteria.within(criteria.selected_curves(study, arm)[1][:, -1], 0.0, np.inf, f"{ARMS[arm]} {{}}")
            for arm in ("sarsa-0", "sarsa-1")
        ]
    )


CLAIMS = (
    Claim("gap-fastest", "§5.1, Figure 4", "Chunked SARSA finds that a₁ is best sooner than SARSA(0) and SARSA(1) do.",
          f"ΔQ ≤ 0 at a smaller share of the checkpoints up to {EARLY:,} episodes than either (paired tests, Holm).",
          tuple(ARMS), _fastest, short="finds a₁ soonest"),
    Claim("gap-approaches", "§5.1, Figure 4", "Chunked SARSA approaches the true gap of 0.01.",
          f"The interval of ΔQ after {EARLY:,} episodes lies within half of the truth on either side.", ("chunked",),
          _approaches, short="approaches the true gap"),
    Claim("gap-monte-carlo", "§5.1, Figure 4", "SARSA(1) has negative values of ΔQ early on.",
          f"The interval of the mean ΔQ over the first {EARLY // 2:,} episodes lies below 0.", ("sarsa-1",),
          _monte_carlo_negative, short="SARSA(1) starts negative"),
    Claim("gap-in-the-end", "App. A.1, Figure 6", "SARSA(0) and SARSA(1) reach positive gaps with ten times the data.",
          "The intervals of both lie above 0 after 1,000,000 episodes.", ("sarsa-0", "sarsa-1"), _positive_in_the_end,
          short="ten times the data: all positive", figure="chain-and-split-gap-1000000"),
    Claim("gap-step-sizes", "App. A.1, Table 2", "The selected step sizes are the paper's.", criteria.SAME_TEXT,
          tuple(ARMS), lambda study, _: criteria.same_step_sizes(study), short="the paper's step sizes",
          figure="table-chain-and-split-step-sizes"),
)  # fmt: skip


PUBLISHED = (
    "Figures of ΔQ for SARSA(0), SARSA(1) and Chunked SARSA at selected step sizes, ten seeds, and the "
    "table of those step sizes. Chunked SARSA finds the best action early and approaches the true gap "
    "smoothly; SARSA(0) is slower and less stable; SARSA(1) stays negative for long. With ten times the "
    "data all three are positive."
)


def plots(study: Results, _: Results | None) -> list[Plot]:
    """ΔQ early and to the end, and its error for every step size."""
    untils = sorted({min(EARLY, study.length), study.length})
    return [*(gap_plot(study, until) for until in untils), error_plot(study, TRUTH)]


def gap_plot(study: Results, until: int) -> Plot:
    """ΔQ over episodes at the selected step sizes."""
    caption = f"Gap ΔQ at the selected step sizes to {until:,} episodes; mean and 95 % bootstrap interval."
    lines, span = level(TRUTH, f"truth {TRUTH:g}"), [-1.2 * TRUTH, 2 * TRUTH]
    return curve_plot(study, f"gap-{until}", f"To {until:,} episodes", caption, lines, until=until, range=span)


FIGURES = FigureChoice(plots)
