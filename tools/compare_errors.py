"""Family-wise error and power of `chunked-td compare`, by simulation.

    python tools/compare_errors.py > results/compare/errors.md

Made-up scores of 26 arms, as many as `compare` has by default, paired over seeds. *Error*: all arms are equal; a family
counts if any pair is shown to differ at any look. *Power*: one arm is better than all others by 1.5, which
is 1.5 standard deviations of a run of the first and third kind and of the widest arm of the second; a family counts if
the best of the others is shown to be worse. Adaptive: judged at 10, 20 and 40 seeds, each
look at a third of the error, until the answer is clear.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from chunked_td.lab.comparison.ranking import ERROR, LOOKS, PairedFamily

ARMS = 26
GAIN = 1.5
"""By how much one arm is better, where power is measured."""
FAMILIES = 300
SEEDS = (6, 10, 20, 40)

Draw = Callable[[np.random.Generator, int], np.ndarray]


def gaussian(rng: np.random.Generator, seeds: int) -> np.ndarray:
    """Equal variances, and a part that all arms of a seed share."""
    return rng.normal(size=(ARMS, seeds)) + rng.normal(size=seeds)


def unequal(rng: np.random.Generator, seeds: int) -> np.ndarray:
    """Standard deviations that differ by a factor of ten."""
    return rng.normal(size=(ARMS, seeds)) * np.geomspace(0.1, 1.0, ARMS)[:, None]


def skewed(rng: np.random.Generator, seeds: int) -> np.ndarray:
    """Exponential: a few runs are far better than the rest."""
    return rng.exponential(size=(ARMS, seeds)) - 1.0


def rare(rng: np.random.Generator, seeds: int) -> np.ndarray:
    """A run succeeds (1) or fails (0), each with probability one half."""
    return (rng.uniform(size=(ARMS, seeds)) < 0.5).astype(float)


KINDS = {
    "normal, a shared part": gaussian,
    "unequal variances": unequal,
    "skewed": skewed,
    "success or failure": rare,
}


def judged(
    draw: Draw, gain: float, rng: np.random.Generator, looks: tuple[int, ...]
) -> Iterator[tuple[int, PairedFamily]]:
    """The family at every look until it is clear."""
    scores = draw(rng, max(looks))
    scores[0] += gain
    for seeds in looks:
        family = PairedFamily.of(scores[:, :seeds], error=ERROR / len(looks))
        yield seeds, family
        if family.clear:
            return


def rates(draw: Draw, looks: tuple[int, ...], families: int, first: int = 0) -> tuple[float, float, float]:
    """Share of families with an error, share in which the better arm is shown, and seeds used for the latter.

    Args:
      first: number of the first family. Families of other numbers are independent.
    """
    wrong = right = used = 0
    for number in range(first, first + families):
        found = judged(draw, 0.0, np.random.default_rng((0, number)), looks)
        wrong += any(not family.no_difference for _, family in found)
        seeds, family = list(judged(draw, GAIN, np.random.default_rng((1, number)), looks))[-1]
        others = family.scores.mean(axis=1).argsort()[::-1]
        second = next(int(arm) for arm in others if arm != 0)
        right += family.best == 0 and family.gap(second, 0).low > 0.0
        used += seeds
    return wrong / families, right / families, used / families


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--families", type=int, default=FAMILIES)
    parser.add_argument("--first", type=int, default=0, help="number of the first family; others are independent")
    parser.add_argument("--scores", choices=tuple(KINDS), nargs="+", default=tuple(KINDS))
    given = parser.parse_args()
    families, first = given.families, given.first
    command = f"python tools/compare_errors.py --families {families}" + (f" --first {first}" if first else "")
    print(f"{ARMS} arms, {families:,} families each; `{command}`.\n")
    print("| scores | seeds | family-wise error | power | seeds used |\n| --- | --- | --- | --- | --- |")
    for name, draw in ((name, KINDS[name]) for name in given.scores):
        for looks in (*((seeds,) for seeds in SEEDS), LOOKS):
            error, power, used = rates(draw, looks, families, first)
            listed = ", ".join(map(str, looks)) + (", adaptive" if len(looks) > 1 else "")
            print(f"| {name} | {listed} | {100 * error:.1f} % | {100 * power:.0f} % | {used:.0f} |", flush=True)


if __name__ == "__main__":
    main()
