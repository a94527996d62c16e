"""The list of claims: what the paper says of its three experiments, and what we say of its λ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chunked_td.lab.claims import (
    FAILS,
    HOLDS,
    LEVEL,
    NOT_RUN,
    RELIABLE,
    SEVERAL,
    UNDECIDED,
    Question,
    Verdict,
    best_across_step_sizes,
    inside,
    interval_text,
    none_reliable,
    reliability,
    runs_of,
    same_step_sizes,
    scores_of,
    selected_curves,
    selected_of,
    shared,
    smaller,
)
from chunked_td.lab.experiments.skewed_split import BIASED_FIXED_POINT, TRUTH
from chunked_td.lab.statistics import mean_sd, paired_test
from chunked_td.lab.studies import Study, mean_and_interval
from chunked_td.lab.tables import number_text

EARLY = 100_000
NEAR = 1.05  # near the floor: no more than 5 % above it
CLOSE = 0.05  # how near V(s₀) must come to a fixed point
SIGN_MARGIN = 500  # regretful choices of 10,000 that we call no difference


def _fastest(study: Study, _: Mapping[str, Study]) -> Verdict:
    names = ("Chunked SARSA", "SARSA(0)", "SARSA(1)")
    early = runs_of(study, "chunked").episodes <= EARLY
    curves = selected_of(study, ("chunked", "sarsa-0", "sarsa-1"))
    wrong = {name: 100 * np.mean(part[:, early] <= 0, axis=1) for name, part in zip(names, curves, strict=True)}
    shares = ", ".join(f"{label} {np.mean(values):.0f} %" for label, values in wrong.items())
    status, evidence = smaller(wrong.pop("Chunked SARSA"), wrong)
    return Verdict(status, f"checkpoints with a wrong order: {shares}; difference {evidence}")


def _approaches(study: Study, _: Mapping[str, Study]) -> Verdict:
    episodes, curves = selected_curves(study, "chunked")
    truth = study.description["best"]
    parts = []
    for episode in (EARLY, int(episodes[-1])):
        values = curves[:, episodes == episode][:, 0]
        low, high, text = interval_text(values)
        parts.append((inside(low, high, 0.5 * truth, 1.5 * truth), f"ΔQ after {episode:,} episodes {text}"))
    return Verdict(parts[0][0], "; ".join(text for _, text in parts))


def _monte_carlo_negative(study: Study, _: Mapping[str, Study]) -> Verdict:
    episodes, curves = selected_curves(study, "sarsa-1")
    low, high, text = interval_text(curves[:, episodes <= EARLY // 2].mean(axis=1))
    status = inside(low, high, -np.inf, 0.0)
    return Verdict(status, f"mean ΔQ of SARSA(1) over the first {EARLY // 2:,} episodes {text}")


def _positive_in_the_end(study: Study, _: Mapping[str, Study]) -> Verdict:
    states, texts = [], []
    for name, label in (("sarsa-0", "SARSA(0)"), ("sarsa-1", "SARSA(1)")):
        low, high, text = interval_text(selected_curves(study, name)[1][:, -1])
        states.append(inside(low, high, 0.0, np.inf))
        texts.append(f"{label} {text}")
    return Verdict(_all(states), "; ".join(texts))


def _all(states: list[str]) -> str:
    return FAILS if FAILS in states else UNDECIDED if UNDECIDED in states else HOLDS


def _no_reliable_fixed(study: Study, _: Mapping[str, Study]) -> Verdict:
    return none_reliable(study, [arm.id for arm in study.present if arm.fixed_lambda is not None])


def _sign_does_not_matter(study: Study, studies: Mapping[str, Study]) -> Verdict:
    """`study` is the mirrored control; compares Chunked SARSA there with the original, averaged over step sizes."""
    original = studies.get("accumulated-charge")
    if original is None or original.find("chunked") is None:
        return Verdict(NOT_RUN, "no runs of the original problem")
    pair = shared(runs_of(study, "chunked"), runs_of(original, "chunked"))
    mirrored, plain = (runs.at().mean(axis=0) for runs in pair)
    low, high, text = interval_text(mirrored - plain)
    p = paired_test(mirrored, plain)
    status = UNDECIDED
    if low >= -SIGN_MARGIN and high <= SIGN_MARGIN:
        status = HOLDS
    elif p < LEVEL:
        status = FAILS
    means = [number_text(float(np.mean(values))) for values in (plain, mirrored)]
    return Verdict(status, f"mean over step sizes {means[0]}, mirrored {means[1]}; difference {text}, p = {p:.2g}")


def _default_unreliable(study: Study, _: Mapping[str, Study]) -> Verdict:
    return none_reliable(study, ["c-default"])


def _near_floor(study: Study, _: Mapping[str, Study]) -> Verdict:
    scores = scores_of(study, "c-factored")
    low, high, text = interval_text(scores)
    sd = float(mean_sd(scores)[1])
    status = inside(low, high, -np.inf, NEAR * study.description["best"])
    return Verdict(status, f"{text}, standard deviation {number_text(sd, 100)}; {reliability(study, 'c-factored')[1]}")


def _low_at_several(arm: str, factor: float):
    """Whether an arm's mean is below `factor` times the best possible score at several step sizes."""

    def judge(study: Study, _: Mapping[str, Study]) -> Verdict:
        runs = runs_of(study, arm)
        limit = factor * study.description["best"]
        mean, interval = mean_and_interval(runs.at().T)
        shown, possible = int(np.sum(interval.high < limit)), int(np.sum(interval.low < limit))
        status = HOLDS if shown >= SEVERAL else FAILS if possible < SEVERAL else UNDECIDED
        listed = ", ".join(f"α = {a:.2g}: {number_text(float(m))}" for a, m in zip(runs.step_sizes, mean, strict=True))
        return Verdict(status, f"at {shown} of {len(mean)} step sizes; {listed}")

    return judge


def _factored_best(study: Study, _: Mapping[str, Study]) -> Verdict:
    rivals = [arm for arm in study.present if arm.in_paper and arm.id != "c-factored"]
    ours, *others = (curves[:, -1] for curves in selected_of(study, ("c-factored", *(arm.id for arm in rivals))))
    return Verdict(*smaller(ours, {arm.label: scores for arm, scores in zip(rivals, others, strict=True)}))


def _settles_at(arm: str, target: float):
    def judge(study: Study, _: Mapping[str, Study]) -> Verdict:
        runs = runs_of(study, arm)
        late = runs.columns["score"][-1][:, runs.episodes > runs.length // 2].mean(axis=1)
        low, high, text = interval_text(late)
        status = inside(low, high, target - CLOSE, target + CLOSE)
        return Verdict(status, f"V(s₀) over the second half, α = {runs.step_sizes[-1]:.2g}: {text}")

    return judge


def _same(study: Study, _: Mapping[str, Study]) -> Verdict:
    return same_step_sizes(study)


def _best_everywhere(study: Study, _: Mapping[str, Study]) -> Verdict:
    return best_across_step_sizes(study, "chunked")


CNS, AC, MIRRORED, KTD, SKEWED = (
    "chain-and-split",
    "accumulated-charge",
    "accumulated-charge-mirrored",
    "key-to-door",
    "skewed-split",
)
CNS_ARMS = ("sarsa-0", "sarsa-1", "chunked")
AC_FIXED = tuple(f"sarsa-{value:g}" for value in (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1))
KTD_FIXED = tuple(f"expected-sarsa-{value:g}" for value in (0, 0.1, 0.5, 0.9, 1))
SEVERAL_TEXT = (
    f"At {SEVERAL} or more step sizes its mean is below that of the best fixed λ at that step size (paired test, "
    f"Holm over step sizes). It does not hold if its mean is least at fewer than {SEVERAL}."
)
RELIABLE_TEXT = (
    f"A run learns if it misses fewer than twice the best possible number; an arm is reliable if {RELIABLE:.0%} of its "
    "runs do (or all of ten or more). Holds if the interval of the share lies below that"
)
SAME_TEXT = (
    "The selected exponents are equal. It does not hold if for some arm the paper's step size is shown to be worse "
    "than ours by the measure of selection (paired test, Holm); undecided otherwise."
)

QUESTIONS: tuple[Question, ...] = (
    Question(
        "gap-fastest", CNS, "§5.1, Figure 4",
        "Chunked SARSA finds that a₁ is best sooner than SARSA(0) and SARSA(1) do.",
        f"ΔQ ≤ 0 at a smaller share of the checkpoints up to {EARLY:,} episodes than either (paired tests, Holm).",
        CNS_ARMS, _fastest,
    ),
    Question(
        "gap-approaches", CNS, "§5.1, Figure 4", "Chunked SARSA approaches the true gap of 0.01.",
        f"The interval of ΔQ after {EARLY:,} episodes lies within half of the truth on either side.",
        ("chunked",), _approaches,
    ),
    Question(
        "gap-monte-carlo", CNS, "§5.1, Figure 4", "SARSA(1) has negative values of ΔQ early on.",
        f"The interval of the mean ΔQ over the first {EARLY // 2:,} episodes lies below 0.",
        ("sarsa-1",), _monte_carlo_negative,
    ),
    Question(
        "gap-in-the-end", CNS, "App. A.1, Figure 6",
        "SARSA(0) and SARSA(1) reach positive gaps with ten times the data.",
        "The intervals of both lie above 0 after 1,000,000 episodes.", ("sarsa-0", "sarsa-1"), _positive_in_the_end,
    ),
    Question(
        "gap-step-sizes", CNS, "App. A.1, Table 2", "The selected step sizes are the paper's.", SAME_TEXT,
        CNS_ARMS, _same,
    ),
    Question(
        "charge-best", AC, "§5.2, Figure 5", "Chunked SARSA performs best across several step sizes.", SEVERAL_TEXT,
        ("chunked", *AC_FIXED), _best_everywhere,
    ),
    Question(
        "charge-floor", AC, "§5.2, Figure 5",
        "Chunked SARSA comes near the best possible number, 950, at several step sizes.",
        f"At {SEVERAL} or more step sizes the interval of the mean lies below {NEAR:g} × 950.",
        ("chunked",), _low_at_several("chunked", NEAR),
    ),
    Question(
        "charge-fixed", AC, "§5.2, App. A.2", "No fixed λ reliably prefers a₁.",
        RELIABLE_TEXT + ", for every fixed λ at its best step size.", AC_FIXED, _no_reliable_fixed,
    ),
    Question(
        "charge-mirrored", MIRRORED, "ours, a control",
        "The advantage of Chunked SARSA survives when the sign of the charge's reward is turned round.",
        SEVERAL_TEXT, ("chunked", *AC_FIXED), _best_everywhere,
    ),
    Question(
        "charge-sign", MIRRORED, "ours, a control",
        "Chunked SARSA does as well with either sign, as an unbiased learner would.",
        f"The interval of the difference, averaged over step sizes, lies within ±{SIGN_MARGIN}; it does not hold if it "
        "does not and a paired test says that they differ.",
        ("chunked",), _sign_does_not_matter,
    ),
    Question(
        "treasure-fixed", KTD, "§5.3, Table 1", "No fixed λ reliably learns to collect the treasure.",
        RELIABLE_TEXT + ", for every fixed λ at its selected step size.", KTD_FIXED, _no_reliable_fixed,
    ),
    Question(
        "treasure-default", KTD, "§5.3, Table 1", "C-default does not reliably learn either.", RELIABLE_TEXT + ".",
        ("c-default",), _default_unreliable,
    ),
    Question(
        "treasure-floor", KTD, "§5.3, Table 1", "C-factored comes near the best possible number, 668.",
        f"The interval of the mean lies below {NEAR:g} × 668.", ("c-factored",), _near_floor,
    ),
    Question(
        "treasure-best", KTD, "§5.3, Table 1", "C-factored misses fewer treasures than every other arm.",
        "Paired tests against every other arm of the paper, each at its selected step size (Holm).",
        ("c-default", "c-factored", *KTD_FIXED), _factored_best,
    ),
    Question(
        "treasure-robust", KTD, "App. A.3, Figure 8", "C-factored does well at many step sizes.",
        f"At {SEVERAL} or more of its step sizes the interval of the mean lies below twice 668.",
        ("c-factored",), _low_at_several("c-factored", 2.0),
    ),
    Question(
        "treasure-step-sizes", KTD, "App. A.3, Table 5", "The selected step sizes are the paper's.", SAME_TEXT,
        ("c-default", "c-factored", *KTD_FIXED), _same,
    ),
    Question(
        "bias-forward", SKEWED, "ours",
        "Chunked-TD settles at 0.28, not at the true value 1: its λ knows the outcome that it weighs.",
        f"At the smallest step size the interval of V(s₀) over the second half of the runs lies within {CLOSE} of "
        "0.28.",
        ("chunked",), _settles_at("chunked", BIASED_FIXED_POINT),
    ),
    Question(
        "bias-expected", SKEWED, "ours", "With the expected probability as λ, V(s₀) settles at the true value 1.",
        f"The same, within {CLOSE} of 1.", ("expected",), _settles_at("expected", TRUTH),
    ),
)  # fmt: skip
