"""The one recursion behind every algorithm of the paper, as a choice of four.

| choice | values |
|---|---|
| bootstrap B(x') | V(s'), Q(s',a'), Σ_a π(a|s') Q(s',a) |
| λ source | see `chunked_td.lambdas` |
| view | traces (online), offline λ-return, sampled chunks |
| step size | α, or 1/n(s) (`learners.sutton_singh`) |

Per transition t, in this order (Alg. 1 to 4):

1. choose a_{t+1} from the values as they stand; 2. train the model on transition t; 3. read λ_t; e ← γ λ_t e;
4. e(s_t,a_t) += 1; 5. δ_t = r_{t+1} + γ B(x_{t+1}) − Q(s_t,a_t); 6. Q ← Q + α δ_t e.

The offline view stores δ_t and λ_t, holds the values still during the episode and makes all updates at its end
(Eq. 2 and 4). Sampled chunks (§3.1) are the offline view with λ_t replaced by a coin that falls heads with
probability λ_t: heads drops the state at t from the compressed episode, tails keeps it to bootstrap from.

For V and SARSA the offline view is Eq. 4. Expected-SARSA subtracts Q(s_t,a_t) in δ_t but bootstraps from
B(x_t) = Σ_a π(a|s_t) Q(s_t,a), so the updates of Alg. 3 add up to another return, which the offline view uses too:

    G_t = r_{t+1} + γ[B(x_{t+1}) + λ_{t+1}(G_{t+1} − Q(s_{t+1},a_{t+1}))]

The two have the same expectation over a_{t+1} where λ_{t+1} does not depend on it.

On termination B = 0. On truncation the episode ends but the value does not: B(x_T) is V(s_T), or Σ_a π(a|s_T) Q(s_T,a)
for both action-value bootstraps, since no a_T is drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chunked_td.compiled import code, kernel, uniform
from chunked_td.lambdas import (
    BACKWARD,
    CONSTANT,
    EXPECTED,
    EXTERNAL,
    FORWARD,
    SARSA,
    STATE,
    VISIT,
    count_lambda,
    train_counts,
)
from chunked_td.policies import GIVEN, GREEDY, draw, epsilon_greedy, only_legal, uniform_legal
from chunked_td.traces import backward_pass, clear, decay, mark, reinforce

TRACES, OFFLINE, SAMPLED = range(3)
"""Codes of the three views."""

VIEWS = {"traces": TRACES, "offline": OFFLINE, "sampled": SAMPLED}


class Rule(NamedTuple):
    """The choices, and the numbers that go with them."""

    bootstrap: int  # STATE, SARSA or EXPECTED_SARSA
    source: int  # code of the λ source
    mode: int  # TRACES, OFFLINE or SAMPLED
    policy: int  # GREEDY, UNIFORM or GIVEN
    constant: float  # λ of a constant source
    discount: float  # γ
    cutoff: float  # traces at or below it are dropped; 0 is exact
    replacing: bool  # replacing instead of accumulating traces
    actions: int  # A


class Tables(NamedTuple):
    """What is learned, and what is known of the states."""

    values: np.ndarray  # float64[S, d] (state values) or float64[S·A, d] (row = s·A + a)
    legal: np.ndarray  # bool[S, A], or bool[0, A] where no kernel asks for it
    nvec: np.ndarray  # int64[c]: sizes of the state components (FactoredLambda)
    groups: np.ndarray  # bool[d, c]: which components decide reward i (FactoredLambda)


class Memory(NamedTuple):
    """What a learner carries from step to step within an episode."""

    policy: np.ndarray  # float64[A]: π(·|x_t), as it was when a_t was drawn
    next_policy: np.ndarray  # float64[A]: π(·|x_{t+1})
    scratch: np.ndarray  # float64[A]
    lambda_t: np.ndarray  # float64[d]
    delta_t: np.ndarray  # float64[d]
    previous: np.ndarray  # int64[1]: s_{t−1}·A + a_{t−1}, or −1 at the start
    rows: np.ndarray  # int64[capacity]: the episode so far, for the offline views
    delta: np.ndarray  # float64[capacity, d]
    lambda_: np.ndarray  # float64[capacity, d]
    length: np.ndarray  # int64[1]

    @classmethod
    def empty(cls, actions: int, components: int, capacity: int) -> Memory:
        """No episode under way."""
        return cls(
            policy=np.zeros(actions),
            next_policy=np.zeros(actions),
            scratch=np.zeros(actions),
            lambda_t=np.zeros(components),
            delta_t=np.zeros(components),
            previous=np.full(1, -1, np.int64),
            rows=np.zeros(capacity, np.int64),
            delta=np.zeros((capacity, components)),
            lambda_=np.zeros((capacity, components)),
            length=np.zeros(1, np.int64),
        )

    def grown(self, capacity: int) -> Memory:
        """The same memory with room for a longer episode."""
        larger = Memory.empty(self.policy.size, self.lambda_t.size, capacity)
        for old, new in zip(self, larger, strict=True):
            new[: old.shape[0]] = old
        return larger


@kernel
def arrive(rule, tables, memory, rng, state, legal, epsilon, acting):
    """Write π(·|x_{t+1}) into `memory.next_policy` and draw the next action; −1 if none is to be taken.

    Args:
      legal: bool[A]. acting: False on truncation, where only the probabilities are needed.
    """
    return choose(rule, tables, memory, rng, state, legal, only_legal(legal), epsilon, acting)


@kernel
def choose(rule, tables, memory, rng, state, legal, only, epsilon, acting):
    """`arrive` for those who know the `only` legal action (−1 where there are several)."""
    A = rule.actions
    asked_later = code(rule.source) == EXPECTED or code(rule.source) == EXTERNAL
    if asked_later and tables.legal.shape[0] > 0:
        for a in range(A):
            tables.legal[state, a] = legal[a]
    if code(rule.policy) != GIVEN and only >= 0:
        if code(rule.bootstrap) == SARSA and acting and not needs_policy(rule):
            memory.next_policy[only] = 1.0  # all that is read: π(a_{t+1}|x_{t+1})
            return only
        for a in range(A):
            memory.next_policy[a] = 1.0 if a == only else 0.0
        return only if acting else -1
    if code(rule.policy) == GREEDY:
        epsilon_greedy(tables.values[state * A : (state + 1) * A], legal, epsilon, memory.next_policy)
    elif code(rule.policy) != GIVEN:
        uniform_legal(legal, memory.next_policy)
    return draw(memory.next_policy, rng) if acting else -1


@kernel
def td_error(rule, tables, memory, row, reward, s2, a2, terminated):
    """δ_t^i = r^i + γ B^i(x_{t+1}) − Q^i(row), into `memory.delta_t`."""
    A = rule.actions
    for i in range(reward.size):
        ahead = 0.0
        if not terminated:
            if code(rule.bootstrap) == STATE:
                ahead = tables.values[s2, i]
            elif code(rule.bootstrap) == SARSA and a2 >= 0:
                ahead = tables.values[s2 * A + a2, i]
            else:
                for a in range(A):
                    if memory.next_policy[a] > 0.0:
                        ahead += memory.next_policy[a] * tables.values[s2 * A + a, i]
        memory.delta_t[i] = reward[i] + rule.discount * ahead - tables.values[row, i]


@kernel
def learn(rule, tables, trace, memory, row, step_size):
    """Use λ_t and δ_t: update through the traces, or keep both for the end of the episode."""
    if trace is not None and code(rule.mode) == TRACES:
        decay(trace, rule.discount, memory.lambda_t, rule.cutoff)
        mark(trace, row, rule.replacing)
        reinforce(tables.values, trace, step_size, memory.delta_t)
        return
    t = memory.length[0]
    memory.rows[t] = row
    for i in range(memory.delta_t.size):
        memory.delta[t, i] = memory.delta_t[i]
        if code(rule.source) != CONSTANT:  # `finish` knows the others
            memory.lambda_[t, i] = memory.lambda_t[i]
    memory.length[0] = t + 1


@kernel
def finish(rule, tables, trace, memory, coins, step_size):
    """End of an episode: make the offline updates and forget the episode.

    Args:
      coins: a Stream with T − 1 numbers for sampled chunks, not read otherwise. Components with a λ of their own
        share the number, so that each is dropped with its own probability.
    """
    if trace is not None and code(rule.mode) == TRACES:
        clear(trace)
    else:
        length = memory.length[0]
        if code(rule.source) == CONSTANT:
            for t in range(length):
                for i in range(memory.lambda_.shape[1]):
                    memory.lambda_[t, i] = rule.constant
        if code(rule.mode) == SAMPLED:
            for t in range(1, length):
                u = uniform(coins)
                for i in range(memory.delta_t.size):
                    memory.lambda_[t, i] = 1.0 if u < memory.lambda_[t, i] else 0.0
        backward_pass(tables.values, memory.rows, memory.delta, memory.lambda_, length, rule.discount, step_size)
    memory.length[0] = 0
    memory.previous[0] = -1


@kernel
def advance(rule, tables, trace, counts, memory, rng, s, a, reward, s2, x2, legal, only, ended, epsilon, step_size):
    """One transition of the recursion, with a constant λ or a count model. Returns the next action, or −1.

    Args:
      trace, counts: may be None where the rule has no traces, and where λ is constant or comes from outside. A loop
        compiled for None does not hold their code.
      s, a, reward, s2: the transition. x2: id of the next percept (s2, or one for the pair of reward and s2).
      legal: bool[A], the legal actions in s2. only: the one legal action, or −1 where there are several.
      ended: 0 = goes on, 1 = terminated, 2 = truncated.
    """
    a2 = -1
    if ended != 1:
        a2 = choose(rule, tables, memory, rng, s2, legal, only, epsilon, ended == 0)
    if counts is None:
        for i in range(memory.lambda_t.size):
            memory.lambda_t[i] = rule.constant
    else:
        pair = train_counts(rule, tables, counts, s, a, s2, x2, a2)
        count_lambda(rule, tables, counts, memory, s, a, s2, x2, a2, epsilon, pair)
    conclude(rule, tables, trace, memory, s, a, reward, s2, a2, ended == 1, step_size)
    return a2


@kernel
def conclude(rule, tables, trace, memory, s, a, reward, s2, a2, terminated, step_size):
    """The part of a step that follows once λ_t stands in `memory.lambda_t`."""
    row = s if code(rule.bootstrap) == STATE else s * rule.actions + a
    td_error(rule, tables, memory, row, reward, s2, a2, terminated)
    learn(rule, tables, trace, memory, row, step_size)
    memory.previous[0] = s * rule.actions + a
    if needs_policy(rule):
        for b in range(rule.actions):
            memory.policy[b] = memory.next_policy[b]


@kernel
def needs_policy(rule):
    """Whether λ_t depends on π(·|x_t), the probabilities of actions that were not taken among them."""
    if code(rule.source) == CONSTANT or code(rule.source) == BACKWARD or code(rule.source) == VISIT:
        return False
    forward = code(rule.source) == FORWARD or code(rule.source) == EXPECTED
    return not (forward and code(rule.bootstrap) == SARSA)


def needs_legal(rule: Rule) -> bool:
    """Whether the kernels ask for the legal actions of states other than the current one."""
    return rule.source == EXPECTED and rule.bootstrap == SARSA
