"""Policies: probabilities and draws, with ties and masks.

The *probabilities* of the ε-greedy policy matter as much as its draws: they enter λ (Alg. 2: π(a'|x'); Alg. 1 and 3:
Σ_a π(a|x) P̂(x'|x,a)) and the bootstrap of Expected-SARSA (Alg. 3, 4).

Drawing takes one uniform number if more than one action is legal, and none otherwise.
"""

from __future__ import annotations

from chunked_td._numba import kernel
from chunked_td.seeding import uniform

GREEDY, UNIFORM, GIVEN = 0, 1, 2
"""How action probabilities come about: ε-greedy on the values, uniform, or written by the caller."""


@kernel
def only_legal(legal):
    """The legal action if there is just one, −1 otherwise.

    Args:
      legal: bool[A].
    """
    found = -1
    for a in range(legal.size):
        if legal[a]:
            if found >= 0:
                return -1
            found = a
    return found


@kernel
def epsilon_greedy(q, legal, epsilon, out):
    """Probabilities of the ε-greedy policy on Σ_i Q^i (Alg. 4 acts on the global value).

        π(a) = ε/|legal| + (1 − ε)/|greedy| · [a is greedy],   0 where masked

    An action whose value is NaN is not greedy, unless all are.

    Args:
      q: float64[A, d], one column per reward component.
      legal: bool[A], at least one true.
      epsilon: float in [0, 1].
      out: float64[A], overwritten.
    """
    best = -1.0e308
    ties = 0
    count = 0
    for a in range(legal.size):
        out[a] = 0.0
        if legal[a]:
            for i in range(q.shape[1]):
                out[a] += q[a, i]
            count += 1
            if out[a] == out[a] and (ties == 0 or out[a] > best):
                best = out[a]
                ties = 1
            elif out[a] == best:
                ties += 1
    lost = ties == 0  # every value is NaN: learning has diverged, and all actions are alike
    if lost:
        ties = count
    for a in range(legal.size):
        if not legal[a]:
            out[a] = 0.0
        elif lost or out[a] == best:
            out[a] = epsilon / count + (1.0 - epsilon) / ties
        else:
            out[a] = epsilon / count


@kernel
def uniform_legal(legal, out):
    """Equal probabilities for the legal actions.

    Args:
      legal: bool[A], at least one true.
      out: float64[A], overwritten.
    """
    count = 0
    for a in range(legal.size):
        if legal[a]:
            count += 1
    for a in range(legal.size):
        out[a] = 1.0 / count if legal[a] else 0.0


@kernel
def draw(probabilities, rng):
    """Draw an action; takes a random number only if there is a choice.

    Args:
      probabilities: float64[A], summing to one.
      rng: a Stream.
    """
    last = -1
    choices = 0
    for a in range(probabilities.size):
        if probabilities[a] > 0.0:
            last = a
            choices += 1
    if choices <= 1:
        return last
    u = uniform(rng)
    cumulative = 0.0
    for a in range(probabilities.size):
        cumulative += probabilities[a]
        if probabilities[a] > 0.0 and u < cumulative:
            return a
    return last  # the sum fell short of one by rounding
