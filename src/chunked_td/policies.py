"""Policies: probabilities and draws, with ties and masks.

The *probabilities* of the behaviour policy enter λ (Alg. 2: π(a'|x'); Alg. 1 and 3: Σ_a π(a|x) P̂(x'|x,a)) and the
bootstrap of Expected-SARSA (Alg. 3, 4). The paper's policy is ε-greedy; `chunked_td.learners.exploration` has others.

A draw takes one uniform number if more than one action is legal, and none otherwise.
"""

import math

from chunked_td._link import slot
from chunked_td.seeding import uniform

GREEDY, UNIFORM, GIVEN = 0, 1, 2
"""Policies: from the values (ε-greedy, or by `exploration`), uniform, or written by the caller."""


def only_legal(legal):
    """The legal action if there is exactly one, else −1.

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


def _share(values, legal, best, ties, count, epsilon):
    """Replace action values by ε-greedy probabilities; `ties` actions have the value `best`."""
    lost = ties == 0  # every value is NaN: learning has diverged, and all actions are equally good
    if lost:
        ties = count
    for a in range(legal.size):
        if not legal[a]:
            values[a] = 0.0
        elif lost or values[a] == best:
            values[a] = epsilon / count + (1.0 - epsilon) / ties
        else:
            values[a] = epsilon / count


def epsilon_greedy(q, legal, epsilon, out):
    """Probabilities of the ε-greedy policy on Σ_i Q^i (Alg. 4 acts on the global value).

        π(a) = ε/|legal| + (1 − ε)/|greedy| · [a is greedy],   0 where masked

    An action whose value is NaN is greedy only if all values are NaN.

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
    _share(out, legal, best, ties, count, epsilon)


def optimistic_greedy(q, visits, legal, scale, prior, epsilon, out):
    """Probabilities of the ε-greedy policy on Σ_i Q^i plus a bonus for rarely taken actions.

        U(a) = Q(a) + c/√(n(a) + n₀),   π(a) = ε/|legal| + (1 − ε)/|greedy in U| · [a is greedy in U],   0 where masked

    With n₀ = 0, actions never taken rank above all others. NaN is treated as in `epsilon_greedy`.

    Args:
      q: float64[A, d], one column per reward component.
      visits: int64[A], n.
      legal: bool[A], at least one true.
      scale: c ≥ 0. prior: n₀ ≥ 0.
      epsilon: float in [0, 1].
      out: float64[A], overwritten.
    """
    best, ties, count = 0.0, 0, 0
    for a in range(legal.size):
        out[a] = 0.0
        if legal[a]:
            for i in range(q.shape[1]):
                out[a] += q[a, i]
            n = visits[a] + prior
            out[a] = math.inf if n == 0.0 else out[a] + scale / math.sqrt(n)
            count += 1
            if out[a] == out[a] and (ties == 0 or out[a] > best):
                best, ties = out[a], 1
            elif ties > 0 and out[a] == best:
                ties += 1
    _share(out, legal, best, ties, count, epsilon)


def _epsilon_greedy(no_exploration, q, state, legal, rate, out):
    epsilon_greedy(q, legal, rate, out)


write_policy = slot("exploration", "probabilities", _epsilon_greedy)
count_action, count_reward = slot("exploration", "count_action", None), slot("exploration", "count_reward", None)
"""write_policy(exploration, q, state, legal, rate, out): write π(·|state) of a compiled `Exploration`, or ε-greedy.
count_action(exploration, state, action, n_actions): called after every action.
count_reward(exploration, reward, discount, first, last): called after every reward; `first` and `last` mark the first
and last step of an episode."""


def policy_at(exploration, q, state, legal, rate, out):
    """`write_policy` for calls from Python."""
    write_policy(exploration, q, state, legal, rate, out)


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
    return last  # by rounding, the sum is below one
