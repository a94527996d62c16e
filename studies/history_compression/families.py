"""The history compressor on five families of sequences that it was not tuned to: is the answer predicted?

    python -m studies.history_compression.families --processes 2 --out families.parquet

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

import argparse
import itertools
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from chunked_td._files import write_table

FAMILIES = ("periods", "rare", "alphabet", "lengths", "reversed")
VARIANTS = {
    "before": (False, False),
    "settled": (True, False),
    "annealed": (True, True),
}
"""settled, anneal."""
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


def run(family: str, mode: str, variant: str, seeds: int, sequences: int, epochs: int) -> list[tuple]:
    """One row per seed."""
    rows = []
    randoms = [np.random.default_rng([seed, FAMILIES.index(family)]) for seed in range(seeds)]
    learned = [[draw(family, random)[0] for _ in range(sequences)] for random in randoms]
    for seed, compressor in enumerate(fitted(learned, epochs, MODES[mode], *VARIANTS[variant])):
        right, kept, bits = [], [], []
        for _ in range(32):
            sequence, answers = draw(family, randoms[seed])
            said = compressor.compress(sequence)
            right += [_predicted(said, sequence, place) for place in answers]
            kept.append(len(said.symbols))
            bits.append(said.bits)
        rows.append((family, mode, variant, seed, *(round(float(np.mean(x)), 4) for x in (right, kept, bits))))
    return rows


def fitted(learned: list[list[list[str]]], epochs: int, online: bool, settled: bool, anneal: bool) -> list:
    """Compressors of the seeds 0, 1, …, each fitted to its own sequences as by `fit`, all in one program."""
    import jax
    import jax.numpy as jnp

    from studies.history_compression.compressor import HistoryCompressor, stacked
    from studies.history_compression.training import train_runs

    alphabet = sorted({symbol for sequences in learned for sequence in sequences for symbol in sequence})
    made = [
        HistoryCompressor(online=online, settled=settled, seed=seed, alphabet=alphabet) for seed in range(len(learned))
    ]
    whole = stacked([made[0]._numbers(sequence, "sequence") for sequences in learned for sequence in sequences])
    items, counts = (array.reshape(len(made), -1, *array.shape[1:]) for array in whole)
    levels = jax.tree.map(lambda *runs: jnp.concatenate(runs), *(compressor._levels for compressor in made))
    orders = [np.random.default_rng([seed, 0]) for seed in range(len(made))]
    for epoch in range(epochs):
        rows = np.stack([order.permutation(items.shape[1]) for order in orders])
        keys = jnp.stack([jax.random.fold_in(jax.random.key(s), 1 + epoch * items.shape[1]) for s in range(len(made))])
        rate = made[0].learning_rate * (1.0 - (0.9 * epoch / max(epochs - 1, 1) if anneal else 0.0))
        now = [
            np.take_along_axis(x, rows.reshape(*rows.shape, *(1,) * (x.ndim - 2)), 1)[:, :, None]
            for x in (items, counts)
        ]
        levels, _ = train_runs(made[0]._plan, levels, *now, jnp.full(len(made), rate), keys)
    for run, compressor in enumerate(made):
        compressor._levels = jax.tree.map(lambda array, run=run: array[run : run + 1], levels)
    return made


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


def main() -> None:
    """Run all families, modes and variants, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sequences", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false", OMP_NUM_THREADS="1")
    cells = itertools.product(MODES, VARIANTS, FAMILIES)
    jobs = [(family, *cell, given.seeds, given.sequences, given.epochs) for *cell, family in cells]
    with multiprocessing.get_context("spawn").Pool(given.processes, maxtasksperchild=1) as pool:
        rows = [row for rows in pool.imap(_run, jobs) for row in rows]
    found = pl.DataFrame(rows, HEAD, orient="row")
    write_table(given.out, found)
    print(table(found.to_dicts()))


def _run(job: tuple) -> list[tuple]:
    return run(*job)


if __name__ == "__main__":
    main()
