"""Count models: P̂(x'|x,a) = n(x,a,x') / n(x,a) (App. A.1), sparse and compiled.

One structure serves every count model of the package. It counts pairs (origin → target):

- forward: origin = (x, a), target = x';
- backward (§3.2): origin = x or (x, a), target = the predecessor x or (x, a);
- per component: origin = (x, a, i), target = the value x'^i.

Memory grows with the distinct pairs seen. Counts are incremented before they are queried (App. A.1), so an
observed transition never has probability zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chunked_td.compiled import kernel


class Counts(NamedTuple):
    """A hash table of counted pairs, with the pairs of one origin linked in a list."""

    table: np.ndarray  # int64[2^m]: pair + 1, or 0 where free
    origin: np.ndarray  # int64[capacity], in order of first sight
    target: np.ndarray  # int64[capacity]
    number: np.ndarray  # int64[capacity]: n(origin → target)
    following: np.ndarray  # int64[capacity]: next pair of the same origin, or −1
    head: np.ndarray  # int64[origins]: first pair of an origin, or −1
    total: np.ndarray  # int64[origins]: n(origin)
    size: np.ndarray  # int64[1]: distinct pairs
    prior: np.ndarray  # float64[1 + k]: Dirichlet pseudo-count per outcome; number of outcomes of origins ≡ i mod k

    @classmethod
    def empty(cls, origins: int, prior: float = 0.0, outcomes: int | Sequence[int] = 1, capacity: int = 256) -> Counts:
        """Nothing counted yet.

        Args:
          origins: number of origins.
          prior: Dirichlet pseudo-count of every outcome; 0 gives plain frequencies.
          outcomes: how many outcomes the prior spreads over; k numbers where origins take turns (x, a, i).
          capacity: distinct pairs to make room for.
        """
        slots = 1
        while slots < 2 * capacity:
            slots *= 2
        return cls(
            table=np.zeros(slots, np.int64),
            origin=np.zeros(capacity, np.int64),
            target=np.zeros(capacity, np.int64),
            number=np.zeros(capacity, np.int64),
            following=np.zeros(capacity, np.int64),
            head=np.full(origins, -1, np.int64),
            total=np.zeros(origins, np.int64),
            size=np.zeros(1, np.int64),
            prior=np.append(prior, outcomes).astype(np.float64),
        )

    def grown(self, origins: int, capacity: int) -> Counts:
        """The same counts with room for more origins and more distinct pairs."""
        larger = Counts.empty(origins, self.prior[0], self.prior[1:].astype(int).tolist(), capacity)
        size = int(self.size[0])
        for old, new in zip(self[1:5], larger[1:5], strict=True):
            new[:size] = old[:size]
        for old, new in zip(self[5:7], larger[5:7], strict=True):
            new[: old.size] = old
        larger.size[0] = size
        rehash(larger)
        return larger

    def copy(self) -> Counts:
        """An independent copy."""
        return Counts(*(field.copy() for field in self))


@kernel
def _slot(counts, origin, target):
    """Place of the pair in the hash table, or the free place where it belongs."""
    mask = counts.table.size - 1
    mixed = origin * 2654435761 + target * 40503
    k = (mixed ^ (mixed >> 17)) & mask
    while counts.table[k] != 0:
        pair = counts.table[k] - 1
        if counts.origin[pair] == origin and counts.target[pair] == target:
            return k
        k = (k + 1) & mask
    return k


@kernel
def rehash(counts):
    """Enter every stored pair into an empty hash table."""
    for pair in range(counts.size[0]):
        counts.table[_slot(counts, counts.origin[pair], counts.target[pair])] = pair + 1


@kernel
def find(counts, origin, target):
    """The pair's number, or −1 if it was never seen."""
    return counts.table[_slot(counts, origin, target)] - 1


@kernel
def increment(counts, origin, target):
    """n(origin → target) += 1; returns the pair. The caller keeps one pair of room."""
    k = _slot(counts, origin, target)
    pair = counts.table[k] - 1
    if pair < 0:
        pair = counts.size[0]
        counts.size[0] = pair + 1
        counts.table[k] = pair + 1
        counts.origin[pair] = origin
        counts.target[pair] = target
        counts.number[pair] = 0
        counts.following[pair] = counts.head[origin]
        counts.head[origin] = pair
    counts.number[pair] += 1
    counts.total[origin] += 1
    return pair


@kernel
def outcome_number(counts, origin):
    """How many outcomes the prior gives an origin."""
    return counts.prior[1 + origin % (counts.prior.size - 1)]


@kernel
def probability(counts, origin, target):
    """P̂(target | origin) = (n + c) / Σ(n + c): 0 for an origin never seen, unless there is a prior c."""
    if counts.total[origin] == 0 and counts.prior[0] == 0.0:
        return 0.0
    return pair_probability(counts, origin, find(counts, origin, target))


@kernel
def pair_probability(counts, origin, pair):
    """`probability` for a pair that was found already (−1 if it was never seen); the origin was, or has a prior."""
    c = counts.prior[0]
    number = counts.number[pair] if pair >= 0 else 0
    if c == 0.0:
        return number / counts.total[origin]
    return (number + c) / (counts.total[origin] + c * outcome_number(counts, origin))


@kernel
def mixed_probability(counts, base, stride, policy, target):
    """Σ_a π(a) P̂(target | origin_a), origin_a = base + a·stride: P̂^π(x'|x)."""
    total = 0.0
    for a in range(policy.size):
        if policy[a] > 0.0:
            total += policy[a] * probability(counts, base + a * stride, target)
    return total


@kernel
def expected_mixed_probability(counts, base, stride, policy):
    """Σ_target (Σ_a π(a) P̂(target | origin_a))²: the expectation of `mixed_probability` over outcomes.

    With a prior, the mass on targets never seen is spread evenly over the outcomes that are left.
    """
    total = 0.0
    seen_mass = 0.0
    seen = 0
    for a in range(policy.size):
        pair = counts.head[base + a * stride] if policy[a] > 0.0 else -1
        while pair >= 0:
            if _first_to_reach(counts, base, stride, policy, a, counts.target[pair]):
                p = mixed_probability(counts, base, stride, policy, counts.target[pair])
                total += p * p
                seen_mass += p
                seen += 1
            pair = counts.following[pair]
    left = outcome_number(counts, base) - seen
    if counts.prior[0] > 0.0 and left > 0.0:
        total += (1.0 - seen_mass) ** 2 / left
    return total


@kernel
def _first_to_reach(counts, base, stride, policy, a, target):
    """Whether no action before `a` is known to reach `target` (each target is to be summed once)."""
    for b in range(a):
        if policy[b] > 0.0 and find(counts, base + b * stride, target) >= 0:
            return False
    return True
