"""Transition as input of a λ source, and the model queries that a source may call.

Models return probabilities: a query is a kernel `name(step, …)` of the class of `step.model`. This module averages them
over the policy, once for counts, the true model and networks.

| query | result |
|---|---|
| `chance(step, a, part)` | P̂(x'|x, a) of the sampled next state, or of a part of it |
| `mixture(step, part)` | P̂^π(x'|x) = Σ_a π(a|x) P̂(x'|x, a) / Σ_a π(a|x), over the actions that the model knows |
| `expected_mixture(step, part)` | Σ_{x'} P̂^π(x'|x)², the expected mixture before the step |
| `mean_overlap(step, part)` | Σ_a π(a|x) Σ_{x'} P̂(x'|x, a)² / Σ_a π(a|x), over the actions that the model knows |
| `tried(step)` | Σ_a π(a|x) over the actions that the model knows: 1 if all were tried |
| `choice(step)` | π(a'|x'), 1 on the last transition |
| `expected_choice(step)` | Σ_{x'} P̂(x'|x, a)² Σ_{a'} π(a'|x')² |
| `overlap(step, a, b, part)` | Σ_{x'} P̂(x'|x, a) P̂(x'|x, b) |
| `first(step, a)`, `following(step, a, k)` | the outcomes of action a one by one, then −1 |
| `target(step, a, k)`, `weight(step, a, k)` | the next state of outcome k, and its probability |
| `value_at(step, state)` | V(state), or Σ_a π(a|state) Q(state, a); 0 if no action was ever taken there |
| `visits(step)`, `visits_of(step, state)` | n(x_t), n(state) |
| `present_value(step, i)` | B(x_t), the bootstrap value at x_t |
| `came_from(step)` | P̂ of the predecessor |

A part is the number of a reward component, or `WHOLE`.

Counts have no outcome for an action that was never tried in a state. By default such actions are excluded: the sum over
the tried actions is divided by their probability. To give untried actions probability 0, multiply by `tried(step)`.
This lowers λ even in a deterministic environment.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import REQUIRED, natural, slot
from chunked_td.bootstraps import Q_LEARNING, SARSA, STATE
from chunked_td.policies import write_policy

WHOLE = -1
"""Part number of all state components together; part i ≥ 0 is the components that decide reward i."""


class Transition(NamedTuple):
    """Transition at time t. The fields are those of `Step`."""

    state: int
    action: int
    reward: Annotated[np.ndarray, "float64[d]"]
    next_state: int
    components: Any
    percept: int
    next_action: int
    previous: int
    ended: int


class Step(NamedTuple):
    """Transition t: from x_t by a_t to x_{t+1}, with a_{t+1} already chosen.

    A λ_t that depends on `reward` or `td_error` of its own transition is correlated with the δ_t that it weights, which
    moves the fixed point away from V^π. Use them in `after_step`, for the λ of later steps. In exact analysis both are
    NaN.
    """

    state: int
    action: int
    next_state: int
    components: Any  # int64[c], the components of next_state if available, else None
    percept: int  # what the model predicts: the next state, or an id for the pair of reward and next state
    reward: Annotated[np.ndarray, "float64[d]"]  # r_{t+1}, in the learner's reward components
    td_error: Annotated[np.ndarray, "float64[d]"]  # δ_t; computed before λ_t
    next_action: int  # −1 on the last transition
    previous: int  # x_{t−1}·A + a_{t−1}, or −1 at the start
    ended: int  # 0 before the last step, 1 on termination, 2 on truncation
    policy: Annotated[np.ndarray, "float64[A]"]  # π(·|x_t) when a_t was sampled; if the source requires it
    next_policy: Annotated[np.ndarray, "float64[A]"]  # π(·|x_{t+1}); at least the entry of a_{t+1}
    scratch: Annotated[np.ndarray, "float64[A]"]
    epsilon: float  # or another exploration parameter, such as a temperature
    bootstrap: Any  # see chunked_td.bootstraps
    n_actions: Any
    discount: float  # γ
    tables: Any  # values, legal actions, sizes and parts of the state components
    model: Any
    truth: Any  # environment, state before, state after: in simulation, else None


def make_step(transition, policies, td_error, scratch, epsilon, rule, tables, model, truth):
    """Build a `Step`; no other function does.

    Args:
      transition: Transition. policies: π(·|x_t) and π(·|x_{t+1}). rule: bootstrap, n_actions and discount.
    """
    return Step(
        state=transition.state,
        action=transition.action,
        next_state=transition.next_state,
        components=transition.components,
        percept=transition.percept,
        reward=transition.reward,
        td_error=td_error,
        next_action=transition.next_action,
        previous=transition.previous,
        ended=transition.ended,
        policy=policies[0],
        next_policy=policies[1],
        scratch=scratch,
        epsilon=epsilon,
        bootstrap=rule.bootstrap,
        n_actions=rule.n_actions,
        discount=rule.discount,
        tables=tables,
        model=model,
        truth=truth,
    )


def bootstrap_value(bootstrap, n_actions, values, state, action, policy, i):
    """B^i(x): V^i(s), Q^i(s,a), Σ_a π(a|s) Q^i(s,a), or Q^i at the action that is best by Σ_i Q^i, first of ties.

    Args:
      action: SARSA's; −1 if none was sampled, as on truncation: the expectation is used instead.
      policy: float64[A], π(·|x), used by the last two. Actions of probability 0 are illegal or not greedy.
    """
    A = n_actions
    if bootstrap == STATE:
        return values[state, i]
    if bootstrap == SARSA and action >= 0:
        return values[natural(state * A + action), i]
    if bootstrap == Q_LEARNING:
        return values[state * A + _best(values, state * A, policy), i]
    total = 0.0
    for a in range(A):
        if policy[a] > 0.0:
            total += policy[a] * values[state * A + a, i]
    return total


def _best(values, row, policy):
    """Return the first action with the largest Σ_i Q^i."""
    best, most = -1, 0.0
    for a in range(policy.size):
        if policy[a] > 0.0:
            total = 0.0
            for i in range(values.shape[1]):
                total += values[row + a, i]
            if best < 0 or total > most:
                best, most = a, total
    return best


def present_value(step, i):
    """B^i(x_t) of `bootstrap_value`. It depends on the policy for Expected-SARSA and Q-learning."""
    return bootstrap_value(step.bootstrap, step.n_actions, step.tables.values, step.state, step.action, step.policy, i)


def _question(name: str, default: Any = REQUIRED, asked: str = "") -> Any:
    """Return the slot of the model kernel `name`; without that kernel a source that calls it raises an error."""
    return slot("model", name, default, f"lambda_source calls {name}(): its asks() must return {asked or name!r}")


chance, came_from, visits_of = _question("chance"), _question("came_from"), _question("visits")
overlap = _question("overlap")
following, target, weight = (_question(name, asked="'outcomes'") for name in ("following", "target", "weight"))


def first(step, action):
    """The first outcome of an action, or −1."""
    return following(step, action, -1)


def visits(step):
    """n(x_t)."""
    return visits_of(step, step.state)


def choice(step):
    """π(a'|x'); 1 on the last transition, which has no a'."""
    return step.next_policy[step.next_action] if step.next_action >= 0 else 1.0


knows = _question("knows", True)


def tried(step):
    """Σ_a π(a|x) over the actions that the model knows."""
    total = 0.0
    missing = False
    for a in range(step.n_actions):
        if step.policy[a] > 0.0:
            if knows(step, a):
                total += step.policy[a]
            else:
                missing = True
    return total if missing else 1.0


def _mixture(step, part):
    total = 0.0
    for a in range(step.n_actions):
        if step.policy[a] > 0.0:
            total += step.policy[a] * chance(step, a, part)
    known = tried(step)
    return min(total / known, 1.0) if known > 0.0 else 0.0  # policies sum to 1 up to rounding


def _expected_mixture(step, part):
    """Σ_a Σ_b π(a|x) π(b|x) Σ_{x'} P̂(x'|x,a) P̂(x'|x,b), over the actions that the model knows."""
    total = 0.0
    for a in range(step.n_actions):
        if step.policy[a] > 0.0:
            total += step.policy[a] * step.policy[a] * overlap(step, a, a, part)
            for b in range(a):
                if step.policy[b] > 0.0:
                    total += 2.0 * step.policy[a] * step.policy[b] * overlap(step, a, b, part)
    known = tried(step)
    return min(total / (known * known), 1.0) if known > 0.0 else 0.0


_unlisted = _question("unlisted_squares", 0.0)


def _expected_choice(step):
    total = 0.0
    k = first(step, step.action)
    while k >= 0:
        p = weight(step, step.action, k)
        total += p * p * squared_policy(step, target(step, step.action, k))
        k = following(step, step.action, k)
    return total + _unlisted(step, step.action)  # never observed from here: without the policy factor


mixture = _question("mixture", _mixture)
expected_mixture = _question("expected_mixture", _expected_mixture)
expected_choice = _question("expected_choice", _expected_choice)


def mean_overlap(step, part):
    """Σ_a π(a|x) Σ_{x'} P̂(x'|x,a)², over the actions that the model knows, without the policy's own randomness."""
    total = 0.0
    for a in range(step.n_actions):
        if step.policy[a] > 0.0:
            total += step.policy[a] * overlap(step, a, a, part)
    known = tried(step)
    return min(total / known, 1.0) if known > 0.0 else 0.0


def _write_policy_at(step, state):
    """Write π(·|state) to `scratch`, for a state other than the present one whose legal actions are known."""
    A = step.n_actions
    q, legal = step.tables.values[state * A : (state + 1) * A], step.tables.legal[state]
    write_policy(step.tables.exploration, q, state, legal, step.epsilon, step.scratch)


def value_at(step, state):
    """V(state), or Σ_a π(a|state) Q(state,a) of the behaviour policy, summed over reward components.

    0 for states without any action so far, including terminal states. NaN if `asks` does not return it.
    """
    values, A = step.tables.values, step.n_actions
    total = 0.0
    if step.bootstrap == STATE:
        for i in range(values.shape[1]):
            total += values[state, i]
        return total
    if step.tables.legal.shape[0] == 0:
        return np.nan
    if state >= step.tables.legal.shape[0]:
        return 0.0
    _write_policy_at(step, state)
    for a in range(A):
        if step.tables.legal[state, a]:
            for i in range(values.shape[1]):
                total += step.scratch[a] * values[state * A + a, i]
    return total


def squared_policy(step, state):
    """Σ_a π(a|state)² of the behaviour policy; 1 for states without any action so far, including terminal ones.

    NaN if no query that `asks` returns needs it.
    """
    if step.tables.legal.shape[0] == 0:
        return np.nan
    if state >= step.tables.legal.shape[0]:
        return 1.0
    A = step.n_actions
    _write_policy_at(step, state)
    total = 0.0
    for a in range(A):
        if step.tables.legal[state, a]:
            total += step.scratch[a] * step.scratch[a]
    return total if total > 0.0 else 1.0
