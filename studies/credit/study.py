"""Credit with exploration held equal: does one rule assign credit better than every fixed λ, on held-out problems?

The rule is lineage traces with half expected TD errors. Three scores keep credit and exploration apart: *values* and
*decisions* on the same transitions for every method, *control* with a bonus that does not depend on TD errors. Each
is normalised problem by problem: 0 is the worst and 1 the best fixed λ with oracle selection. Step sizes and λs are
selected on other seeds than those scored. The criterion was registered before any held-out problem was run
(`registered.md`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure

import chunked_td as ctd
from chunked_td.sweeps import sweep
from studies.credit import again, checks
from studies.credit import tables as text
from studies.credit.families import DESIGN, FAMILIES, HELD_OUT, middles
from studies.credit.methods import ARMS, RULE, Methods
from studies.credit.normalised import Runs, Scored, raw_scores, scored
from studies.credit.scoring import SolvedProblem, prepare, scores
from studies.runner.criteria import NOT_RUN, Verdict, status_of
from studies.runner.data import of_latest

STEP_SIZES = [2.0**j for j in range(0, -9, -1)]
BEHAVIOURS = ("given", "bonus", "greedy")
"""Ways to act that can be run (`scoring`). Stored runs have a fourth, "error-bonus", whose kernels are gone."""
KEY = ("family", "setting", "behaviour", "arm", "exponent", "seed")

# ---- what is run


@functools.lru_cache(maxsize=8)
def problem(family: str, setting: Any) -> tuple[ctd.TransitionTable, SolvedProblem]:
    """A problem and its exact quantities."""
    found = FAMILIES[family]
    table = found.problem(setting)
    return table, prepare(table, found.discount)


def run(step_size: Any, seed: Any, *, family: str, setting: Any, behaviour: str, **method: Any) -> list[dict[str, Any]]:
    """Runs: score, and for given behaviour the return of the greedy policy; −∞ if a run has diverged."""
    about = FAMILIES[family]
    found = scores(
        *problem(family, setting), behaviour, method, step_sizes=step_size, seeds=seed, threads=1,
        episodes=about.episodes, epsilon=about.epsilon,
    )  # fmt: skip
    return [dict(zip(found, each, strict=True)) for each in zip(*found.values(), strict=True)]


def run_all(
    out: Path,
    problems: Iterable[tuple[str, Any]],
    methods: Methods,
    step_sizes: Sequence[float],
    seeds: Sequence[int],
    behaviours: Sequence[str] = BEHAVIOURS[:2],
    **how: Any,
) -> pl.DataFrame:
    """Runs of methods on problems, given as (family, setting), in the columns of runs.parquet."""
    cells = [(*each, behaviour, method) for behaviour in behaviours for each in problems for method in methods]
    arms = {" ".join(map(str, cell)): {**dict(zip(KEY, cell[:3], strict=False)), **methods[cell[3]]} for cell in cells}
    table = sweep(how.pop("run", run), arms, step_sizes, seeds, out=out, **{"together": 16, **how})
    names = pl.col("arm").str.split(" ")
    return table.select(
        *(names.list.get(k).alias(name) for k, name in enumerate(KEY[:4])),
        pl.col("step_size").log(2.0).round().cast(pl.Int8).alias("exponent"),
        pl.col("seed").cast(pl.Int16),
        pl.col("^(score|decision|seconds)$").cast(pl.Float32),
    )


def runs(out: Path, quick: bool, **how: Any) -> pl.DataFrame:
    """The registered comparison on every problem; `quick`: three short families at their middle settings."""
    if quick:
        return run_all(out, middles("delay", "bridge", "tributaries"), ARMS, STEP_SIZES[::4], range(4), **how)
    problems = [(name, setting) for name in (*DESIGN, *HELD_OUT) for setting in FAMILIES[name].settings]
    return run_all(out, problems, ARMS, STEP_SIZES, range(100), BEHAVIOURS, **how)


# ---- the claims


@of_latest
def raw_in(table: pl.DataFrame) -> dict[str, Runs]:
    """The runs of every score by its name."""
    return raw_scores(table)


@of_latest
def found_in(table: pl.DataFrame) -> dict[str, Scored]:
    """Every normalised score that was run, by its name."""
    return {name: scored(each) for name, each in raw_in(table).items()}


def judged(table: pl.DataFrame, score: str, least_mean: float, least: float) -> Verdict:
    """The registered criterion. Args: least_mean: over held-out families. least: of the worst of them."""
    found = found_in(table).get(score)
    if found is None or len(found.by_family(RULE, True)) < LEAST_FAMILIES:
        return Verdict(
            NOT_RUN, f"fewer than {LEAST_FAMILIES} held-out families with conclusive differences between fixed λs"
        )
    families, fixed = found.by_family(RULE, True), found.best_fixed(True)
    worst = min(families, key=lambda name: families[name])
    above, mean = found.difference(RULE, fixed, True), found.mean(RULE, True)
    return Verdict(
        status_of([mean >= least_mean, families[worst] >= least, above.low > 0]),
        f"mean {mean:.2f}, worst family {worst} {families[worst]:.2f}; {above.value:+.2f} "
        f"[{above.low:+.2f}, {above.high:+.2f}] against the best single fixed λ ({fixed})",
    )


LEAST_FAMILIES = 8


def good_at_values(table: pl.DataFrame) -> Verdict:
    """The registered rule is good at values on problems that nobody designed it on.

    mean over held-out families at least 1.3, worst family at least 0.75, and above the best single fixed λ with a 95 %
    interval above 0
    """
    return judged(table, "values", 1.3, 0.75)


def good_at_decisions(table: pl.DataFrame) -> Verdict:
    """The registered rule is good at decisions on problems that nobody designed it on.

    mean over held-out families at least 1.0, worst family at least 0.75, and above the best single fixed λ with a 95 %
    interval above 0
    """
    return judged(table, "decisions", 1.0, 0.75)


def good_at_control(table: pl.DataFrame) -> Verdict:
    """The registered rule is good at control on problems that nobody designed it on.

    mean over held-out families at least 1.0, worst family at least 0.75, and above the best single fixed λ with a 95 %
    interval above 0
    """
    return judged(table, "control", 1.0, 0.75)


CLAIMS = (good_at_values, good_at_decisions, good_at_control)

# ---- tables and figures

REGISTERED = ("values", "decisions", "control")


@of_latest
def tables(table: pl.DataFrame) -> dict[str, str]:
    """The rule against fixed λs, every method, other ways to explore, checks; results on design families."""
    found = found_in(table)
    held_out = {name: each for name, each in found.items() if each.by_family(RULE, True)}
    registered = {name: held_out[name] for name in REGISTERED if name in held_out}
    beside = {name: each for name, each in held_out.items() if name not in REGISTERED}
    raw = checks.held_out_only(raw_in(table))
    texts = {"answers": text.answers(registered, True), "scores": text.score_tables(registered, True)}
    if table["family"].n_unique() < len(DESIGN):  # a quick run
        return texts
    design = {name: found[name] for name in REGISTERED}
    return {
        **texts,
        "beside": text.answers(beside, True),
        "beside-scores": text.score_tables(beside, True),
        "every-method": checks.every_method(raw),
        "robustness": checks.robustness(raw),
        "less-memory": checks.less_memory(raw),
        "design": text.answers(design, False),
        "again": again.agreement(raw_in(table), pl.read_parquet(again.HERE / "again.parquet")),
    }


def figures(table: pl.DataFrame) -> dict[str, Figure]:
    """The rule and the best single fixed λ on held-out families, a picture per score."""
    return {name: text.draw(name, found_in(table)[name], True) for name in REGISTERED}
