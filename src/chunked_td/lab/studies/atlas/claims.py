"""Claims that the atlas judges. Each has its criterion as text, written before the data, and code that applies it.

"Supported" in a criterion is the verdict "holds", "not supported" is "does not hold", and "mixed" is "holds in part",
or "not shown" where an interval of a difference contains 0. A claim is not run where a method or a family is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chunked_td.lab.statistics import Estimate
from chunked_td.lab.studies.atlas.protocol import ProblemKey
from chunked_td.lab.studies.atlas.ranking import AtlasBootstrap, estimate_text, score_text
from chunked_td.lab.studies.atlas.results import AtlasResults, CreditMap
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN, Claim, Verdict
from chunked_td.lab.wording import list_text

HIGH = 0.95
"""A relative score that counts as good as the best fixed λ."""
MARGIN = 0.1
"""Two methods do alike if the interval of their mean difference lies within ± this relative score."""
ERRORS = ("corrupted", "permuted", "stale")
CHUNKING, PAPER, PLANNERS = "expected", "forward", ("dyna", "solved")
SUTTON_SINGH = ("td-n-over-n", "tdc")


@dataclass(frozen=True)
class ModelLoss:
    """What a method loses by a wrong model: relative scores with the right model, with the wrong one, and the loss."""

    error: str
    method: str
    right: Estimate
    wrong: Estimate
    loss: Estimate
    problems: int


def model_losses(atlas: CreditMap, bootstrap: AtlasBootstrap) -> list[ModelLoss]:
    """Every method that was run with a wrong model, error by error, on the problems where it was."""
    found = []
    for error in ERRORS:
        for method in (CHUNKING, PAPER, *PLANNERS):
            wrong = f"{method}-{error}"
            problems = [key for key in atlas.main() if atlas.has(wrong, [key]) and atlas.has(method, [key])]
            if problems:
                found.append(
                    ModelLoss(
                        error=error,
                        method=method,
                        right=bootstrap.mean(method, problems),
                        wrong=bootstrap.mean(wrong, problems),
                        loss=bootstrap.difference(method, wrong, problems),
                        problems=len(problems),
                    )
                )
    return found


def _judge_robustness(results: AtlasResults, _: Mapping[str, Any]) -> Verdict:
    atlas, bootstrap = results.atlas, results.bootstrap
    losses = {(loss.error, loss.method): loss.loss for loss in model_losses(atlas, bootstrap)}
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
    whole = smaller == len(ERRORS) and apart >= 2
    return HOLDS if whole else IN_PART if smaller else FAILS


def _on_family(family: str, missing: str, methods: Sequence[str]) -> Callable[[Any], Callable[..., Verdict]]:
    """A decorator: a judge of the map and a family's problems, not run unless all have these methods."""

    def decorate(judge: Callable[[CreditMap, list[ProblemKey]], Verdict]) -> Callable[..., Verdict]:
        def judged(results: AtlasResults, _: Mapping[str, Any]) -> Verdict:
            keys = [key for key in results.atlas.main() if key.family == family]
            there = len(keys) == 3 and all(results.atlas.has(method, keys) for method in methods)
            needed = f"Needs all three settings of {family}{missing}."
            return judge(results.atlas, keys) if there else Verdict(NOT_RUN, needed)

        return judged

    return decorate


@_on_family("fan-in", " with both methods", ("backward", "forward"))
def _judge_fan_in(atlas: CreditMap, keys: list[ProblemKey]) -> Verdict:
    pairs = [(atlas.cells[key, "backward"], atlas.cells[key, "forward"]) for key in keys]
    apart = sum(backward.low > forward.high for backward, forward in pairs)
    above = sum(backward.relative > forward.relative for backward, forward in pairs)
    verdict = HOLDS if apart >= 2 else IN_PART if apart or above == len(keys) else FAILS
    return Verdict(verdict, " ".join(_texts(atlas, keys, {"backward": "backward", "forward": "forward"})))


def _texts(atlas: CreditMap, keys: Sequence[ProblemKey], methods: Mapping[str, str]) -> tuple[str, ...]:
    """The scores of some methods (id: name) on problems of fan-in, a sentence each."""
    found = []
    for key in keys:
        cells = [(name, atlas.cells[key, method]) for method, name in methods.items()]
        listed = ", ".join(f"{name} {estimate_text((c.relative, c.low, c.high))}" for name, c in cells)
        found.append(f"{key.setting} starts: {listed}.")
    return tuple(found)


def _handicap(atlas: CreditMap, keys: Sequence[ProblemKey]) -> tuple[str, ...]:
    """What the methods of Sutton and Singh have against them here, in a sentence."""
    if not all(atlas.has("naive-td0", [key]) for key in keys):
        return ()
    scores = list_text([score_text(atlas.cells[key, "naive-td0"].relative) for key in keys])
    return (
        "Not an equal comparison: they have step sizes of 1/n and SARSA's bootstrap, while the policy changes, the "
        f"others Expected-SARSA and the best of twelve step sizes. TD(0) with 1/n has {scores}.",
    )


@_on_family("fan-in", " with TD(n/n), TDC and chunking", ("forward", *SUTTON_SINGH))
def _judge_sutton_singh(atlas: CreditMap, keys: list[ProblemKey]) -> Verdict:
    above = [
        sum(atlas.cells[key, method].low > atlas.cells[key, "forward"].high for key in keys) for method in SUTTON_SINGH
    ]
    verdict = HOLDS if min(above) >= 2 else IN_PART if max(above) else FAILS
    texts = _texts(atlas, keys, {"td-n-over-n": "TD(n/n)", "tdc": "TDC", "forward": "forward"})
    return Verdict(verdict, " ".join((*texts, *_handicap(atlas, keys))))


@_on_family("fan-in", " with TDC and backward chunking", ("backward", "tdc"))
def _judge_correction(atlas: CreditMap, keys: list[ProblemKey]) -> Verdict:
    level = sum(atlas.cells[key, "tdc"].relative >= atlas.cells[key, "backward"].low for key in keys)
    verdict = HOLDS if level == len(keys) else IN_PART if level else FAILS
    texts = _texts(atlas, keys, {"tdc": "TDC", "backward": "backward"})
    return Verdict(verdict, " ".join((*texts, *_handicap(atlas, keys))))


@_on_family("policy", "", ("forward",))
def _judge_same_next(atlas: CreditMap, keys: list[ProblemKey]) -> Verdict:
    cells = [atlas.cells[key, "forward"] for key in keys]
    high = sum(cell.relative >= HIGH for cell in cells)
    texts = [
        f"{key.setting} actions: {estimate_text((c.relative, c.low, c.high))}."
        for key, c in zip(keys, cells, strict=True)
    ]
    if all(atlas.has("forward-sarsa", [key]) for key in keys):
        scores = list_text([score_text(atlas.cells[key, "forward-sarsa"].relative) for key in keys])
        texts.append(f"Chunked SARSA, whose λ has the probability of the next action in it, has {scores}.")
    verdict = HOLDS if high == len(cells) else IN_PART if high else FAILS
    return Verdict(verdict, " ".join(texts))


def _difference(atlas: CreditMap, bootstrap: AtlasBootstrap, one: str, other: str) -> tuple[Estimate | None, int]:
    keys = [key for key in atlas.main() if atlas.has(one, [key]) and atlas.has(other, [key])]
    return (bootstrap.difference(one, other, keys) if keys else None), len(keys)


def _detectable(gap: Estimate) -> str:
    """The difference that an interval of this width would have shown."""
    return f"a difference above {score_text(gap.half_width)}"


def _judge_sampled(results: AtlasResults, _: Mapping[str, Any]) -> Verdict:
    atlas, bootstrap = results.atlas, results.bootstrap
    gap, count = _difference(atlas, bootstrap, "forward-sarsa", "sampled-sarsa")
    if gap is None:
        return Verdict(NOT_RUN, "Needs Chunked SARSA and sampled chunks.")
    alike = gap.low >= -MARGIN and gap.high <= MARGIN
    verdict = FAILS if gap.low > 0 else HOLDS if alike or gap.high < 0 else NOT_SHOWN
    text = f"λ form minus sampled chunks, mean over {count} problems: {estimate_text(gap)}"
    return Verdict(verdict, text, _detectable(gap) if verdict == NOT_SHOWN else "")


def _judge_literal(results: AtlasResults, _: Mapping[str, Any]) -> Verdict:
    atlas, bootstrap = results.atlas, results.bootstrap
    gap, count = _difference(atlas, bootstrap, "forward", "forward-literal")
    if gap is None:
        return Verdict(NOT_RUN, "Needs both readings of the paper's λ.")
    verdict = HOLDS if gap.low > 0 else NOT_SHOWN if not gap.shown else FAILS
    texts = [f"Renormalised minus literal, mean over {count} problems: {estimate_text(gap)}."]
    keys = [key for key in atlas.main() if atlas.has("forward", [key]) and atlas.has("forward-literal", [key])]
    if differ := [key for key in keys if not atlas.same_runs("forward", "forward-literal", key)]:
        gaps = atlas.relative("forward", differ) - atlas.relative("forward-literal", differ)
        there = bootstrap.difference("forward", "forward-literal", differ)
        texts.append(
            f"On the {len(differ)} where their runs differ: {estimate_text(there)}, from {score_text(gaps.min())} "
            f"({differ[int(gaps.argmin())].name}) to {score_text(gaps.max())} ({differ[int(gaps.argmax())].name})."
        )
    return Verdict(verdict, " ".join(texts).rstrip("."), _detectable(gap) if verdict == NOT_SHOWN else "")


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
