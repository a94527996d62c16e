"""The history compressor on five families of sequences that it was not tuned to: is the answer predicted?

    python tools/compressor_families.py --processes 16 --out results/compression/families.csv
    python tools/compressor_families.py --table results/compression/families.csv

Written before the data. A sequence holds one or two cues, much that can be predicted, and at its end one or two answers
that the cues decide. A run is `HistoryCompressor(seed=s).fit(...)` with default settings on 100 sequences, 20 epochs;
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

import argparse
import csv
import itertools
import multiprocessing
import os
from pathlib import Path

import numpy as np

FAMILIES = ("periods", "rare", "alphabet", "lengths", "reversed")
VARIANTS = {
    "before": ({"settled": False}, {"anneal": False}),
    "settled": ({"settled": True}, {"anneal": False}),
    "annealed": ({"settled": True}, {"anneal": True}),
}
MODES = {"online": True, "batch": False}
HEAD = ("family", "mode", "variant", "seed", "predicted", "kept", "bits")


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


def run(family: str, mode: str, variant: str, seeds: int, sequences: int = 100, epochs: int = 20) -> list[tuple]:
    """One row per seed."""
    import chunked_td as ctd

    rows = []
    settings, fitting = VARIANTS[variant]
    for seed in range(seeds):
        random = np.random.default_rng([seed, FAMILIES.index(family)])
        learned = [draw(family, random)[0] for _ in range(sequences)]
        compressor = ctd.HistoryCompressor(online=MODES[mode], seed=seed, **settings)
        compressor.fit(learned, epochs=epochs, **fitting)
        right, kept, bits = [], [], []
        for _ in range(32):
            sequence, answers = draw(family, random)
            said = compressor.compress(sequence)
            right += [_predicted(said, sequence, place) for place in answers]
            kept.append(len(said.symbols))
            bits.append(said.bits)
        rows.append((family, mode, variant, seed, *(round(float(np.mean(x)), 4) for x in (right, kept, bits))))
    return rows


def _predicted(said, sequence: list[str], place: int) -> bool:
    reading = [level for level in said.readings if place in level.positions][-1]
    return reading.predicted[reading.positions.tolist().index(place)] == sequence[place]


def table(rows: list[dict[str, str]]) -> str:
    """The share of runs that succeeded, a row per family."""
    columns = list(itertools.product(MODES, VARIANTS))
    lines = ["| family | " + " | ".join(f"{m}, {v}" for m, v in columns) + " |", "|---|" + "---|" * len(columns)]
    for family in FAMILIES:
        cells = []
        for mode, variant in columns:
            some = [row for row in rows if (row["family"], row["mode"], row["variant"]) == (family, mode, variant)]
            done = np.array([float(row["predicted"]) >= 0.95 for row in some])
            cells.append(f"{100 * done.mean():.0f} %" if len(some) else "")
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run all, or print the table of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    if given.table:
        with given.table.open(encoding="utf-8") as file:
            print(table(list(csv.DictReader(file))))
        return
    os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false", OMP_NUM_THREADS="1")
    jobs = [(*job, given.seeds, given.sequences, given.epochs) for job in itertools.product(FAMILIES, MODES, VARIANTS)]
    jobs.sort(key=lambda job: job[0] != "rare")  # the longest first
    with (
        given.out.open("w", newline="", encoding="utf-8") as file,
        multiprocessing.get_context("spawn").Pool(given.processes, maxtasksperchild=1) as pool,
    ):
        writer = csv.writer(file)
        writer.writerow(HEAD)
        for rows in pool.imap_unordered(_run, jobs):
            writer.writerows(rows)
            file.flush()


def _run(job: tuple) -> list[tuple]:
    return run(*job)


if __name__ == "__main__":
    main()
