"""The history compressor on five families of sequences that it was not tuned to: is the answer predicted?

    python -m studies.history_compression.families families.parquet

Written before the data. A sequence holds one or two cues, much that can be predicted, and at its end one or two answers
that the cues decide. A run is `HistoryCompressor(seed=s).fit(...)` with default settings on 50 sequences, 20 epochs;
then it compresses 32 others. An answer counts as predicted if the highest level that reads it gives its symbol the most
probability. A run succeeds if 95 % of its answers are predicted. 20 seeds.

    periods    two periods, of 3 and of 4 symbols, take turns; 60 symbols between cue and answer
    rare       a cycle of four symbols; at one of its first 40 places one of two rare events, answered 200 symbols later
    alphabet   a cycle of 20 symbols, 100 symbols between cue and answer
    lengths    a cycle of four, 20 to 100 symbols between cue and answer; a mark announces the answer
    reversed   two cues, then a cycle of five, 50 symbols; the answers come in reversed order

Variants: before (what goes up is judged during the updates), settled (after them), annealed (settled, and the learning
rate falls to a tenth).
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from chunked_td import sweep
from chunked_td._files import write_table

FAMILIES = ("periods", "rare", "alphabet", "lengths", "reversed")
VARIANTS = {
    "before": (False, False),
    "settled": (True, False),
    "annealed": (True, True),
}
"""settled, anneal."""
MODES = {"online": True, "batch": False}


def draw(family: str, random: np.random.Generator) -> tuple[list[str], list[int]]:
    """A sequence, and the places of its answers."""
    cue = int(random.integers(2))
    if family == "periods":
        middle = [("ijk"[n // 2 % 3] if n % 2 else "pqrs"[n // 2 % 4]) for n in range(60)]
    elif family == "rare":
        at = int(random.integers(40))
        middle = ["pqrs"[n % 4] for n in range(at)] + ["ab"[cue]] + ["pqrs"[n % 4] for n in range(200)]
        return [*middle, "01"[cue]], [at + 201]
    elif family == "alphabet":
        middle = ["cdefghijklmnopqrstuv"[n % 20] for n in range(100)]
    elif family == "lengths":
        middle = ["pqrs"[n % 4] for n in range(int(random.integers(20, 101)))] + ["?"]
    else:
        other = int(random.integers(2))
        middle = ["vwxyz"[n % 5] for n in range(50)]
        return ["ab"[cue], "cd"[other], *middle, "01"[other], "23"[cue]], [52, 53]
    return ["ab"[cue], *middle, "01"[cue]], [len(middle) + 1]


def run(step_size: float, seed: np.ndarray, *, family: str, mode: str, variant: str) -> list[dict[str, Any]]:
    """Runs of several seeds, in one program: the share of answers predicted, symbols kept, and bits, on average."""
    from studies.history_compression.compressor import HistoryCompressor, fit_together

    randoms = [np.random.default_rng([each, FAMILIES.index(family)]) for each in seed.tolist()]
    learned = [[draw(family, random)[0] for _ in range(50)] for random in randoms]
    alphabet = sorted({symbol for sequences in learned for sequence in sequences for symbol in sequence})
    settled, anneal = VARIANTS[variant]
    made = [
        HistoryCompressor(online=MODES[mode], settled=settled, seed=each, alphabet=alphabet) for each in seed.tolist()
    ]
    fit_together(made, learned, epochs=20, anneal=anneal)
    found = []
    for random, compressor in zip(randoms, made, strict=True):
        right, kept, bits = [], [], []
        for _ in range(32):
            sequence, answers = draw(family, random)
            said = compressor.compress(sequence)
            right += [_predicted(said, sequence, place) for place in answers]
            kept.append(len(said.symbols))
            bits.append(said.bits)
        means = (round(float(np.mean(x)), 4) for x in (right, kept, bits))
        found.append(dict(zip(("predicted", "kept", "bits"), means, strict=True)))
    return found


def _predicted(said, sequence: list[str], place: int) -> bool:
    reading = [level for level in said.readings if place in level.positions][-1]
    return reading.predicted[reading.positions.tolist().index(place)] == sequence[place]


def table(rows: list[dict[str, Any]]) -> str:
    """The share of runs that succeeded, a row per family and one for all."""
    columns = list(itertools.product(MODES, VARIANTS))
    lines = ["| family | " + " | ".join(f"{m}, {v}" for m, v in columns) + " |", "|---|" + "---|" * len(columns)]
    for family in (*FAMILIES, "all"):
        cells = []
        for mode, variant in columns:
            some = [row for row in rows if row["family"] in (family, *(FAMILIES if family == "all" else ()))]
            some = [row for row in some if (row["mode"], row["variant"]) == (mode, variant)]
            done = np.array([float(row["predicted"]) >= 0.95 for row in some])
            cells.append(f"{100 * done.mean():.0f} %" if len(some) else "")
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    cells: dict[str, dict[str, Any]] = {
        f"{mode} {variant} {family}": {"mode": mode, "variant": variant, "family": family}
        for mode, variant, family in itertools.product(MODES, VARIANTS, FAMILIES)
    }
    runs = sweep(run, cells, [1.0], range(20), together=20, jobs=1)
    about = pl.DataFrame([{"arm": arm, **cell} for arm, cell in cells.items()])
    found = runs.join(about, on="arm", maintain_order="left")
    write_table(Path(sys.argv[1]), found.select("family", "mode", "variant", "seed", "predicted", "kept", "bits"))
    print(table(found.to_dicts()))
