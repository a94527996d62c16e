"""The methods of the atlas: ways to assign credit, each with one setting; only the step size is tuned, alike for all.

A method is an `Arm` of the lab: the fixed λs, every λ source of the package, and an entry here for each other one. All
bootstrap from Expected-SARSA unless they say otherwise, so that λ is what differs. Constants are the defaults of the
classes, but for what planning may cost: Dyna and prioritised sweeping make 5 updates per step (default 10), certainty
equivalence at most 50 sweeps per episode (default 1,000). λ = 0.9 of other updates is our choice, too.

Those that `chunked-td atlas` takes three scores of are `scored_methods`. Yours is a Python file with λ sources (classes
that derive from `LambdaSource`, used with their default settings), or with a module-level `METHODS`, a list of `Arm`:

    chunked-td atlas --method mine.py
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from chunked_td._loading import load_file
from chunked_td.lab.errors import UsageError
from chunked_td.lab.studies.atlas.families import FIRST, PREDICTION
from chunked_td.lab.study import Arm
from chunked_td.lambdas import SOURCES
from chunked_td.lambdas.base import MODEL, LambdaSource
from chunked_td.lambdas.expected import ExpectedLambda
from chunked_td.lambdas.forward import ForwardLambda
from chunked_td.lambdas.names import CHUNKED
from chunked_td.lambdas.names import FIXED as FIXED_GROUP
from chunked_td.lambdas.reading import read_sources, required_settings
from chunked_td.learners.planning.certainty_equivalence import CertaintyEquivalence
from chunked_td.learners.planning.dyna import Dyna
from chunked_td.learners.planning.prioritised_sweeping import PrioritisedSweeping
from chunked_td.learners.planning.smoothed_reward import SmoothedReward
from chunked_td.models.errors import CorruptedModel, PermutedModel, StaleModel


def atlas_arm(
    id: str, label: str, group: str, lambda_source: Any, model: Any = None, learner: str = "expected_sarsa", **more: Any
) -> Arm:
    """A way to assign credit, as an arm of the lab; Expected-SARSA unless it says otherwise."""
    return Arm(id, label, learner, lambda_source, model, group=group, in_paper=False, **more)


FIXED_METHODS = tuple(
    atlas_arm(f"fixed-{value:g}", f"λ = {value:g}", FIXED_GROUP, value, quick=value in (0.0, 0.8, 0.95, 1.0))
    for value in (0.0, 0.4, 0.8, 0.9, 0.95, 0.99, 1.0)
)
"""The fixed λs, among them the best and the worst in hindsight, which scores refer to."""
FIXED_IDS = tuple(arm.id for arm in FIXED_METHODS)

TRACES, PLANNING, WRONG = "other updates", "planning", "wrong model"

ACTING = tuple(family.id for family in FIRST.values() if family.task != PREDICTION)
"""Families whose values are not scored: a method that learns those of another policy runs on these only."""

FAN_IN = ("fan-in",)
AVERAGED = (-11,)
"""The least step size of averages: 1/n is larger as long as the runs last."""


def _full(group: str, id: str, label: str, source: Any, note: str, **more: Any) -> Arm:
    """A method that the quick profile leaves out; its model is counts unless λ is a number."""
    model = None if isinstance(source, float) else "counts"
    return atlas_arm(id, label, group, source, model, note=note, quick=False, **more)


def _of_source(source: LambdaSource | type[LambdaSource], stored: Any, **more: Any) -> Arm:
    """A λ source as a method. Args: stored: the source as stored settings name it."""
    return atlas_arm(source.id, source.label, source.group, stored, "counts" if source.needs & MODEL else None, **more)


_chunked, _traces, _planned = (partial(_full, group) for group in (CHUNKED, TRACES, PLANNING))
_averaged = partial(_traces, learner="sarsa", exponents=AVERAGED, options={"view": "averaged"})
"""A method with step sizes of 1/n, on the problems for which its authors made it."""

METHODS = (
    *(
        _of_source(cls, cls.__name__, note=cls.formula, quick=cls.by_default)
        for cls in SOURCES.values()
        if not (cls.per_component or required_settings(cls))
    ),
    _chunked(
        "forward-literal",
        "Chunked, literal",
        ForwardLambda(literal=True),
        "The same with actions never tried taken for impossible.",
    ),
    _chunked("forward-sarsa", "Chunked SARSA (the paper)", "ForwardLambda", "Algorithm 2.", learner="sarsa"),
    _chunked(
        "sampled-sarsa",
        "Sampled chunks",
        "ForwardLambda",
        "§3.1: λ replaced by a coin.",
        learner="sarsa",
        options={"view": "sampled"},
    ),
    _chunked(
        "expected-free",
        "Expected chunking, policy left out",
        ExpectedLambda(policy_noise=False),
        "The policy's own randomness does not lower λ.",
    ),
    _traces(
        "watkins",
        "Watkins's Q(0.9)",
        0.9,
        "Cut where an action explores. Not on value problems: it learns the greedy policy's values.",
        learner="q_learning",
    ),
    atlas_arm(
        "replacing", "Replacing traces, λ = 0.9", TRACES, 0.9, options={"replacing": True}, note="Singh & Sutton 1996."
    ),
    _traces("true-online", "True online, λ = 0.9", 0.9, "van Seijen et al. 2016.", options={"view": "true_online"}),
    _traces(
        "expected-traces",
        "Expected traces, λ = 0.9",
        0.9,
        "van Hasselt et al. 2021.",
        options={"view": "expected_traces"},
    ),
    _averaged("naive-td0", "Naive TD(0), 1/n", 0.0, "Sutton & Singh 1994: TD(0) with step sizes of 1/n."),
    _averaged("td-one-over-n", "TD(1/n)", "VisitLambda", "Sutton & Singh 1994: λ and step size 1/n."),
    _averaged(
        "td-n-over-n",
        "TD(n/n)",
        "BackwardLambda",
        "TDC without its correction: the backward model's λ with step sizes of 1/n.",
    ),
    _averaged(
        "tdc",
        "TDC",
        "BackwardLambda",
        "Sutton & Singh 1994: the same, and values that past targets used are brought up to date.",
        options={"view": "corrected"},
    ),
    atlas_arm("dyna", "Dyna, 5 updates", PLANNING, 0.0, options={"planner": Dyna(steps=5)}, note="Sutton 1990."),
    _planned(
        "sweeping",
        "Prioritised sweeping, 5",
        0.0,
        "Moore & Atkeson 1993. It has no step size.",
        options={"planner": PrioritisedSweeping(steps=5)},
        exponents=(0,),
    ),
    _planned(
        "solved",
        "Certainty equivalence",
        0.0,
        "The learned model, solved after every episode.",
        options={"planner": CertaintyEquivalence(sweeps=50, tolerance=1e-6)},
        exponents=(0,),
    ),
    _planned(
        "smoothed",
        "Expected chunking, mean rewards",
        "ExpectedLambda",
        "Rewards replaced by their modelled mean.",
        options={"reward_source": SmoothedReward()},
    ),
)

WRONG_FAMILIES = ("delay", "noisy-states", "grid", "garnet")
"""Where the same methods run with a model that is wrong on purpose."""

_ERRORS = {
    "corrupted": (CorruptedModel(0.3), "a third of the probability on wrong states"),
    "permuted": (PermutedModel(0.3), "next states of a third of all (s, a) permuted"),
    "stale": (StaleModel(until=10), "counts frozen after ten episodes"),
}

_BY_ID = {arm.id: arm for arm in METHODS}
_MISLED = {
    "expected": "Expected chunking",
    "forward": "Chunked (the paper)",
    "dyna": "Dyna",
    "solved": "Certainty equivalence",
}

WRONG_MODELS = tuple(
    replace(
        _BY_ID[base], id=f"{base}-{name}", label=f"{label}, {name}", group=WRONG, model=error, note=text, quick=False
    )
    for name, (error, text) in _ERRORS.items()
    for base, label in _MISLED.items()
)


ONLY_ON = {
    "watkins": ACTING,
    **{arm.id: FAN_IN for arm in METHODS if arm.exponents == AVERAGED},
    **{arm.id: WRONG_FAMILIES for arm in WRONG_MODELS},
}
"""{id: families} of methods that run on some families only."""


def runs_on(arm: Arm, family: str, control: bool) -> bool:
    """Whether a method runs on a family, or on its control; those with a wrong model run on no control."""
    return family in ONLY_ON.get(arm.id, (family,)) and not (control and arm.group == WRONG)


def builtin_methods() -> tuple[Arm, ...]:
    """Every method of this package."""
    return (*FIXED_METHODS, *METHODS, *WRONG_MODELS)


QUICK_SOURCES = ("forward", "expected")
"""λ sources that the quick profile of three scores has; each has to be compiled twice."""


def scored_methods() -> tuple[Arm, ...]:
    """What three scores are taken of: fixed λs, the rule and its kin, null baselines, λ sources, planners.

    Without methods that learn the values of another policy, and without Sutton and Singh's, made for one family.
    """
    from chunked_td.lab.studies.three_scores.methods import ARMS

    listed = [arm for arm in METHODS if arm.id not in ("watkins", "replacing") and arm.exponents != AVERAGED]
    ours = [replace(on_traces(arm), quick=arm.id in QUICK_SOURCES) for arm in listed]
    return (*ARMS.values(), *ours)


def on_traces(arm: Arm) -> Arm:
    """An arm of ours, not the paper's, that learns at every step unless it says otherwise."""
    return replace(arm, in_paper=False, options={"view": "traces", **arm.options})


def methods_in(text: str | Path) -> tuple[Arm, ...]:
    """The methods in a Python file of yours: its METHODS, or its λ sources (`read_sources`)."""
    try:
        path = str(text).partition(".py:")[0]
        listed = getattr(load_file(path, "--method"), "METHODS", None) if path == str(text) else None
        if listed is None:
            return tuple(_of_source(source, source) for source in read_sources(str(text)))
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not all(isinstance(arm, Arm) for arm in listed):
        raise UsageError(f"--method {text}: METHODS must be a list of chunked_td.lab.study.Arm")
    return tuple(listed)
