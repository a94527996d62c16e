"""Why the registered rule is weak on deep sea (values) and upstream (control): one factor changed at a time.

    python tools/credit_causes.py          # writes results/three-scores/tables/causes.md; a minute or two

Exploratory, after the held-out run; nothing was chosen by it. Medium settings of both families, 20 fresh seeds
(1000 to 1019), nine step sizes (six on upstream), each method at the best of them on these seeds. In deep sea the score
is 0 for λ = 1 and 1 for λ = 0.4 of the same runs. Last, the one mend that suggests itself, on the design families, with
the first 20 seeds of each.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chunked_td._files import write_atomically
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.three_scores.methods import ACCUMULATING, LINEAGE, REPLACING, RULE, CreditMethod
from chunked_td.lab.studies.three_scores.problems import checkpoints, prepare
from chunked_td.lab.studies.three_scores.protocol import BEHAVIOURS, CreditProblem, families, family_called
from chunked_td.lab.studies.three_scores.results import raw_scores, scored
from chunked_td.lab.studies.three_scores.runs import scores

SEEDS = np.arange(1_000, 1_020)
FOLDER = Path(__file__).parents[1] / "results" / "three-scores" / "tables"


def best_score(problem, method: CreditMethod, behaviour: str, exponents, episodes: int) -> tuple[float, int]:
    """Mean score over seeds at the best step size, and its exponent."""
    sizes = np.repeat(2.0 ** np.array(exponents), SEEDS.size)
    seeds, at = np.tile(SEEDS, len(exponents)), checkpoints(episodes)
    found = scores(problem, method, BEHAVIOURS.index(behaviour), sizes, seeds, at, 1)[:, :, 0]
    found = (found.mean(1) if behaviour == "given" else found[:, -1]).reshape(len(exponents), -1).mean(1)
    return float(found.max()), int(exponents[int(found.argmax())])


def deep() -> str:
    """Error of Q in deep sea, depth 5: the rule's prior, its expected errors, and fixed λs."""
    methods = {
        **{
            f"lineage, prior {prior:g}, half expected errors": CreditMethod(LINEAGE, prior=prior, expected=0.5)
            for prior in (0.0, 1.0, 2.0, 4.0, 8.0)
        },
        "lineage, prior 1, no expected errors": CreditMethod(LINEAGE, prior=1.0),
        **{f"λ = {x:g}": CreditMethod(REPLACING, x) for x in (0.0, 0.4, 0.8, 1.0)},
        "lineage × λ = 0.4, prior 1, half expected errors": CreditMethod(LINEAGE, 0.4, prior=1.0, expected=0.5),
    }  # fmt: skip
    family = family_called("deep-sea")
    problem = prepare(family.make(depth=5), family.discount, family.epsilon)
    found = {
        name: best_score(problem, method, "given", range(0, -9, -1), family.episodes)
        for name, method in methods.items()
    }
    worst, best = found["λ = 1"][0], found["λ = 0.4"][0]
    rows = ["| deep sea, depth 5: values | 10⁴ × error of Q | score | step size |", "| --- | --- | --- | --- |"]
    for name, (score, exponent) in found.items():
        cells = f"{-1e4 * score:.2f} | {(score - worst) / (best - worst):.2f} | 2^{exponent}"
        rows.append(f"| {name} | {cells} |".replace("-", "−"))
    return "\n".join(rows)


def river() -> str:
    """Mean return of control in upstream, length 6, with and without the cost of swimming."""
    methods = {
        "the rule": CreditMethod(LINEAGE, prior=1.0, expected=0.5),
        "λ = 0.6, replacing": CreditMethod(REPLACING, 0.6),
        "λ = 1, accumulating": CreditMethod(ACCUMULATING, 1.0),
    }
    family = family_called("upstream")
    head = ("upstream, length 6: control", "swimming costs 0.01", "swimming is free")
    rows = ["| " + " | ".join(head) + " |", "| --- | --- | --- |"]
    problems = [prepare(family.make(length=6, cost=cost), family.discount, family.epsilon) for cost in (0.01, 0.0)]
    for name, method in methods.items():
        cells = []
        for problem in problems:
            best = float(problem.best[problem.start[0]])
            score, exponent = best_score(problem, method, "bonus", range(-3, -9, -1), family.episodes)
            cells.append(f"{score / best:.2f} of the optimum, α = 2^{exponent}")
        rows.append(f"| {name} | {' | '.join(cells)} |".replace("-", "−"))
    return "\n".join(rows)


def both_ways() -> str:
    """What the stored runs say of the rule on upstream: decisions on given transitions, and control."""
    raw = raw_scores(load_table(FOLDER.parent / "runs.parquet"))
    parts = {name: {key: each for key, each in raw[name].items() if key[0] == "upstream"} for name in raw}
    found = {name: scored(parts[name]).mean(RULE, True) for name in ("decisions", "control")}
    numbers = ", ".join(f"{name} {score:.2f}" for name, score in found.items())
    return f"The rule on upstream, all three lengths, in the stored runs: {numbers}."


def wider_prior(prior: float = 4.0, seeds: int = 20) -> str:
    """The rule with a larger prior on the design families: normalised scores of the first seeds, and the rule's."""
    method, numbers = CreditMethod(LINEAGE, prior=prior, expected=0.5), np.tile(np.arange(seeds), 9)
    sizes, found = np.repeat(2.0 ** -np.arange(9.0), seeds), {}
    raw = raw_scores(load_table(FOLDER.parent / "runs.parquet"))
    for name, family in families(False).items():
        for setting in family.settings:
            at = checkpoints(family.episodes)
            found[name, str(setting)] = scores(
                CreditProblem.make(name, setting), method, 0, sizes, numbers, at, 1
            ).mean(1)
    rows = [
        "| 12 design families | prior 1 (the rule) | prior 4 | worst family, prior 1 | prior 4 |",
        "| --- " * 5 + "|",
    ]
    for column, score in enumerate(("values", "decisions")):
        runs = {
            key: {m: each[:, :seeds] for m, each in raw[score][key].items()}
            | {"wide": one[:, column].reshape(9, seeds)}
            for key, one in found.items()
        }
        judged = scored(runs)
        means = " | ".join(f"{judged.mean(name, False):.2f}" for name in (RULE, "wide"))
        worst = " | ".join(f"{min(judged.by_family(name, False).values()):.2f}" for name in (RULE, "wide"))
        rows.append(f"| {score} | {means} | {worst} |".replace("-", "−"))
    return "\n".join(rows)


if __name__ == "__main__":
    text = ""
    for part in (deep, river, both_ways, wider_prior):
        text += f"{part()}\n\n"
        print(text, flush=True)
    write_atomically(FOLDER / "causes.md", f"{text.strip()}\n".encode())
