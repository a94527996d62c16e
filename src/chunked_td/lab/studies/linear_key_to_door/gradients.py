"""Policy gradients on a table, compiled: episodes for the kernels of `chunked_td.learners.hindsight`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._numba import kernel
from chunked_td.envs.table import TransitionTable
from chunked_td.learners.hindsight import FORMS, add_contributions, add_reinforce, count_hindsight
from chunked_td.simulation.simulate import Runs, check_threads, simulate

STATE, REWARD, NONE = range(3)
"""Places in `FORMS`."""
LEAST_WEIGHT = 0.01
"""Of a new observation in h and r̂."""


@kernel
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

    first: Annotated[np.ndarray, "int64[pairs]"]
    target: Annotated[np.ndarray, "int64[n]"]
    chance: Annotated[np.ndarray, "float64[n]"]
    reward: Annotated[np.ndarray, "float64[n]"]
    kind: Annotated[np.ndarray, "int64[n]"]  # which reward it is, −1 for none
    bad_end: Annotated[np.ndarray, "bool[S]"]
    start: int


class GradientState(NamedTuple):
    """What is learned, and the latest episode."""

    logits: Annotated[np.ndarray, "float64[S, A]"]
    mean_reward: Annotated[np.ndarray, "float64[S, A]"]
    visits: Annotated[np.ndarray, "float64[S, A]"]
    hindsight: Annotated[np.ndarray, "float64[S, U, A]"]
    seen: Annotated[np.ndarray, "float64[S, U]"]
    change: Annotated[np.ndarray, "float64[S, A]"]
    states: Annotated[np.ndarray, "int64[T]"]
    actions: Annotated[np.ndarray, "int64[T]"]
    rewards: Annotated[np.ndarray, "float64[T]"]
    objects: Annotated[np.ndarray, "int64[T]"]
    policies: Annotated[np.ndarray, "float64[T, A]"]
    scratch: Annotated[np.ndarray, "float64[A]"]


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


@kernel
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


@kernel
def add_entropy(change, states, policies, weight):
    """Add the gradient of the policy's entropy, weight · −π (ln π + H), in every state of an episode."""
    for t in range(states.size):
        policy, entropy = policies[t], 0.0
        for p in policy:
            entropy -= p * np.log(max(p, 1e-300))
        for a in range(policy.size):
            change[states[t], a] -= weight * policy[a] * (np.log(max(policy[a], 1e-300)) + entropy)


@kernel
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


@kernel
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


def policy_gradients(
    table: TransitionTable,
    *,
    form: str,
    entropy: float,
    seeds: Any,
    step_sizes: Any,
    record_at: Any,
    discount: float = 1.0,
    threads: int | None = None,
    **_: Any,
) -> Runs:
    """Runs of `HindsightPolicyGradient` with a reward for the policy's entropy, as `simulate` gives them.

    The number of threads changes nothing.
    """
    number, problem = FORMS.index(form), problem_of(table)
    kinds, marks = int(problem.kind.max()) + 1, np.asarray(record_at, np.int64)
    misses, returns = np.zeros((len(seeds), marks.size), np.int64), np.zeros((len(seeds), marks.size))

    def one(i: int) -> None:
        state = new_state(table, number, kinds)
        run(problem, state, number, float(step_sizes[i]), discount, entropy, int(seeds[i]), marks, misses[i],
            returns[i])  # fmt: skip

    with ThreadPoolExecutor(check_threads(threads)) as pool:
        list(pool.map(one, range(len(seeds))))
    steps = np.full(len(seeds), marks[-1] * table.limit)
    return Runs(misses[:, -1], misses, np.zeros((*misses.shape, 0)), returns, steps, None, np.full(len(seeds), -1))


def learned_runs(table: TransitionTable, *, form: str = "", **arguments: Any) -> Runs:
    """`policy_gradients` where an arm names a form, else `simulate`."""
    return policy_gradients(table, form=form, **arguments) if form else simulate(table, **arguments)
