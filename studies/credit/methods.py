"""Methods: settings of `simulate` by id. All are Expected-SARSA that learns at every step; only the step size is tuned.

| group | |
|---|---|
| `FIXED` | eight fixed λs, accumulating and replacing: scores refer to the best and the worst of them |
| `RULES` | the registered rule and its kin |
| `NULL` | baselines that use nothing of the problem |
| `LIBRARY` | the library's λ sources and planners, for comparison with a method of yours |

Yours is a Python file with λ sources (classes that derive from `ctd.LambdaSource`, used with their default settings),
or with METHODS, {id: settings of `simulate`}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import chunked_td as ctd
from chunked_td._loading import load_file
from chunked_td.lambdas import SOURCES
from chunked_td.lambdas.reading import read_sources, required_settings
from studies.runner.averaged import Averaged

LAMBDAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
Methods = dict[str, dict[str, Any]]
"""{id: settings of `simulate`}."""


def on_traces(lambda_source: Any = 1.0, **settings: Any) -> dict[str, Any]:
    """Return the settings of a method that by default learns at every step."""
    return {"learner": "expected_sarsa", "lambda_source": lambda_source, "view": "traces", **settings}


FIXED: Methods = {
    f"{kind}-{value:g}": on_traces(value, **({"replacing": True} if kind == "replacing" else {}))
    for value in LAMBDAS
    for kind in ("accumulating", "replacing")
}


@dataclass(frozen=True)
class FallingLambda(ctd.LambdaSource):
    """λ = 1/√k in episode k: the schedule after Kearns and Singh (2000), in which λ falls as values are learned."""

    id, label, group = "falling", "λ = 1/√episode", "null baselines"
    arrays: ClassVar[Mapping[str, str]] = {"episodes": "float64[1]"}

    @ctd.kernel
    def lambda_t(source, step, i):
        """1/√k; the first step of an episode has no λ."""
        return 1.0 / max(source.episodes[0], 1.0) ** 0.5

    @ctd.kernel
    def after_step(source, step, reward, td_error, ended):
        """Count episodes at their first step."""
        if step.previous < 0:
            source.episodes[0] += 1.0


RULE = "lineage-expected"
"""The registered rule."""
STEPS = "lineage-steps-expected"
"""The rule with less memory, which was added later and not run everywhere."""
_LINEAGE, _HALF = ctd.Lineage(prior=1.0), ctd.ExpectedError(0.5)

RULES: Methods = {
    RULE: on_traces(view=_LINEAGE, reward_source=_HALF),
    "lineage": on_traces(view=ctd.Lineage(prior=0.0)),
    "lineage-prior": on_traces(view=_LINEAGE),
    "lineage-zero": on_traces(view=ctd.Lineage(prior=0.0, returns="zero")),
    "lineage-all-expected": on_traces(view=_LINEAGE, reward_source=ctd.ExpectedError(1.0)),
    "replacing-0.9-expected": on_traces(0.9, replacing=True, reward_source=_HALF),
    STEPS: on_traces(view=ctd.Lineage(prior=1.0, counts="steps"), reward_source=_HALF),
}
NULL: Methods = {"falling": on_traces(FallingLambda()), "monte-carlo-averaged": on_traces(view=Averaged())}
ARMS: Methods = {**FIXED, **RULES, **NULL}
"""Methods of the registered comparison that can be run."""

TIED = "tied"
"""λ tied to the step size: 1 below α = ¼, else 0.4, replacing. No arm: its runs are those of these two fixed λs."""
STORED = {
    TIED: "λ tied to the step size",
    "lineage-averaged": "Lineage, 1/n at first",
    "solved": "Learned model solved",
}
"""Methods that stored runs have, and no arm here: their kernels are gone (commit 920a311)."""
LABELS = {
    **{f"{kind}-{value:g}": f"λ = {value:g}, {kind}" for value in LAMBDAS for kind in ("accumulating", "replacing")},
    RULE: "Lineage, half expected errors (the rule)",
    "lineage": "Lineage, no prior",
    "lineage-prior": "Lineage",
    "lineage-zero": "Lineage, no prior, nothing passes returns",
    "lineage-all-expected": "Lineage, expected errors",
    "replacing-0.9-expected": "λ = 0.9, half expected errors",
    "falling": FallingLambda.label,
    "monte-carlo-averaged": "Monte Carlo, 1/n",
    STEPS: "The rule with counts of single steps",
    **STORED,
}
COMPARED = (*(name for name in (*RULES, *NULL) if name != STEPS), *STORED)
"""Methods in the tables of the stored runs."""

# ---- compared with a user's method

_OPEN = [cls for cls in SOURCES.values() if not (cls.per_component or required_settings(cls))]
LIBRARY: Methods = {
    **{cls.id: on_traces(cls()) for cls in _OPEN},
    "true-online": on_traces(0.9, view="true_online"),
    "dyna": on_traces(0.0, planner=ctd.Dyna(steps=5)),
    "sweeping": on_traces(0.0, planner=ctd.PrioritisedSweeping(steps=5)),
    "certainty-equivalence": on_traces(0.0, planner=ctd.CertaintyEquivalence(sweeps=50, tolerance=1e-6)),
}
LABELS |= {
    **{cls.id: cls.label for cls in _OPEN},
    "true-online": "True online, λ = 0.9",
    "dyna": "Dyna, 5 updates",
    "sweeping": "Prioritised sweeping, 5",
    "certainty-equivalence": "Certainty equivalence",
}
QUICK = ("accumulating-0", "accumulating-0.4", "accumulating-0.8", "accumulating-0.95", "accumulating-1",
         "replacing-0.4", "replacing-0.8", "replacing-0.95", "replacing-1", RULE, "forward", "expected")  # fmt: skip
"""Methods of the quick size; each kind has to be compiled twice."""


def methods_in(text: str | Path) -> tuple[Methods, dict[str, str]]:
    """The methods in a Python file of yours (its METHODS, or its λ sources), and their labels."""
    path = str(text).partition(".py:")[0]
    listed = getattr(load_file(path, "--method"), "METHODS", None) if path == str(text) else None
    if listed is None:
        sources = read_sources(str(text), "--method")
        return {one.id: on_traces(one) for one in sources}, {one.id: one.label for one in sources}
    if not isinstance(listed, Mapping) or not all(isinstance(each, Mapping) for each in listed.values()):
        raise ValueError(f"--method: METHODS in {text} must be {{id: settings of simulate}}, got {listed!r}")
    return {str(name): on_traces(**each) for name, each in listed.items()}, {str(name): str(name) for name in listed}
