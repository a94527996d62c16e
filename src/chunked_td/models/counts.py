"""Count models: P̂(x'|x,a) = n(x,a,x') / n(x,a) (App. A.1), sparse and compiled.

`Counts` counts pairs (origin → target). Three models use it:

| model | origin | target | predictions |
|---|---|---|---|
| `ForwardCounts` | (x, a) | x' | probability of the sampled percept, all outcomes, visits |
| `PartCounts` | (x, a, i) | the components of x' that determine reward i | probability of each part of x' |
| `BackwardCounts` (§3.2) | x, or (x, a) | the predecessor x, or (x, a) | probability of the previous state |

Memory grows with the distinct observed pairs. Counts are incremented before they are read (App. A.1), so an observed
transition never has probability zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from chunked_td._link import compiled, kernel, natural, zeros
from chunked_td.bootstraps import SARSA

ORIGIN, TARGET, NUMBER, FOLLOWING = range(4)
"""Columns of `Counts.pairs`."""


class Counts(NamedTuple):
    """Hash table of counted pairs; the pairs of one origin form a linked list."""

    table: Annotated[np.ndarray, "int32[slots], unsaved"]  # pair + 1, or 0 where free; slots are a power of 2
    pairs: Annotated[np.ndarray, "int64[capacity, 4]"]  # origin, target, n(origin → target), next pair of it or −1
    head: Annotated[np.ndarray, "int64[origins], unsaved"]  # first pair of an origin, or −1
    total: Annotated[np.ndarray, "int64[origins], unsaved"]  # n(origin)
    size: Annotated[np.ndarray, "int64[1], unsaved"]  # distinct pairs
    prior: Annotated[np.ndarray, "float64[k], unsaved"]  # pseudo-count; number of outcomes of origins ≡ i mod k − 1

    @classmethod
    def empty(cls, origins: int, prior: float = 0.0, outcomes: int | Sequence[int] = 1, capacity: int = 256) -> Counts:
        """A table without counts.

        Args:
          origins: number of origins.
          prior: Dirichlet pseudo-count of every outcome; 0 gives plain frequencies.
          outcomes: number of outcomes under the prior; k numbers if origins are (x, a, i) with i in 0..k − 1.
          capacity: largest number of distinct pairs.
        """
        slots = 1
        while slots < 2 * capacity:
            slots *= 2
        sizes = {"slots": slots, "capacity": capacity, "origins": origins}
        known = np.append(prior, outcomes).astype(np.float64)
        return zeros(cls, sizes, head=np.full(origins, -1, np.int64), prior=known)

    def grown(self, origins: int, capacity: int) -> Counts:
        """The same counts with larger arrays for origins and distinct pairs."""
        larger = Counts.empty(origins, self.prior[0], self.prior[1:].astype(int).tolist(), capacity)
        size = int(self.size[0])
        larger.pairs[:size] = self.pairs[:size]
        larger.size[0] = size
        compiled(rehash)(larger)
        return larger

    @property
    def room(self) -> int:
        """Number of further distinct pairs that fit."""
        return self.pairs.shape[0] - int(self.size[0])


def _slot(counts, origin, target):
    """Slot of the pair in the hash table, or the free slot for it.

    Neighbouring origins with the same target have neighbouring slots, so the parts of one state share a cache line.
    """
    mask = counts.table.size - 1
    k = natural((origin + ((target * 2654435761) >> 11)) & mask)
    while counts.table[k] != 0:
        pair = natural(counts.table[k] - 1)
        if counts.pairs[pair, ORIGIN] == origin and counts.pairs[pair, TARGET] == target:
            return k
        k = natural((k + 1) & mask)
    return k


def rehash(counts):
    """Insert every stored pair into an empty hash table and the list of its origin, oldest first."""
    for pair in range(counts.size[0]):
        origin = counts.pairs[pair, ORIGIN]
        counts.table[_slot(counts, origin, counts.pairs[pair, TARGET])] = pair + 1
        counts.pairs[pair, FOLLOWING] = counts.head[origin]
        counts.head[origin] = pair
        counts.total[origin] += counts.pairs[pair, NUMBER]


def find(counts, origin, target):
    """Index of the pair, or −1 if it was never counted."""
    return counts.table[_slot(counts, origin, target)] - 1


def increment(counts, origin, target):
    """n(origin → target) += 1; returns the index of the pair. The caller ensures room for one pair."""
    k = _slot(counts, origin, target)
    pair = counts.table[k] - 1
    if pair < 0:
        pair = natural(counts.size[0])
        counts.size[0] = pair + 1
        counts.table[k] = pair + 1
        counts.pairs[pair, ORIGIN] = origin
        counts.pairs[pair, TARGET] = target
        counts.pairs[pair, NUMBER] = 0
        counts.pairs[pair, FOLLOWING] = counts.head[origin]
        counts.head[origin] = pair
    counts.pairs[pair, NUMBER] += 1
    counts.total[origin] += 1
    return pair


def count_or_find(counts, origin, target, counting):
    """Index of the pair; its count is incremented if `counting`."""
    return increment(counts, origin, target) if counting else find(counts, origin, target)


def outcome_number(counts, origin):
    """Number of outcomes of an origin under the prior."""
    return counts.prior[1 + origin % (counts.prior.size - 1)]


def is_known(counts, origin):
    """Whether an origin was counted or has a prior."""
    return counts.total[origin] > 0 or counts.prior[0] > 0.0


def probability(counts, origin, target):
    """P̂(target | origin) = (n + c) / Σ(n + c) with prior c; 0 for an unseen origin without a prior."""
    if not is_known(counts, origin):
        return 0.0
    return pair_probability(counts, origin, find(counts, origin, target))


def pair_probability(counts, origin, pair):
    """`probability` of a pair by its index, −1 if it was never counted; the origin must be known."""
    c = counts.prior[0]
    if c == 0.0:
        return counts.pairs[pair, NUMBER] / counts.total[origin] if pair >= 0 else 0.0
    number = counts.pairs[pair, NUMBER] if pair >= 0 else 0
    return (number + c) / (counts.total[origin] + c * outcome_number(counts, origin))


def unseen_share(counts, origin):
    """P̂ of one unseen outcome: 0 without a prior."""
    c = counts.prior[0]
    return 0.0 if c == 0.0 else c / (counts.total[origin] + c * outcome_number(counts, origin))


def unseen_number(counts, origin):
    """Number of unseen outcomes of an origin, at least 0."""
    seen = 0
    pair = counts.head[origin]
    while pair >= 0:
        seen += 1
        pair = counts.pairs[pair, FOLLOWING]
    return max(outcome_number(counts, origin) - seen, 0.0)


def _has_room(model, pairs):
    """Whether `pairs` new pairs fit."""
    return model.counts.pairs.shape[0] - model.counts.size[0] >= pairs


class ForwardCounts(NamedTuple):
    """The forward model of the paper: counts of (x, a → x')."""

    counts: Counts
    latest: Annotated[np.ndarray, "int64[one]"]  # the pair of the transition observed last

    has_room = kernel(_has_room)

    @kernel
    def observe(model, step, counting):
        """Count the transition; without `counting` only find it, as a model error replaces it."""
        row = natural(step.state * step.n_actions + step.action)
        model.latest[0] = count_or_find(model.counts, row, step.percept, counting)

    @kernel
    def chance(step, action, part):
        """P̂(x'|x, action) of the sampled percept."""
        model, row = step.model, natural(step.state * step.n_actions + action)
        if action == step.action:
            return pair_probability(model.counts, row, model.latest[0])
        return probability(model.counts, row, step.percept)

    @kernel
    def knows(step, action):
        """Whether (x, action) was counted or has a prior."""
        return is_known(step.model.counts, step.state * step.n_actions + action)

    @kernel
    def overlap(step, a, b, part):
        """Σ_{x'} P̂(x'|x,a) P̂(x'|x,b)."""
        counts, row = step.model.counts, step.state * step.n_actions
        total = 0.0
        pair = counts.head[row + a]
        while pair >= 0:
            p = pair_probability(counts, row + a, pair)
            total += p * (p if a == b else probability(counts, row + b, counts.pairs[pair, TARGET]))
            pair = counts.pairs[pair, FOLLOWING]
        share = unseen_share(counts, row + a)
        if share > 0.0:
            total += share * _mass_beyond(counts, row + a, row + b)
        return total

    @kernel
    def following(step, action, outcome):
        """The outcome after `outcome`, the first after −1; −1 if there is none."""
        if outcome < 0:
            return step.model.counts.head[step.state * step.n_actions + action]
        return step.model.counts.pairs[outcome, FOLLOWING]

    @kernel
    def target(step, action, outcome):
        """The next state of an outcome."""
        return step.model.counts.pairs[outcome, TARGET]

    @kernel
    def weight(step, action, outcome):
        """P̂ of an outcome."""
        return pair_probability(step.model.counts, step.state * step.n_actions + action, outcome)

    @kernel
    def unlisted_squares(step, action):
        """Σ P̂² over the unseen outcomes, which have only their prior."""
        counts, origin = step.model.counts, step.state * step.n_actions + action
        share = unseen_share(counts, origin)
        return 0.0 if share == 0.0 else unseen_number(counts, origin) * share * share

    @kernel
    def visits(step, state):
        """n(state): number of counted transitions from it."""
        total = 0
        for b in range(step.n_actions):
            total += step.model.counts.total[state * step.n_actions + b]
        return total


def _mass_beyond(counts, a, b):
    """P̂(·|b) of all outcomes that were never counted from `a`."""
    mass = 1.0
    pair = counts.head[a]
    while pair >= 0:
        mass -= probability(counts, b, counts.pairs[pair, TARGET])
        pair = counts.pairs[pair, FOLLOWING]
    return max(mass, 0.0)


class PartCounts(NamedTuple):
    """Forward models per reward component (Alg. 4): counts of (x, a → the components of x' that determine reward i)."""

    counts: Counts
    latest: Annotated[np.ndarray, "int64[d]"]  # the pairs of the transition observed last
    value: Annotated[np.ndarray, "int64[d]"]  # the sampled value of each part

    has_room = kernel(_has_room)

    @kernel
    def observe(model, step, counting):
        """Count the transition once for every part; without `counting` only find its parts."""
        d = model.latest.size
        row = (step.state * step.n_actions + step.action) * d
        for i in range(d):
            model.value[i] = part_value(step.components, step.tables, i, step.next_state)
            model.latest[i] = count_or_find(model.counts, row + i, model.value[i], counting)

    @kernel
    def knows(step, action):
        """Whether (x, action) was counted or has a prior."""
        origin = (step.state * step.n_actions + action) * step.model.latest.size
        return is_known(step.model.counts, origin)

    @kernel
    def chance(step, action, part):
        """P̂(x'^part|x, action) of the sampled next state; for WHOLE the product over all parts."""
        if part >= 0:
            return _chance_of_part(step, action, part)
        product = 1.0
        for i in range(step.model.latest.size):
            product *= _chance_of_part(step, action, i)
        return product


def _chance_of_part(step, action, part):
    """P̂(x'^part|x, action) of the sampled next state."""
    model = step.model
    origin = (step.state * step.n_actions + action) * model.latest.size + part
    if action == step.action:
        return pair_probability(model.counts, origin, model.latest[part])
    return probability(model.counts, origin, model.value[part])


def part_value(components, tables, i, state):
    """State components that determine reward i, as one number.

    Args:
      components: int64[c] of `state`; None to compute them from its id.
    """
    value = 0
    stride = 1
    below = 1  # product of the sizes of the components that run faster
    for j in range(tables.parts.shape[1] - 1, -1, -1):
        if tables.parts[i, j]:  # divisions are the largest cost here
            value += stride * (state // below % tables.nvec[j] if components is None else components[j])
            stride *= tables.nvec[j]
        below *= tables.nvec[j]
    return value


class BackwardCounts(NamedTuple):
    """The backward model (§3.2): counts of the predecessors of states."""

    counts: Counts

    has_room = kernel(_has_room)

    @kernel
    def observe(model, step, counting):
        """Count the transition from its end: x' ← x, or (x', a') ← (x, a)."""
        A = step.n_actions
        if not counting:
            return
        if step.bootstrap != SARSA:
            increment(model.counts, step.next_state, step.state)
        elif step.next_action >= 0:
            increment(model.counts, step.next_state * A + step.next_action, step.state * A + step.action)

    @kernel
    def came_from(step):
        """P̂^π(x_{t−1}|x_t) or P̂^π(x_{t−1},a_{t−1}|x_t,a_t); 0 at the start, when the traces are empty."""
        counts, A = step.model.counts, step.n_actions
        if step.previous < 0:
            return 0.0
        if step.bootstrap == SARSA:
            return probability(counts, step.state * A + step.action, step.previous)
        return probability(counts, step.state, step.previous // A)
