"""A protocol is an experiment of bsuite; seed k plays its setting k."""

from __future__ import annotations

from typing import Any

from chunked_td.lab.study import Arm, Environment, Protocol, Size, Study, misses_and_returns
from chunked_td.lambdas.forward import ForwardLambda
from chunked_td.learners.lineage import Lineage
from chunked_td.learners.planning.base import ExpectedError
from chunked_td.learners.schedule import Schedule

LENGTHS = (*range(1, 11), 12, 14, 17, 20, 25, *range(30, 105, 10))
SETTINGS = {
    "discounting_chain": tuple(range(20)),
    "memory_size": (*range(1, 11), 12, 14, 17, 20, 25, 30, 40),
    "umbrella_length": LENGTHS,
    "memory_len": LENGTHS,
}
"""Experiments, as bsuite writes them, and what it varies."""
EPISODES = {"discounting_chain": 1_000}
REPEATS = {"discounting_chain": 2}
"""Episodes, where they are not 10,000; times that all settings are played, where that is not once."""
FIXED = ("fixed-0", "fixed-0.9", "fixed-1")
RULE, BLIND, VARIANCE, SURE = "rule", "no-memory", "variance", "chunked-sure"
CHOSEN = {"umbrella_length": (*FIXED, VARIANCE), "memory_len": ("fixed-0.9", "chunked")}
"""Arms of the two experiments that take longest. In memory_len the last action alone counts, so λ cannot matter."""

_ARMS: dict[str, tuple[str, Any, str | None, dict[str, Any]]] = {
    **{name: (f"λ = {name[6:]}", float(name[6:]), None, {}) for name in FIXED},
    "chunked": ("Chunked (the paper)", "ForwardLambda", "counts", {}),
    SURE: ("Chunked, λ without the policy", ForwardLambda(policy_noise=False), "counts", {}),
    RULE: ("Lineage, half expected errors (the rule)", 1.0, None,
           {"view": Lineage(prior=1.0), "reward_source": ExpectedError(0.5)}),
    VARIANCE: ("λ from the variance of values", "VarianceLambda", None, {}),
    BLIND: ("λ = 0.9, no memory", 0.9, None, {"memory": False}),
}  # fmt: skip
LABELS = {name: label for name, (label, *_) in _ARMS.items()}


def arms_of(experiment: str) -> tuple[Arm, ...]:
    """The arms of an experiment."""
    tables, found = (*FIXED, "chunked", BLIND if experiment == "memory_size" else SURE, RULE), []
    for name in CHOSEN.get(experiment, tables):
        label, source, model, options = _ARMS[name]
        learner = "expected_sarsa" if name == RULE else "sarsa"
        found.append(Arm(name, label, learner, source, model, in_paper=False, options=options))
    return tuple(found)


def protocol_of(experiment: str) -> Protocol:
    """The protocol of an experiment."""
    episodes, settings = EPISODES.get(experiment, 10_000), SETTINGS[experiment]
    exploring, tiny = episodes // 10, Size(seeds=2, episodes=20)
    lengths = {"memory_size": 3.0, "discounting_chain": 100.0}
    return Protocol(
        id=f"bsuite-{experiment.replace('_', '-')}",
        title=f"bsuite's {experiment}",
        environment=Environment(
            "chunked_td.lab.studies.bsuite.runs:Experiment",
            {"name": experiment, "settings": settings, "exploring": exploring},
        ),
        arms=arms_of(experiment),
        exponents=(0,),
        episodes=episodes,
        scoring=misses_and_returns,
        score_label="mistaken episodes",
        smoke=tiny,
        quick=tiny,
        record=((episodes, exploring),),
        exploration=Schedule(((0, 1.0), (exploring, 0.0))),
        seeds=len(settings) * REPEATS.get(experiment, 1),
        seeds_per_batch=4 if settings == LENGTHS else 20,
        step_sizes=(0.005,) if experiment == "umbrella_length" else (0.5,),
        steps_per_episode=lengths.get(experiment, sum(settings) / len(settings)),
        runner="chunked_td.lab.studies.bsuite.runs:play",
    )


STUDY = Study(
    "bsuite",
    "bsuite: memory and credit",
    lambda profile: [protocol_of(experiment) for experiment in SETTINGS],
    order=66.5,
    table="runs.parquet",
    by_default=False,
)
