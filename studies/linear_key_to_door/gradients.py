"""Policy gradients on a table, compiled: whole runs of `hindsight.HindsightPolicyGradient`, with rewarded entropy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from chunked_td import TransitionTable
from studies.linear_key_to_door.hindsight import FORMS, add_contributions, add_reinforce, count_hindsight

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
    """What episodes read of a table; every action must be legal, and every episode takes T steps."""

    first: np.ndarray  # int64[pairs]
    target: np.ndarray  # int64[n]
    chance: np.ndarray  # float64[n]
    reward: np.ndarray  # float64[n]
    kind: np.ndarray  # int64[n]: which reward it is, −1 for none
    bad_end: np.ndarray  # bool[S]
    start: int


class GradientState(NamedTuple):
    """What is learned, and the latest episode."""

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
    """A run of `HindsightPolicyGradient` with a reward for the policy's entropy: bad endings so far at every mark."""
    number, problem = FORMS.index(form), problem_of(table)
    marks = np.asarray(record_at, np.int64)
    misses, returns = np.zeros(marks.size, np.int64), np.zeros(marks.size)
    state = new_state(table, number, int(problem.kind.max()) + 1)
    run(problem, state, number, float(step_size), 1.0, entropy, int(seed), marks, misses, returns)
    return misses
