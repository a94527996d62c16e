"""Policy gradients on a table that assign credit in hindsight, episode by episode, with rewarded entropy; compiled.

For tables, π = softmax(θ) (Harutyunyan et al. 2019; Meulemans et al. 2023, "COCOA"):

    ∇J = Σ_t Σ_a ∇π(a|S_t) [r̂(S_t,a) + Σ_{k>t} γ^{k−t} (h(a|S_t,U_k)/π(a|S_t) − 1) R_{k+1}]

h(a|s,u) is the probability that a was taken in s, given that u came later. U_k is the state that is left at k, for
tables that is hindsight credit assignment, or the reward R_{k+1} itself: then what did not change the chance of a
reward is not credited for it. "none" is REINFORCE with the return in place of the bracket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from chunked_td import TransitionTable

FORMS = ("state", "reward", "none")
STATE, REWARD, NONE = range(3)
"""Places in `FORMS`."""
LEAST_WEIGHT = 0.01
"""Of a new observation in h and r̂."""


@njit(cache=True, nogil=True)
def draw(chances, first, last):
    """One of first..last − 1 with these probabilities; takes one number."""
    u = np.random.random()
    k = first
    while k < last - 1 and (u >= chances[k] or chances[k] == 0.0):
        u -= chances[k]
        k += 1
    while chances[k] == 0.0:  # rounding at the end of a policy
        k -= 1
    return k


class GradientProblem(NamedTuple):
    """The arrays of a table that episodes read; every action must be legal, and every episode takes T steps."""

    first: np.ndarray  # int64[pairs]
    target: np.ndarray  # int64[n]
    chance: np.ndarray  # float64[n]
    reward: np.ndarray  # float64[n]
    kind: np.ndarray  # int64[n]: which reward it is, −1 for none
    bad_end: np.ndarray  # bool[S]
    start: int


class GradientState(NamedTuple):
    """Learned tables, and the latest episode."""

    logits: np.ndarray  # float64[S, A]
    mean_reward: np.ndarray  # float64[S, A]
    visits: np.ndarray  # float64[S, A]
    hindsight: np.ndarray  # float64[S, U, A]
    seen: np.ndarray  # float64[S, U]
    change: np.ndarray  # float64[S, A]
    states: np.ndarray  # int64[T]
    actions: np.ndarray  # int64[T]
    rewards: np.ndarray  # float64[T]
    objects: np.ndarray  # int64[T]
    policies: np.ndarray  # float64[T, A]
    scratch: np.ndarray  # float64[A]


def problem_of(table: TransitionTable) -> GradientProblem:
    """The arrays of a table."""
    reward = np.round(np.asarray(table.reward).sum(1), 12)
    kinds = np.unique(reward[reward != 0.0])
    kind = np.where(reward != 0.0, np.searchsorted(kinds, reward), -1)
    first, target, chance = (np.asarray(array) for array in (table.first, table.target, table.chance))
    return GradientProblem(first, target, chance, reward, kind, np.asarray(table.bad_end), int(table.start[0]))


def new_state(table: TransitionTable, form: int, kinds: int) -> GradientState:
    """Nothing learned: the uniform policy."""
    S, A, T = len(table.bad_end), table.n_actions, int(table.limit)
    U = {STATE: S, REWARD: kinds, NONE: 1}[form]
    tables = (np.zeros((S, A)), np.zeros((S, A)), np.zeros((S, A)), np.zeros((S, U, A)), np.zeros((S, U)))
    episode = (np.zeros(T, np.int64), np.zeros(T, np.int64), np.zeros(T), np.zeros(T, np.int64), np.zeros((T, A)))
    return GradientState(*tables, np.zeros((S, A)), *episode, np.zeros(A))


@njit(cache=True, nogil=True)
def play(problem, state, form):
    """One episode of the present policy, written to `state`; whether it ended badly."""
    x, A = problem.start, state.scratch.size
    for t in range(state.states.size):
        policy, total, largest = state.policies[t], 0.0, -np.inf
        for a in range(A):
            largest = max(largest, state.logits[x, a])
        for a in range(A):
            policy[a] = np.exp(state.logits[x, a] - largest)
            total += policy[a]
        for a in range(A):
            policy[a] /= total
        action = draw(policy, 0, A)
        k = draw(problem.chance, problem.first[x * A + action], problem.first[x * A + action + 1])
        state.states[t], state.actions[t], state.rewards[t] = x, action, problem.reward[k]
        state.objects[t] = x if form == STATE else problem.kind[k]
        x = problem.target[k]
    return problem.bad_end[x]


@njit(cache=True, nogil=True)
def add_entropy(change, states, policies, weight):
    """Add the gradient of the policy's entropy, weight · −π (ln π + H), in every state of an episode."""
    for t in range(states.size):
        policy, entropy = policies[t], 0.0
        for p in policy:
            entropy -= p * np.log(max(p, 1e-300))
        for a in range(policy.size):
            change[states[t], a] -= weight * policy[a] * (np.log(max(policy[a], 1e-300)) + entropy)


@njit(cache=True, nogil=True)
def count_hindsight(hindsight, seen, mean_reward, visits, states, actions, rewards, objects, discount, least):
    """Update h and r̂ with one more episode: u at k steps after s counts γ^k."""
    for t in range(states.size):
        s, a = states[t], actions[t]
        visits[s, a] += 1.0
        mean_reward[s, a] += max(1.0 / visits[s, a], least) * (rewards[t] - mean_reward[s, a])
        weight = 1.0
        for k in range(t + 1, states.size):
            weight *= discount
            u = objects[k]
            if u >= 0 and weight > 0.0:
                seen[s, u] += weight
                share = max(weight / seen[s, u], least)
                for b in range(hindsight.shape[2]):
                    hindsight[s, u, b] += share * ((1.0 if b == a else 0.0) - hindsight[s, u, b])


@njit(cache=True, nogil=True)
def add_contributions(change, hindsight, mean_reward, states, rewards, objects, policies, discount, q):
    """Add the gradient of an episode by the logits to `change`; q: float64[A], scratch."""
    for t in range(states.size):
        s, policy = states[t], policies[t]
        for b in range(q.size):
            q[b] = mean_reward[s, b]
        weight = 1.0
        for k in range(t + 1, states.size):
            weight *= discount
            if objects[k] >= 0 and rewards[k] != 0.0:
                for b in range(q.size):
                    if policy[b] > 0.0:
                        q[b] += weight * (hindsight[s, objects[k], b] / policy[b] - 1.0) * rewards[k]
        mean = 0.0
        for b in range(q.size):
            mean += policy[b] * q[b]
        for b in range(q.size):
            change[s, b] += policy[b] * (q[b] - mean)


@njit(cache=True, nogil=True)
def add_reinforce(change, states, actions, rewards, policies, discount):
    """Add (1 − π) G at the action taken and −π G elsewhere, with the return G that followed."""
    future = 0.0
    for t in range(states.size - 1, -1, -1):
        future = rewards[t] + discount * future
        for b in range(change.shape[1]):
            change[states[t], b] += ((1.0 if b == actions[t] else 0.0) - policies[t, b]) * future


@njit(cache=True, nogil=True)
def learn(state, form, step_size, discount, least, entropy):
    """Step along the gradient of the latest episode."""
    episode = state.states, state.actions, state.rewards
    state.change[:] = 0.0
    if form == NONE:
        add_reinforce(state.change, *episode, state.policies, discount)
    else:
        tables = state.hindsight, state.seen, state.mean_reward, state.visits
        count_hindsight(*tables, *episode, state.objects, discount, least)
        known = state.hindsight, state.mean_reward, state.states, state.rewards, state.objects, state.policies
        add_contributions(state.change, *known, discount, state.scratch)
    add_entropy(state.change, state.states, state.policies, entropy)
    for x in range(state.logits.shape[0]):
        for a in range(state.logits.shape[1]):
            state.logits[x, a] += step_size * state.change[x, a]


@njit(cache=True, nogil=True)
def run(problem, state, form, step_size, discount, entropy, seed, marks, misses, returns):
    """One run. Writes bad endings so far, and returns since the last mark, at every mark."""
    np.random.seed(seed)
    bad, paid, k = 0, 0.0, 0
    for episode in range(marks[-1]):
        bad += play(problem, state, form)
        for reward in state.rewards:
            paid += reward
        learn(state, form, step_size, discount, LEAST_WEIGHT, entropy)
        if episode + 1 == marks[k]:
            misses[k], returns[k] = bad, paid
            paid, k = 0.0, k + 1


def policy_gradient(
    table: TransitionTable, *, form: str, entropy: float, seed: int, step_size: float, record_at: Sequence[int]
) -> np.ndarray:
    """A run: bad endings so far at every mark. Args: form: of `FORMS`. entropy: weight of the policy's entropy."""
    number, problem = FORMS.index(form), problem_of(table)
    marks = np.asarray(record_at, np.int64)
    misses, returns = np.zeros(marks.size, np.int64), np.zeros(marks.size)
    state = new_state(table, number, int(problem.kind.max()) + 1)
    run(problem, state, number, float(step_size), 1.0, entropy, int(seed), marks, misses, returns)
    return misses
