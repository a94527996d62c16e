"""Compiled runs of the methods on prepared problems, written apart from `chunked_td.learners` and compared with it.

The order of a step is that of `chunked_td.learners.update`, with a_{t+1} chosen after update t. Random numbers are
drawn by the environment and the behaviour only, two per step: where the behaviour is given, all methods see the same
episodes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, NamedTuple

import numpy as np

from chunked_td._numba import kernel
from chunked_td.lab.studies.three_scores.problems import SolvedProblem
from chunked_td.simulation.simulate import check_threads

ACCUMULATING, REPLACING, LINEAGE = range(3)
CONSTANT, TIED, FALLING = range(3)
"""Where λ comes from: a number; 1 below α = ¼ and 0.4 above; 1/√episode."""


class CreditMethod(NamedTuple):
    """What a run does."""

    trace: int = REPLACING
    lambda_: float = 1.0
    source: int = CONSTANT
    prior: float = 0.0
    zero: bool = False
    expected: float = 0.0
    averaged: bool = False
    solved: bool = False


GIVEN, GREEDY, BONUS, ERROR_BONUS = range(4)
"""Behaviour: the problem's policy; ε-greedy; that with a bonus by the spread of returns, or by that of TD errors."""

COUNT, CLOCK, STEPS, ERRORS, SIGMA, EPISODES, RETURNS, SQUARES, PREVIOUS = range(9)
"""What `RunState.numbers` holds: live rows, the time, Σ 1 and Σ δ² over steps, σ of the bonus, Σ 1, Σ G and Σ G² over
episodes, the row before."""

FORGOTTEN = 1e-12
"""Traces below it are dropped, except for lineage traces, which count on."""
PART = 10
"""Runs that a thread takes at a time."""


class GreedyChain(NamedTuple):
    """Transitions under one policy, by state; scratch of `greedy_return`."""

    first: Annotated[np.ndarray, "int64[S + 1]"]
    target: Annotated[np.ndarray, "int64[n]"]
    weight: Annotated[np.ndarray, "float64[n]"]


class RunState(NamedTuple):
    """What a run has learned and remembers."""

    values: Annotated[np.ndarray, "float64[rows]"]
    visits: Annotated[np.ndarray, "float64[rows]"]
    outcomes: Annotated[np.ndarray, "float64[n]"]  # how often each outcome of the table came
    rows: Annotated[np.ndarray, "int64[rows]"]  # live rows, as many as COUNT says
    live: Annotated[np.ndarray, "bool[rows]"]
    trace: Annotated[np.ndarray, "float64[rows]"]
    faded: Annotated[np.ndarray, "float64[rows]"]  # γ^(t − t_r)
    visited: Annotated[np.ndarray, "int64[rows]"]  # t_r
    shared: Annotated[np.ndarray, "int32[S, rows]"]  # C(r, x), or how often x came right after r
    arrivals: Annotated[np.ndarray, "int64[S]"]  # n(x)
    latest: Annotated[np.ndarray, "int64[S]"]  # time of the latest arrival
    policy: Annotated[np.ndarray, "float64[A]"]
    scratch: Annotated[np.ndarray, "float64[A]"]
    greedy: Annotated[np.ndarray, "float64[rows]"]  # scratch of `greedy_return`, as are `chain` and `returns`
    chain: GreedyChain
    returns: Annotated[np.ndarray, "float64[3, S]"]  # in `solve`: V, and whether to compute it again
    numbers: Annotated[np.ndarray, "float64[9]"]


def new_state(problem: SolvedProblem, method: CreditMethod) -> RunState:
    """Nothing learned."""
    S, A = problem.legal.shape
    lineage = (S, S * A) if method.trace == LINEAGE else (1, 1)
    return RunState(
        values=np.zeros(S * A),
        visits=np.zeros(S * A),
        outcomes=np.zeros(problem.target.size),
        rows=np.zeros(S * A, np.int64),
        live=np.zeros(S * A, np.bool_),
        trace=np.zeros(S * A),
        faded=np.zeros(S * A),
        visited=np.zeros(S * A, np.int64),
        shared=np.zeros(lineage, np.int32),
        arrivals=np.zeros(S, np.int64),
        latest=np.zeros(S, np.int64),
        policy=np.zeros(A),
        scratch=np.zeros(A),
        greedy=np.zeros(S * A),
        chain=GreedyChain(np.zeros(S + 1, np.int64), np.zeros_like(problem.target), np.zeros(problem.target.size)),
        returns=np.zeros((3, S)),
        numbers=np.zeros(9),
    )


@kernel
def forget(state):
    """Back to nothing learned."""
    state.values[:] = 0.0
    state.visits[:] = 0.0
    state.outcomes[:] = 0.0
    state.shared[:] = 0
    state.arrivals[:] = 0
    state.latest[:] = 0
    state.visited[:] = 0
    state.numbers[:] = 0.0


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


@kernel
def write_policy(problem, state, behaviour, x, out):
    """π(·|x)."""
    A = out.size
    if behaviour == GIVEN:
        for a in range(A):
            out[a] = problem.policy[x, a]
        return
    best, number, ties = -np.inf, 0, 0
    for a in range(A):
        if problem.legal[x, a]:
            out[a] = state.values[x * A + a]
            if behaviour != GREEDY:
                out[a] += state.numbers[SIGMA] / np.sqrt(state.visits[x * A + a] + 1.0)
            number += 1
            if out[a] > best:
                best, ties = out[a], 0
            ties += out[a] == best
    for a in range(A):
        greedy = (1.0 - problem.epsilon) / ties if problem.legal[x, a] and out[a] == best else 0.0
        out[a] = problem.epsilon / number + greedy if problem.legal[x, a] else 0.0


@kernel
def value_at(problem, state, behaviour, x):
    """Σ_a π(a|x) Q(x, a)."""
    write_policy(problem, state, behaviour, x, state.scratch)
    A, total = state.scratch.size, 0.0
    for a in range(A):
        total += state.scratch[a] * state.values[x * A + a]
    return total


@kernel
def known_value(problem, state, behaviour, x):
    """`value_at`, computed again only where `solve` has changed a value of x."""
    if state.returns[1, x] > 0.0:
        state.returns[0, x] = value_at(problem, state, behaviour, x)
        state.returns[1, x] = 0.0
    return state.returns[0, x]


@kernel
def expected_target(problem, state, behaviour, row, value):
    """Mean of r + γ V(s') over what has followed a row; value: `value_at` or `known_value`."""
    total, number = 0.0, 0.0
    for k in range(problem.first[row], problem.first[row + 1]):
        if state.outcomes[k] > 0:
            ahead = 0.0 if problem.ends[k] else value(problem, state, behaviour, problem.target[k])
            total += state.outcomes[k] * (problem.reward[k] + problem.discount * ahead)
            number += state.outcomes[k]
    return total / number


@kernel
def learn(problem, state, method, behaviour, lambda_, x, row, k, step_size):
    """Learn from outcome k of a row of state x: weaken the traces of live rows, renew that of the row, update."""
    numbers, values, visits = state.numbers, state.values, state.visits
    ahead = 0.0 if problem.ends[k] else value_at(problem, state, behaviour, problem.target[k])
    error = problem.reward[k] + problem.discount * ahead - values[row]
    numbers[STEPS] += 1
    numbers[ERRORS] += error * error
    if behaviour == ERROR_BONUS:
        numbers[SIGMA] = np.sqrt(numbers[ERRORS] / numbers[STEPS])
    if method.expected > 0.0:
        expected = expected_target(problem, state, behaviour, row, value_at) - values[row]
        error += method.expected * (expected - error)
    numbers[CLOCK] += 1
    clock = int(numbers[CLOCK])
    state.arrivals[x] += 1
    count, previous, i = int(numbers[COUNT]), int(numbers[PREVIOUS]), 0
    if method.solved:
        return
    if method.steps and count > 0:
        state.shared[x, previous] += 1
    if not state.live[row]:
        state.live[row] = True
        state.rows[count] = row
        state.trace[row] = 0.0
        state.faded[row] = 0.0
        state.visited[row] = clock
        count += 1
    while i < count:
        other = state.rows[i]
        if method.trace == LINEAGE:
            is_return = state.latest[x] > state.visited[other]
            if state.visited[other] < clock and not is_return and not method.steps:
                state.shared[x, other] += 1
            asked = previous if method.steps else other
            share = state.shared[x, asked] / (state.arrivals[x] + method.prior)
            if is_return and method.zero:
                share = 0.0
            state.faded[other] *= problem.discount
            trace = min(problem.discount * state.trace[other], state.faded[other] * lambda_ * share)
        else:
            trace = state.trace[other] * (problem.discount * lambda_)
        if other == row:
            trace = trace + 1.0 if method.trace == ACCUMULATING else 1.0
            state.faded[row] = 1.0
            state.visited[row] = clock
        elif trace < FORGOTTEN and method.trace != LINEAGE:
            count -= 1
            state.live[other] = False
            state.rows[i] = state.rows[count]
            continue
        state.trace[other] = trace
        size = max(step_size, 1.0 / visits[other]) if method.averaged else step_size
        values[other] += size * error * trace
        i += 1
    numbers[COUNT], numbers[PREVIOUS] = count, row
    state.latest[x] = clock


@kernel
def play(problem, state, method, behaviour, step_size, lambda_):
    """One episode; returns its discounted return with the noise of outcomes taken out."""
    A, gain = state.policy.size, 1.0
    x = problem.start[draw(problem.start_chance, 0, problem.start.size)]
    paid, score, ended = 0.0, problem.best[x], False
    state.numbers[COUNT] = 0
    state.live[:] = False
    for _ in range(problem.limit):
        write_policy(problem, state, behaviour, x, state.policy)
        a = draw(state.policy, 0, A)
        row = x * A + a
        k = draw(problem.chance, problem.first[row], problem.first[row + 1])
        state.visits[row] += 1
        state.outcomes[k] += 1
        learn(problem, state, method, behaviour, lambda_, x, row, k, step_size)
        score += gain * problem.advantage[x, a]
        paid += gain * problem.reward[k]
        gain *= problem.discount
        x, ended = problem.target[k], problem.ends[k]
        if ended:
            break
    numbers = state.numbers
    numbers[EPISODES] += 1
    numbers[RETURNS] += paid
    numbers[SQUARES] += paid * paid
    if behaviour == BONUS:
        mean = numbers[RETURNS] / numbers[EPISODES]
        spread = np.sqrt(max(numbers[SQUARES] / numbers[EPISODES] - mean * mean, 0.0))
        numbers[SIGMA] = spread if numbers[EPISODES] > 1 else abs(paid)
    return score if ended else score - gain * problem.best[x]


@kernel
def solve(problem, state, behaviour, prior, sweeps):
    """Values of the learned model, with `prior` visits of value 0 to every row."""
    S, A = problem.legal.shape
    state.returns[1] = 1.0
    for _ in range(sweeps):
        change = 0.0
        for row in range(S * A - 1, -1, -1):
            n = state.visits[row]
            if n > 0:
                new = expected_target(problem, state, behaviour, row, known_value) * n / (n + prior)
                if new != state.values[row]:
                    change = max(change, abs(new - state.values[row]))
                    state.values[row] = new
                    state.returns[1, row // A] = 1.0
        if change < 1e-6:
            return


@kernel
def write_greedy(problem, values, out):
    """The policy that is greedy in `values`, ties shared, by rows."""
    S, A = problem.legal.shape
    for x in range(S):
        best, ties = -np.inf, 0
        for a in range(A):
            q = values[x * A + a]
            if problem.legal[x, a] and q >= best:
                best, ties = q, 1 if q > best else ties + 1
        for a in range(A):
            out[x * A + a] = 1.0 / ties if problem.legal[x, a] and values[x * A + a] == best else 0.0


@kernel
def greedy_return(problem, state):
    """Exact discounted return, over at most `limit` steps, of the policy that is greedy in Q."""
    S, A = problem.legal.shape
    write_greedy(problem, state.values, state.greedy)
    now, new, mean, chain = state.returns[0], state.returns[1], state.returns[2], state.chain
    n = 0
    for x in range(S):  # the chain of that policy: weights and targets of state x stand at first[x] .. first[x + 1] − 1
        now[x], mean[x], chain.first[x] = 0.0, 0.0, n
        for row in range(x * A, (x + 1) * A):
            if state.greedy[row] > 0.0:
                mean[x] += state.greedy[row] * problem.mean_reward[row]
                for k in range(problem.first[row], problem.first[row + 1]):
                    if not problem.ends[k]:
                        chain.weight[n] = state.greedy[row] * problem.discount * problem.chance[k]
                        chain.target[n] = problem.target[k]
                        n += 1
    chain.first[S] = n
    for _ in range(problem.limit):
        change = 0.0
        for x in range(S):
            value = mean[x]
            for k in range(chain.first[x], chain.first[x + 1]):
                value += chain.weight[k] * now[chain.target[k]]
            change = max(change, abs(value - now[x]))
            new[x] = value
        now, new = new, now
        if change < 1e-12:
            break
    total = 0.0
    for i in range(problem.start.size):
        total += problem.start_chance[i] * now[problem.start[i]]
    return total


@kernel
def squared_error(problem, values):
    """Σ weight (Q − Q^π)²."""
    S, A = problem.legal.shape
    total = 0.0
    for x in range(S):
        for a in range(A):
            total += problem.weight[x, a] * (values[x * A + a] - problem.exact[x, a]) ** 2
    return total


@kernel
def run(problem, state, method, behaviour, step_size, seed, checkpoints, out):
    """One run. Writes to out[k] at checkpoint k: minus the error and the greedy return, or the mean return so far."""
    np.random.seed(seed)
    forget(state)
    lambda_, total, k = method.lambda_, 0.0, 0
    if method.source == TIED:
        lambda_ = 1.0 if step_size < 0.25 else 0.4
    for episode in range(checkpoints[-1]):
        if method.source == FALLING:
            lambda_ = 1.0 / np.sqrt(episode + 1.0)
        total += play(problem, state, method, behaviour, step_size, lambda_)
        if method.solved:
            solve(problem, state, behaviour, 1.0 / step_size - 1.0, 50)
        if episode + 1 == checkpoints[k]:
            if behaviour == GIVEN:
                out[k, 0] = -np.sqrt(squared_error(problem, state.values))
                out[k, 1] = greedy_return(problem, state)
            else:
                out[k, 0] = total / (episode + 1)
            k += 1


@kernel
def run_all(problem, state, method, behaviour, step_sizes, seeds, checkpoints, out):
    """Runs one after the other, into out, float64[runs, checkpoints, 2]; see `run`."""
    for i in range(seeds.size):
        run(problem, state, method, behaviour, step_sizes[i], seeds[i], checkpoints, out[i])


def scores(
    problem: SolvedProblem,
    method: CreditMethod,
    behaviour: int,
    step_sizes: np.ndarray,
    seeds: np.ndarray,
    at: np.ndarray,
    threads: int | None = None,
) -> np.ndarray:
    """What `run_all` writes, with −∞ where a run has diverged. The number of threads changes nothing."""
    found = np.zeros((len(seeds), len(at), 2))
    sizes, numbers = np.asarray(step_sizes, np.float64), np.asarray(seeds, np.int64)

    def part(k: slice) -> None:
        run_all(problem, new_state(problem, method), method, behaviour, sizes[k], numbers[k], checkpoints, found[k])

    checkpoints, workers = np.asarray(at, np.int64), check_threads(threads)
    parts = [slice(k, k + PART) for k in range(0, len(numbers), PART)]
    with ThreadPoolExecutor(min(workers, len(parts))) as pool:
        list(pool.map(part, parts))
    return np.where(np.isfinite(found), found, -np.inf)
