"""Errors of `chunked-td compare`, measured: `python -m benchmarks.decisions > benchmarks/decisions.txt`.

Families. Scores drawn for as many learners as `compare` has by default, paired over seeds, judged at 10, 20 and 40
seeds until the answer is clear. *Error*: all learners are equal, and some interval, at any look, does not contain 0.
*Power*: one learner is better than all others by 1.5 standard deviations of a run, and the best of the others is shown
to be worse.

Problems. 30 random ones: corridors, grids and random graphs, with and without chance. Every learner of `compare` runs
with every step size on many seeds. Their means are the truth. Blocks of 40 seeds are then judged as `compare` judges
them. A recommendation is *wrong* if the best learner is better than the recommended one by more than the
interval of their difference says. *Loss*: by how much the best is better, as a share of the distance from acting at
random to the best. Learners that plan are not counted, because `compare` lists them apart.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from chunked_td import TransitionTable
from chunked_td.comparison.arms import FIXED, PLANS, RANDOM, Candidate, make_arms
from chunked_td.comparison.ranking import ERROR, LOOKS, PairedFamily
from chunked_td.comparison.results import Comparison, Outcome, merged
from chunked_td.comparison.settings import Settings
from chunked_td.simulation import simulate

ARMS = 14
GAIN = 1.5
"""By how much one learner is better, where power is measured."""
EPISODES = 100
BLOCK = LOOKS[-1]

Draw = Callable[[np.random.Generator, int], np.ndarray]

# ---- families


def shared(rng: np.random.Generator, seeds: int) -> np.ndarray:
    """Normal, with a part that all learners of a seed share."""
    return rng.normal(size=(ARMS, seeds)) + rng.normal(size=seeds)


def unequal(rng: np.random.Generator, seeds: int) -> np.ndarray:
    """Normal, with standard deviations that differ by a factor of ten."""
    return rng.normal(size=(ARMS, seeds)) * np.geomspace(0.1, 1.0, ARMS)[:, None]


def skewed(rng: np.random.Generator, seeds: int) -> np.ndarray:
    """Exponential: a few runs are far better than the rest."""
    return rng.exponential(size=(ARMS, seeds)) - 1.0


def solved(rng: np.random.Generator, seeds: int) -> np.ndarray:
    """A run succeeds (1) or fails (0), each with probability one half."""
    return (rng.uniform(size=(ARMS, seeds)) < 0.5).astype(float)


def tailed(rng: np.random.Generator, seeds: int) -> np.ndarray:
    """Student's t with three degrees of freedom, scaled to standard deviation 1."""
    return rng.standard_t(3, size=(ARMS, seeds)) / np.sqrt(3)


FAMILIES: dict[str, Draw] = {
    "normal, a shared part": shared,
    "unequal variances": unequal,
    "skewed": skewed,
    "success or failure": solved,
    "heavy tails": tailed,
}


def looks(scores: np.ndarray) -> Iterator[PairedFamily]:
    """The family at every look until it is clear."""
    for seeds in LOOKS:
        family = PairedFamily.of(scores[:, :seeds], error=ERROR / len(LOOKS))
        yield family
        if family.clear:
            return


def family_rates(draw: Draw, repeats: int) -> tuple[float, float]:
    """Share of families with an error, and share in which the better learner is shown."""
    wrong = right = 0
    for number in range(repeats):
        wrong += any(not family.no_difference for family in looks(draw(np.random.default_rng((2, number)), BLOCK)))
        scores = draw(np.random.default_rng((3, number)), BLOCK)
        scores[0] += GAIN
        family = list(looks(scores))[-1]
        second = 1 + int(family.scores[1:].mean(axis=1).argmax())
        right += family.lead(0, second).low > 0.0
    return wrong / repeats, right / repeats


# ---- problems


def corridor(length: int, slip: float, noise: float) -> TransitionTable:
    """Left and right; the right end pays 1, plus or minus `noise`, and both ends end the episode."""
    P: Any = [[[], []] for _ in range(length)]
    for s in range(length):
        for a, step in enumerate((-1, 1)):
            for chance, move in ((1 - slip, step), (slip, -step)):
                target = s + move
                if chance > 0 and target in (-1, length):
                    rewards = (1 + noise, 1 - noise) if move > 0 else (0.0,)
                    P[s][a] += [(chance / len(rewards), s, reward, True) for reward in rewards]
                elif chance > 0:
                    P[s][a].append((chance, target, 0.0, False))
    return TransitionTable.from_outcomes(P, starts=length // 3, horizon=4 * length)


def grid(size: int, slip: float, rng: np.random.Generator) -> TransitionTable:
    """A square with holes that end the episode, from one corner to the other, which pays 1."""
    holes = set(rng.choice(np.arange(1, size * size - 1), size, replace=False).tolist())
    moves = ((0, 1), (1, 0), (0, -1), (-1, 0))
    P: Any = [[[] for _ in moves] for _ in range(size * size)]
    for s in range(size * size):
        for a in range(4):
            for b, chance in ((a, 1 - slip), ((a + 1) % 4, slip / 2), ((a + 3) % 4, slip / 2)):
                row, column = np.clip(np.add(divmod(s, size), moves[b]), 0, size - 1)
                target = int(row * size + column)
                goal = target == size * size - 1
                if chance > 0:
                    P[s][a].append((chance, target, float(goal), goal or target in holes))
    return TransitionTable.from_outcomes(P, starts=0, horizon=10 * size)


def graph(states: int, branches: int, rng: np.random.Generator) -> TransitionTable:
    """Every action leads to random states; one in ten pays, some with chance, and episodes last twenty steps."""
    P: Any = [[[] for _ in range(3)] for _ in range(states)]
    pays = np.where(rng.uniform(size=states) < 0.1, rng.uniform(0.5, 1.5, states), 0.0)
    pays[0] = 1.0
    for row in P:
        for outcomes in row:
            targets = rng.choice(states, branches, replace=False)
            chances = rng.dirichlet(np.ones(branches))
            outcomes += [(float(p), int(s), float(pays[s]), False) for p, s in zip(chances, targets, strict=True)]
    return TransitionTable.from_outcomes(P, starts=states - 1, horizon=20)


def problems() -> Iterator[tuple[str, TransitionTable]]:
    """The thirty, kinds in turn."""
    for k in range(10):
        rng = np.random.default_rng((4, k))
        length, slip, noise = 6 + 2 * (k % 5), (0.0, 0.2)[k % 2], (0.0, 3.0)[k // 5]
        yield f"corridor of {length}, slip {slip:g}, noise {noise:g}", corridor(length, slip, noise)
        size, slip = 4 + k % 2, (0.0, 0.1, 0.3)[k % 3]
        yield f"grid of {size}×{size}, slip {slip:g} ({k})", grid(size, slip, rng)
        states, branches = (20, 40)[k % 2], (1, 2, 4)[k % 3]
        yield f"graph of {states}, {branches} branches ({k})", graph(states, branches, rng)


def runs_of(arm: Candidate, table: TransitionTable, settings: Settings, seeds: int) -> Outcome:
    """Every step size and seed of an arm, in one compiled call."""
    source, options = arm.made
    sizes = np.array(settings.ladder[0])
    found = simulate(
        table, learner=arm.bootstrap, lambda_source=source, step_sizes=np.repeat(sizes, seeds),
        seeds=np.tile(np.arange(seeds), sizes.size), episodes=EPISODES, epsilon=1.0 if arm.kind == RANDOM else 0.1,
        discount=settings.discount, threads=1, **{"view": "traces", **options},
    )  # fmt: skip
    shape = sizes.size, seeds, 1
    means = found.returns_at.reshape(shape) / EPISODES
    lost = (found.diverged >= 0).reshape(shape[:2])
    return Outcome(arm, sizes, np.array([EPISODES]), means, np.full(shape, np.nan), lost)


def part(one: Outcome, first: int, seeds: int) -> Outcome:
    """An outcome with some of its seeds."""
    cut = slice(first, first + seeds)
    return Outcome(
        one.arm, one.step_sizes, one.marks, one.mean_return[:, cut], one.mean_lambda[:, cut], one.lost[:, cut]
    )


def truth(one: Outcome) -> float:
    """The mean of all seeds at the best step size."""
    return float(one.all_scores.mean(axis=1).max())


class Decision(NamedTuple):
    """What was recommended from a block of seeds.

    Attributes:
      spoke: whether something was. learned: whether it is not a fixed λ. wrong: see the module's text.
      loss: of the recommended learner. claimed: whether it is not better than the best fixed λ, though that was said.
      naive: loss of the learner with the highest mean of ten seeds.
    """

    spoke: bool
    learned: bool
    wrong: bool
    claimed: bool
    loss: float
    naive: float


def decide(arms: list[Outcome], random: Outcome, settings: Settings, first: int) -> Decision:
    """What `compare` recommends from the seeds beginning with `first`."""
    known = {one.arm: truth(one) for one in arms}
    best = max((arm for arm in known if arm.kind != PLANS), key=lambda arm: known[arm])
    whole = max(known[best] - truth(random), 1e-12)
    found, naive = None, None
    for seeds in LOOKS:
        outcomes = merged([part(one, first, seeds) for one in arms])
        found = Comparison(settings, outcomes, part(random, first, seeds), len(LOOKS), None, "")
        naive = found.rows[0].arm if naive is None else naive
        if found.family.clear:
            break
    assert found is not None
    assert naive is not None
    lost = (known[best] - known[naive]) / whole
    used = found.recommended
    if used is None or used.arm.kind == PLANS:
        return Decision(False, False, False, False, np.nan, lost)
    row = next((row for row in found.rows if best in row.arms), None)
    gap = known[best] - known[used.arm]
    wrong = row is not None and row is not used and gap > found.lead(row, used).high
    fixed = max(known[arm] for arm in known if arm.kind == FIXED)
    learned = used.arm.kind != FIXED
    return Decision(True, learned, wrong, learned and known[used.arm] <= fixed, gap / whole, lost)


def decisions(table: TransitionTable, seeds: int) -> tuple[Candidate, list[Decision]]:
    """The best learner of a problem, and what is recommended from every block of seeds."""
    settings = Settings("x", seeds=BLOCK, episodes=EPISODES, extend=0)
    arms = [runs_of(arm, table, settings, seeds) for arm in make_arms(settings, False)]
    random = runs_of(Candidate(settings.bootstraps[0], RANDOM), table, settings, seeds)
    best = max((one for one in arms if one.arm.kind != PLANS), key=truth).arm
    return best, [decide(arms, random, settings, first) for first in range(0, seeds - BLOCK + 1, BLOCK)]


def main() -> None:
    """Print both tables; a problem that is done is printed at once."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=200, help="families of each kind; 0 leaves them out")
    parser.add_argument("--problems", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=400, help="seeds of a problem; a multiple of 40")
    given = parser.parse_args()
    say = lambda text: print(text, flush=True)  # noqa: E731
    say(f"python -m benchmarks.decisions {' '.join(sys.argv[1:])}\n")
    if given.repeats:
        say(f"families of {ARMS} learners, {given.repeats} repeats\n{'scores':<24}{'error':>8}{'power':>8}")
        for name, draw in FAMILIES.items():
            error, power = family_rates(draw, given.repeats)
            say(f"{name:<24}{error:>8.1%}{power:>8.0%}")
    say(f"\nproblems, {given.seeds} seeds, {given.seeds // BLOCK} decisions each")
    say(f"{'problem':<38}{'best':<40}{'spoke':>6}{'wrong':>6}{'loss':>8}{'naive':>8}")
    every: list[Decision] = []
    for name, table in list(problems())[: given.problems]:
        best, found = decisions(table, given.seeds)
        every += found
        spoke = [one for one in found if one.spoke]
        loss = np.mean([one.loss for one in spoke]) if spoke else np.nan
        say(
            f"{name:<38}{best.label:<40}{len(spoke):>6}{sum(one.wrong for one in spoke):>6}{loss:>8.3f}"
            f"{np.mean([one.naive for one in found]):>8.3f}"
        )
    spoke = [one for one in every if one.spoke]
    learned = [one for one in spoke if one.learned]
    say(f"\n{len(every)} decisions; {len(spoke)} recommend a learner, {len(learned)} of them not a fixed λ")
    say(f"wrong, worse than the best by more than the interval says: {sum(one.wrong for one in spoke)}")
    say(f"not better than the best fixed λ, though that is said: {sum(one.claimed for one in learned)}")
    loss, naive = (np.mean(values) for values in ([one.loss for one in spoke], [one.naive for one in every]))
    say(f"mean loss: {loss:.3f}; of the highest mean of ten seeds: {naive:.3f}")


if __name__ == "__main__":
    main()
