"""Words of the report: what was published, and what the stored runs say about it, computed sentence by sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from chunked_td.lab.claims import LEVEL, Claim, selected_of
from chunked_td.lab.statistics import holm, paired_test
from chunked_td.lab.studies import Study, labels
from chunked_td.lab.tables import PAPER_SEEDS, number_text, seeds_text, selected_scores

PAPER = (
    "“Sequence Compression Speeds Up Credit Assignment in Reinforcement Learning”, Ramesh, Young, Kirsch and "
    "Schmidhuber, "
    "ICML 2024"
)

PUBLISHED = {
    "chain-and-split": (
        "Figures of ΔQ for SARSA(0), SARSA(1) and Chunked SARSA at selected step sizes, ten seeds, and the table "
        "of those "
        "step sizes. Chunked SARSA finds the best action early and approaches the true gap smoothly; SARSA(0) is "
        "slower "
        "and less stable; SARSA(1) stays negative for long. With ten times the data all three are positive."
    ),
    "accumulated-charge": (
        "A figure of regretful choices against the step size for SARSA(λ) with twelve λ and Chunked SARSA with a "
        "network, "
        "ten seeds, without and with intervals. Chunked SARSA is best across several step sizes; SARSA(λ) is "
        "good on some "
        "seeds and bad on others. No table, so there are no numbers to put beside ours."
    ),
    "accumulated-charge-mirrored": (
        "Nothing: this control is ours. Without it one cannot say why an arm wins on the original problem."
    ),
    "key-to-door": (
        "A table of episodes without treasure for Expected-SARSA(λ) with five λ, C-default and C-factored, ten "
        "seeds, mean "
        "± standard deviation at selected step sizes; the table of those; a figure over all step sizes. Only "
        "C-factored "
        "learns reliably, and it does so at many step sizes."
    ),
    "skewed-split": "Nothing: this experiment is ours. The paper does not discuss the bias that it shows.",
}


def findings(study: Study, claims: Sequence[Claim]) -> list[str]:
    """What the stored runs say, one paragraph each."""
    found = []
    judged = [claim for claim in claims if claim.experiment == study.id]
    for status in ("holds", "does not hold", "undecided", "not run"):
        texts = [claim.text.rstrip(".") for claim in judged if claim.status == status]
        texts = [*texts[:1], *(re.sub(r"^(The|No) ", lambda word: word[0].lower(), text) for text in texts[1:])]
        if texts:
            found.append(f"{status[0].upper()}{status[1:]}: {'; '.join(texts)}.")
    found += order(study)
    found += _sizes(study)
    return found


def order(study: Study) -> list[str]:
    """The order of the arms beside the paper's, and how much of it our seeds can tell."""
    published = {arm.id: study.published(arm.id, "score") for arm in study.present}
    arms = [arm for arm in study.present if published[arm.id] is not None]
    if len(arms) < 2:
        return []
    theirs = {arm.id: float(published[arm.id]["value"]) for arm in arms}  # type: ignore[index]
    scores = {arm.id: values for arm in arms if (values := selected_scores(study, arm.id)) is not None}
    ours = {name: float(np.nanmean(values)) for name, values in scores.items()}
    pairs = list(combinations([arm.id for arm in arms], 2))
    p = holm([_compare(study, a, b) for a, b in pairs])
    told = [pair for pair, value in zip(pairs, p, strict=True) if value < LEVEL]
    against = [(a, b) for a, b in told if (ours[a] < ours[b]) != (theirs[a] < theirs[b])]
    names = {arm.id: arm.label for arm in arms}
    lists = [", ".join(names[a] for a in sorted(names, key=means.__getitem__)) for means in (theirs, ours)]
    sizes = sorted({len(values) for values in scores.values()})
    seeds = f"{sizes[0]} seeds tell" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} seeds per arm tell"
    text = (
        f"Order in the paper, best first: {lists[0]}. Ours: {lists[1]}. Of {len(pairs)} pairs our {seeds} "
        f"{len(told)} apart (paired tests over common seeds, Holm)"
    )
    if not against:
        return [text + ("; none of these is ordered against the paper." if told else ".")]
    listed = "; ".join(f"{names[a]} and {names[b]}" for a, b in against)
    return [f"{text}; ordered against the paper: {listed}."]


def _compare(study: Study, one: str, other: str) -> float:
    """p-value that two arms, each at its selected step size, score the same over the seeds that both have."""
    ours, theirs = selected_of(study, (one, other))
    return paired_test(ours[:, -1], theirs[:, -1], resamples=5_000)


def _sizes(study: Study) -> list[str]:
    found = []
    if study.shortened:
        found.append(
            f"These runs are shorter than the protocol: {study.length:,} of {study.description['episodes']:,} "
            "episodes. "
            "They show that everything works; they decide nothing."
        )
    if study.absent:
        found.append(f"Not run at this profile: {labels(study.absent)}.")
    for arm in study.reduced:
        assert arm.runs is not None
        tried = "1 step size" if len(arm.runs.exponents) == 1 else f"{len(arm.runs.exponents)} step sizes"
        found.append(
            f"{arm.label} ran at a reduced size ({seeds_text(len(arm.runs.seeds))}, {arm.runs.length:,} episodes, "
            f"{tried}) and is left out of comparisons at the end of training."
        )
    for arm in study.arms:
        broken = (
            0 if arm.runs is None else int(np.sum(arm.runs.columns.get("broken", np.zeros((1, 1, 1)))[:, :, -1] > 0))
        )
        if broken:
            why = "(its loss was not finite); their scores are left out from there"
            found.append(f"{arm.label}: the network of {broken} runs broke down {why}.")
    if study.seeds > PAPER_SEEDS:
        found.append(
            f"Arms have up to {study.seeds} seeds, the paper {PAPER_SEEDS}. Tables give both; plots and claims use all."
        )
    return found


def summary(claims: Sequence[Claim]) -> str:
    """One sentence about all claims."""
    parts = []
    for status, words in (
        ("holds", ("holds", "hold")),
        ("does not hold", ("does not hold", "do not hold")),
        ("undecided", ("is undecided with this many seeds", "are undecided with this many seeds")),
        ("not run", ("could not be judged from these runs",) * 2),
    ):
        count = sum(claim.status == status for claim in claims)
        if count:
            parts.append(f"{count} {words[count > 1]}")
    return f"Of {len(claims)} claims, " + ", ".join(parts) + "."


def duration(seconds: float) -> str:
    """A time span in words."""
    if seconds < 120:
        return f"{number_text(seconds, 100)} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"
