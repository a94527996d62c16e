"""Claims that the atlas judges. Each has its criterion as text, written before the data, and code that applies it.

"Supported" in a criterion is the verdict "holds", "not supported" is "does not hold", and "mixed" is "holds in part",
or "not shown" where an interval of a difference contains 0. A claim is not run where a method or a family is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from chunked_td.lab.studies.atlas.protocol import ProblemKey
from chunked_td.lab.studies.atlas.results import CreditMap
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN, Claim, Verdict
from chunked_td.lab.wording import estimate_text, list_text, score_text
from chunked_td.statistics import Estimate

HIGH = 0.95
"""A relative score that counts as good as the best fixed λ."""
MARGIN = 0.1
"""Two methods do alike if the interval of their mean difference lies within ± this relative score."""
ERRORS = ("corrupted", "permuted", "stale")
CHUNKING, PAPER, PLANNERS = "expected", "forward", ("dyna", "solved")
SUTTON_SINGH = ("td-n-over-n", "tdc")


class ModelLoss(NamedTuple):
    """What a method loses by a wrong model: relative scores with the right model, with the wrong one, and the loss."""

    right: Estimate
    wrong: Estimate
    loss: Estimate
    problems: int


def model_losses(atlas: CreditMap) -> dict[tuple[str, str], ModelLoss]:
    """{(error, method)}: every method that was run with a wrong model, on the problems where it was."""
    found = {}
    for error in ERRORS:
        for method in (CHUNKING, PAPER, *PLANNERS):
            wrong = f"{method}-{error}"
            if keys := atlas.common(wrong, method):
                right, lost = atlas.mean_estimate(method, keys), atlas.difference(method, wrong, keys)
                found[error, method] = ModelLoss(right, atlas.mean_estimate(wrong, keys), lost, len(keys))
    return found


def _judge_robustness(atlas: CreditMap, _: Mapping[str, Any]) -> Verdict:
    losses = {key: found.loss for key, found in model_losses(atlas).items()}
    if any((error, name) not in losses for error in ERRORS for name in (CHUNKING, *PLANNERS)):
        return Verdict(NOT_RUN, "These runs do not have all three errors.")
    texts = []
    for error in ERRORS:
        paper = f", the paper's λ {estimate_text(losses[error, PAPER])}" if (error, PAPER) in losses else ""
        ours, dyna, solved = (estimate_text(losses[error, name]) for name in (CHUNKING, *PLANNERS))
        texts.append(
            f"Model {error}: expected chunking loses {ours}{paper}, Dyna {dyna}, certainty equivalence {solved}."
        )
    if all((error, PAPER) in losses for error in ERRORS):
        texts.append(f"With the paper's λ in the place of expected chunking: {_robustness(losses, PAPER)}.")
    texts.append(
        "The permutation is one to one, which leaves Σ P̂² as it was, so expected chunking can lose nothing by it but "
        "what differs between actions."
    )
    return Verdict(_robustness(losses, CHUNKING), " ".join(texts))


def _robustness(losses: Mapping[tuple[str, str], Estimate], method: str) -> str:
    """The verdict on wrong models, with this method for chunking."""
    smaller, apart = 0, 0
    for error in ERRORS:
        ours, theirs = losses[error, method], [losses[error, name] for name in PLANNERS]
        smaller += all(ours.value < other.value for other in theirs)
        apart += all(ours.high < other.low for other in theirs)
    return _status(smaller == len(ERRORS) and apart >= 2, smaller)


def _status(whole: bool, part: Any) -> str:
    return HOLDS if whole else IN_PART if part else FAILS


Scores = Mapping[str, Sequence[Estimate]]
"""{method: its relative scores on the three problems of a family}."""


def _on_family(family: str, missing: str, methods: Sequence[str]) -> Callable[[Any], Callable[..., Verdict]]:
    """A decorator: a judge of methods' scores on a family's problems, not run unless all three have these methods."""

    def decorate(judge: Callable[[Scores, list[ProblemKey]], Verdict]) -> Callable[..., Verdict]:
        def judged(atlas: CreditMap, _: Mapping[str, Any]) -> Verdict:
            keys = list(atlas.families.get(family, ()))
            if len(keys) != 3 or not atlas.has(*methods, problems=keys):
                return Verdict(NOT_RUN, f"Needs all three settings of {family}{missing}.")
            there = [method for method in atlas.methods if atlas.has(method, problems=keys)]
            return judge({name: [atlas.cells[key, name].relative for key in keys] for name in there}, keys)

        return judged

    return decorate


@_on_family("fan-in", " with both methods", ("backward", "forward"))
def _judge_fan_in(scores: Scores, keys: list[ProblemKey]) -> Verdict:
    pairs = list(zip(scores["backward"], scores["forward"], strict=True))
    apart = sum(backward.above(forward) for backward, forward in pairs)
    above = sum(backward.value > forward.value for backward, forward in pairs)
    texts = _texts(scores, keys, {"backward": "backward", "forward": "forward"})
    return Verdict(_status(apart >= 2, apart or above == len(keys)), " ".join(texts))


def _texts(scores: Scores, keys: Sequence[ProblemKey], methods: Mapping[str, str]) -> list[str]:
    """The scores of some methods (id: name) on problems of fan-in, a sentence each."""
    listed = [[f"{name} {estimate_text(score)}" for score in scores[method]] for method, name in methods.items()]
    return [f"{key.setting} starts: {', '.join(parts)}." for key, *parts in zip(keys, *listed, strict=True)]


def _values(scores: Sequence[Estimate]) -> str:
    return list_text([score_text(score.value) for score in scores])


def _handicap(scores: Scores) -> list[str]:
    """What the methods of Sutton and Singh have against them here, in a sentence."""
    if "naive-td0" not in scores:
        return []
    return [
        "Not an equal comparison: they have step sizes of 1/n and SARSA's bootstrap, while the policy changes, the "
        f"others Expected-SARSA and the best of twelve step sizes. TD(0) with 1/n has {_values(scores['naive-td0'])}."
    ]


@_on_family("fan-in", " with TD(n/n), TDC and chunking", ("forward", *SUTTON_SINGH))
def _judge_sutton_singh(scores: Scores, keys: list[ProblemKey]) -> Verdict:
    above = [
        sum(ours.above(theirs) for ours, theirs in zip(scores[method], scores["forward"], strict=True))
        for method in SUTTON_SINGH
    ]
    texts = _texts(scores, keys, {"td-n-over-n": "TD(n/n)", "tdc": "TDC", "forward": "forward"})
    return Verdict(_status(min(above) >= 2, max(above)), " ".join([*texts, *_handicap(scores)]))


@_on_family("fan-in", " with TDC and backward chunking", ("backward", "tdc"))
def _judge_correction(scores: Scores, keys: list[ProblemKey]) -> Verdict:
    level = sum(ours.value >= theirs.low for ours, theirs in zip(scores["tdc"], scores["backward"], strict=True))
    texts = _texts(scores, keys, {"tdc": "TDC", "backward": "backward"})
    return Verdict(_status(level == len(keys), level), " ".join([*texts, *_handicap(scores)]))


@_on_family("policy", "", ("forward",))
def _judge_same_next(scores: Scores, keys: list[ProblemKey]) -> Verdict:
    found = scores["forward"]
    high = sum(score.value >= HIGH for score in found)
    texts = [f"{key.setting} actions: {estimate_text(score)}." for key, score in zip(keys, found, strict=True)]
    if "forward-sarsa" in scores:
        told = _values(scores["forward-sarsa"])
        texts.append(f"Chunked SARSA, whose λ has the probability of the next action in it, has {told}.")
    return Verdict(_status(high == len(found), high), " ".join(texts))


def _detectable(verdict: str, gap: Estimate) -> str:
    """The difference that an interval of this width would have shown, where none is shown."""
    return f"a difference above {score_text(gap.half_width)}" if verdict == NOT_SHOWN else ""


def _judge_sampled(atlas: CreditMap, _: Mapping[str, Any]) -> Verdict:
    pair = "forward-sarsa", "sampled-sarsa"
    if not (keys := atlas.common(*pair)):
        return Verdict(NOT_RUN, "Needs Chunked SARSA and sampled chunks.")
    gap = atlas.difference(*pair, keys)
    alike = gap.low >= -MARGIN and gap.high <= MARGIN
    verdict = FAILS if gap.low > 0 else HOLDS if alike or gap.high < 0 else NOT_SHOWN
    text = f"λ form minus sampled chunks, mean over {len(keys)} problems: {estimate_text(gap)}"
    return Verdict(verdict, text, _detectable(verdict, gap))


def _judge_literal(atlas: CreditMap, _: Mapping[str, Any]) -> Verdict:
    pair = "forward", "forward-literal"
    if not (keys := atlas.common(*pair)):
        return Verdict(NOT_RUN, "Needs both readings of the paper's λ.")
    gap = atlas.difference(*pair, keys)
    verdict = HOLDS if gap.low > 0 else NOT_SHOWN if not gap.shown else FAILS
    texts = [f"Renormalised minus literal, mean over {len(keys)} problems: {estimate_text(gap)}."]
    if differ := [key for key in keys if not atlas.same_runs(*pair, key)]:
        gaps = atlas.relative(pair[0], differ) - atlas.relative(pair[1], differ)
        texts.append(
            f"On the {len(differ)} where their runs differ: {estimate_text(atlas.difference(*pair, differ))}, from "
            f"{score_text(gaps.min())} ({differ[int(gaps.argmin())].name}) to {score_text(gaps.max())} "
            f"({differ[int(gaps.argmax())].name})."
        )
    return Verdict(verdict, " ".join(texts).rstrip("."), _detectable(verdict, gap))


def _claim(name: str, text: str, criterion: str, judge: Callable[..., Verdict], short: str) -> Claim:
    return Claim(name, "ours", text, criterion, (), judge, short, figure="atlas.html")


ROBUSTNESS = _claim(
    "robust-to-model-errors",
    "Chunking is robust to errors of the model where planning with the same model is not.",
    "Supported if, for each of the three errors, the mean loss of expected chunking over the wrong-model families is "
    "smaller than that of Dyna and of certainty equivalence, with disjoint 95 % bootstrap intervals for at least two "
    "of the three. Mixed if its mean loss is the smallest for some of the errors, but not all of that is met; not "
    "supported if for none. (The intervals were over problems × seeds at first. After the data a review found that the "
    "settings of a family are not independent; since then families are drawn, then settings, then seeds.)",
    _judge_robustness,
    "robust to wrong models, unlike planning",
)
"""The paper's claim about wrong models."""

CLAIMS = (
    ROBUSTNESS,
    _claim(
        "backward-fan-in",
        "Where many ways lead in, backward models assign credit better than forward models.",
        "Family fan-in: supported if the interval of backward chunking lies above that of the paper's chunking on at "
        "least two of the three settings; mixed if on one, or if its mean is above on all three; not supported "
        "otherwise.",
        _judge_fan_in,
        "backward beats forward at fan-in",
    ),
    _claim(
        "sutton-singh-fan-in",
        "Where many ways lead in, Sutton and Singh's TD(n/n) and TDC assign credit better than forward models.",
        "Family fan-in: supported if the interval of each of the two lies above that of the paper's chunking on at "
        "least two of the three settings; mixed if that of one of them does on some setting; not supported otherwise.",
        _judge_sutton_singh,
        "Sutton and Singh's methods beat forward at fan-in",
    ),
    _claim(
        "tdc-and-backward",
        "Where many ways lead in, TDC, which has no step size to tune, does as well as backward chunking at its best "
        "step size.",
        "Family fan-in: supported if the mean of TDC lies above the lower end of the interval of backward chunking on "
        "all three settings; mixed if on some; not supported if on none.",
        _judge_correction,
        "TDC does as well as backward at fan-in",
    ),
    _claim(
        "same-next-state",
        "With Expected-SARSA, several actions with the same next state do not cut credit.",
        "Family policy: supported if the relative score of the paper's chunking (with Expected-SARSA) is at least "
        f"{HIGH} on all three settings; mixed if on some; not supported if on none.",
        _judge_same_next,
        "like actions do not cut credit",
    ),
    _claim(
        "sampled-chunks",
        "Sampled chunks do as well as the λ form.",
        "Chunked SARSA minus sampled chunks, mean difference over all problems that both ran on: supported if its "
        f"interval lies within ±{MARGIN} and contains 0, or lies below 0; not supported if it lies above 0; mixed "
        "if it contains 0 and is wider.",
        _judge_sampled,
        "sampled chunks do as well",
    ),
    _claim(
        "literal-reading",
        "Taking actions never tried for impossible, as the paper's formula literally says, is worse.",
        "The paper's λ renormalised over tried actions minus its literal reading, mean difference over all problems: "
        "supported if its interval lies above 0; mixed if it contains 0; not supported if it lies below 0.",
        _judge_literal,
        "literal reading is worse",
    ),
)
"""Every claim, in the order of the page."""
