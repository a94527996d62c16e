"""λ sources: one number per transition (or one per reward component) that says how far credit jumps.

| source | state values, Expected-SARSA | SARSA |
|---|---|---|
| `ConstantLambda` | λ | λ |
| `ForwardLambda` (the paper) | P̂^π(x'|x) = Σ_a π(a|x) P̂(x'|x,a) (Alg. 1, 3) | P̂(x'|x,a) π(a'|x') (Alg. 2) |
| `FactoredLambda` | Σ_a π(a|x) P̂(x'^i|x,a), one per reward component i (Alg. 4) | – |
| `ExpectedLambda` | Σ_{x'} P̂^π(x'|x)² | Σ_{x'} P̂(x'|x,a)² Σ_{a'} π(a'|x')² |
| `BackwardLambda` (§3.2) | P̂^π(x_{t−1}|x_t) | P̂^π(x_{t−1},a_{t−1}|x_t,a_t) |
| `VisitLambda` (App. C) | 1/n(x_t) | 1/n(x_t) |
| `WatkinsLambda` | λ, cut to 0 after an exploratory action | likewise |

λ_t belongs to transition t, which *leaves* the state at time t: traces are multiplied by γλ_t before the row of
time t is marked, and Eq. 4 weighs bootstrap against return at time t with the same number. On the last transition
there is no a', and the policy factor is left out.

`ExpectedLambda` is ours. The paper's λ depends on the outcome of the very transition whose TD error it weighs, so
the two are correlated and the fixed point is not V^π, even with a perfect model. The expectation of that λ over
outcomes depends on the state (and action) alone, which leaves V^π as the fixed point whatever the model says.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from chunked_td.compiled import code, kernel
from chunked_td.models.counts import (
    expected_mixed_probability,
    increment,
    mixed_probability,
    outcome_number,
    pair_probability,
    probability,
)
from chunked_td.policies import epsilon_greedy

CONSTANT, FORWARD, FACTORED, EXPECTED, BACKWARD, VISIT, WATKINS, EXTERNAL = range(8)
"""Codes by which kernels tell λ sources apart; EXTERNAL means that the caller has written λ."""

STATE, SARSA, EXPECTED_SARSA = range(3)
"""Codes of the three bootstraps: V(s'), Q(s',a') and Σ_a π(a|s') Q(s',a)."""


@dataclass(frozen=True)
class LambdaSource:
    """Base of the λ sources. `code` is what the kernels see; `needs_model` says whether λ comes from a model."""

    @property
    def code(self) -> int:
        """The kernels' name of this source."""
        return _CODES[type(self).__name__]

    @property
    def needs_model(self) -> bool:
        """Whether λ is read off a model."""
        return self.code not in (CONSTANT, WATKINS)

    @property
    def constant(self) -> float:
        """The fixed λ, where there is one."""
        return 0.0


def _check_unit(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be a number in [0, 1], got {value!r}")
    return float(value)


@dataclass(frozen=True)
class ConstantLambda(LambdaSource):
    """The same λ everywhere: TD(λ), SARSA(λ), Expected-SARSA(λ) (§2.1)."""

    value: float

    def __post_init__(self):
        object.__setattr__(self, "value", _check_unit("lambda", self.value))

    @property
    def constant(self) -> float:
        """λ."""
        return self.value


@dataclass(frozen=True)
class ForwardLambda(LambdaSource):
    """The probability of what happened under a forward model: the paper's choice (Eq. 4, Alg. 1 to 3)."""


@dataclass(frozen=True)
class FactoredLambda(LambdaSource):
    """One λ per reward component: the probability of the state components it depends on (Alg. 4).

    Args:
      components: for each reward component, the state component (an int) or components (a tuple) that decide it.
        By default reward i belongs to state component i, as in the paper.
    """

    components: tuple[int | tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class ExpectedLambda(LambdaSource):
    """The forward probability averaged over outcomes.

    It depends on the state (and action) alone, so the true values are its fixed point.
    """


@dataclass(frozen=True)
class BackwardLambda(LambdaSource):
    """The probability, given where we are, of where we came from (§3.2). Depends on the policy."""


@dataclass(frozen=True)
class VisitLambda(LambdaSource):
    """1/n(x_t): bootstrap more the better a state is known (App. C.2)."""


@dataclass(frozen=True)
class WatkinsLambda(LambdaSource):
    """A constant λ, cut to zero where the action that leaves a state was exploratory (Watkins' Q(λ)).

    An action is exploratory if another one was more probable when it was drawn; under ε = 1 none is.
    """

    value: float

    def __post_init__(self):
        object.__setattr__(self, "value", _check_unit("lambda", self.value))

    @property
    def constant(self) -> float:
        """λ while actions are greedy."""
        return self.value


_CODES = {
    "ConstantLambda": CONSTANT,
    "ForwardLambda": FORWARD,
    "FactoredLambda": FACTORED,
    "ExpectedLambda": EXPECTED,
    "BackwardLambda": BACKWARD,
    "VisitLambda": VISIT,
    "WatkinsLambda": WATKINS,
}

SOURCES: dict[str, type[LambdaSource]] = {
    cls.__name__: cls
    for cls in (
        ConstantLambda,
        ForwardLambda,
        FactoredLambda,
        ExpectedLambda,
        BackwardLambda,
        VisitLambda,
        WatkinsLambda,
    )
}
"""Every λ source by name."""


@kernel
def train_counts(rule, tables, counts, s, a, s2, x2, a2):
    """Count transition t: the pair that this λ source asks about later.

    Args:
      rule, tables: see `learners.recursion`.
      counts: Counts, with room for one pair more (d pairs for FactoredLambda).
      s, a: state and action at t. s2: the next state; x2: the next percept.
      a2: the next action, or −1 on the last transition.
    Returns:
      The pair (x, a → x') in a table of forward counts, −1 in others.
    """
    row = s * rule.actions + a
    if code(rule.source) == BACKWARD:
        if code(rule.bootstrap) != SARSA:
            increment(counts, s2, s)
        elif a2 >= 0:
            increment(counts, s2 * rule.actions + a2, row)
    elif code(rule.source) == FACTORED:
        for i in range(tables.groups.shape[0]):
            increment(counts, row * tables.groups.shape[0] + i, group_value(tables, i, s2))
    elif code(rule.source) == FORWARD or code(rule.source) == EXPECTED or code(rule.source) == VISIT:
        return increment(counts, row, x2)
    return -1


@kernel
def group_value(tables, i, state):
    """The state components that decide reward i, as one number."""
    value = 0
    stride = 1
    below = 1  # product of the sizes of the components that run faster
    for j in range(tables.nvec.size - 1, -1, -1):
        if tables.groups[i, j]:  # divisions cost more than all else here
            value += stride * (state // below % tables.nvec[j])
            stride *= tables.nvec[j]
        below *= tables.nvec[j]
    return value


@kernel
def count_lambda(rule, tables, counts, memory, s, a, s2, x2, a2, epsilon, pair):
    """Write λ_t into `memory.lambda_t`, from constants or counts. Arguments as in `train_counts`, which gave `pair`."""
    row = s * rule.actions
    out = memory.lambda_t
    value = rule.constant
    if code(rule.source) == FACTORED:
        d = tables.groups.shape[0]
        for i in range(d):
            out[i] = mixed_probability(counts, row * d + i, d, memory.policy, group_value(tables, i, s2))
        return
    if code(rule.source) == FORWARD:
        if code(rule.bootstrap) == SARSA:
            value = pair_probability(counts, row + a, pair)
            if a2 >= 0:
                value *= memory.next_policy[a2]
        else:
            value = mixed_probability(counts, row, 1, memory.policy, x2)
    elif code(rule.source) == EXPECTED:
        if code(rule.bootstrap) == SARSA:
            value = _expected_sarsa_lambda(rule, tables, counts, memory, row + a, epsilon)
        else:
            value = expected_mixed_probability(counts, row, 1, memory.policy)
    elif code(rule.source) == BACKWARD:
        value = _backward_lambda(rule, counts, memory, s, a)
    elif code(rule.source) == VISIT:
        visits = 0
        for b in range(rule.actions):
            visits += counts.total[row + b]
        value = 1.0 / visits
    elif code(rule.source) == WATKINS:
        for b in range(rule.actions):
            if memory.policy[b] > memory.policy[a]:
                value = 0.0
    for i in range(out.size):
        out[i] = value


@kernel
def _backward_lambda(rule, counts, memory, s, a):
    """P̂^π(x_{t−1}|x_t) or P̂^π(x_{t−1},a_{t−1}|x_t,a_t); the traces are empty at the start, where it is 0."""
    previous = memory.previous[0]
    if previous < 0:
        return 0.0
    if code(rule.bootstrap) == SARSA:
        return probability(counts, s * rule.actions + a, previous)
    return probability(counts, s, previous // rule.actions)


@kernel
def _expected_sarsa_lambda(rule, tables, counts, memory, origin, epsilon):
    """Σ_{x'} P̂(x'|x,a)² Σ_{a'} π(a'|x')². States never acted in (terminal ones) have no policy factor."""
    A = rule.actions
    total = 0.0
    unseen = outcome_number(counts, origin)
    pair = counts.head[origin]
    while pair >= 0:
        unseen -= 1.0
        target = counts.target[pair]
        p = probability(counts, origin, target)
        factor = 0.0
        if target < tables.legal.shape[0]:
            epsilon_greedy(tables.values[target * A : (target + 1) * A], tables.legal[target], epsilon, memory.scratch)
            for b in range(A):
                if tables.legal[target, b]:
                    factor += memory.scratch[b] * memory.scratch[b]
        total += p * p * (factor if factor > 0.0 else 1.0)
        pair = counts.following[pair]
    if counts.prior[0] > 0.0 and unseen > 0.0:
        share = counts.prior[0] / (counts.total[origin] + counts.prior[0] * outcome_number(counts, origin))
        total += unseen * share * share  # never seen from here: the policy factor is left out
    return total
