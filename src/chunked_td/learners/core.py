"""The update that all algorithms of the paper share, and the compiled entries that Python calls.

An algorithm is a choice of four:

| choice | values |
|---|---|
| bootstrap B(x') | V(s'), Q(s',a'), Σ_a π(a|s') Q(s',a), max_a Q(s',a) (`chunked_td.bootstraps`) |
| λ source | a class of `chunked_td.lambdas` |
| view | online, with several types of trace; offline λ-return; sampled chunks (`learners.views`) |
| step size | α, or 1/n(s) (`learners.sutton_singh`) |

`advance` makes the update for transition t, in this order (Alg. 1 to 4):

    perceive      1. choose a_{t+1} if δ_t or λ_t depends on it (SARSA, true online), or if the policy is given
                     (state values)
                  2. train the model on transition t
                  3. δ_t = r_{t+1} + γ B(x_{t+1}) − Q(s_t,a_t)
    write_lambda  4. compute λ_t
    credit        5. update as the view requires; online: e ← γ λ_t e;  e(s_t,a_t) += 1;  Q ← Q + α δ_t e
                  6. choose a_{t+1} from the new values if step 1 did not (Expected-SARSA, Q-learning)

λ_t belongs to the transition from x_t to x_{t+1} and decays the traces of all earlier steps. For example, Alg. 2
(`ChunkedSarsa`) is bootstrap Q(s',a'), source `ForwardLambda` and view "traces": step 1 draws a_{t+1} from
π(·|x_{t+1}), and step 4 computes λ_t = P̂(x_{t+1}|x_t,a_t) π(a_{t+1}|x_{t+1}).

The offline view stores δ_t and λ_t, keeps the values fixed during the episode and makes all updates at its end
(Eq. 2 and 4). Sampled chunks (§3.1) are the offline view with λ_t replaced by a random number, 1 with probability λ_t
and 0 otherwise: 1 drops the state at t from the compressed episode, 0 keeps it and bootstraps from it.

For V and SARSA the offline view is Eq. 4. Expected-SARSA subtracts Q(s_t,a_t) in δ_t but bootstraps from
B(x_t) = Σ_a π(a|s_t) Q(s_t,a), so the updates of Alg. 3 add up to a different return. The offline view uses the same:

    G_t = r_{t+1} + γ[B(x_{t+1}) + λ_{t+1}(G_{t+1} − Q(s_{t+1},a_{t+1}))]

On termination B = 0. On truncation the last step bootstraps from B(x_T); for SARSA that is Σ_a π(a|s_T) Q(s_T,a), since
no a_T is drawn.

Each part of a learner supplies functions under open names (`chunked_td._link`). A missing function leaves the step
unchanged:

| part | open names |
|---|---|
| λ source | `lambda_t`, or `write_lambda` for all components at once; `after_step`, `after_episode` if it learns |
| model | `observe`, and the functions that `lambdas.step` calls |
| view | `update`, `end`; `arrive`, `value_of` for values that are not rows of the table |
| exploration | `probabilities`, `count_action`, `count_reward` (`policies`) |
| planner | `plan`; `expect` of a reward source (`learners.planning`) |
| others | `divide` a reward; `misread`, `seen_state` of a wrong model; `take` a random number |
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import Stream, natural, number, slot, uniform
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.lambdas.episode import add_transition
from chunked_td.lambdas.step import Transition, bootstrap_value, make_step
from chunked_td.learners.linear_values import arrive, value_of
from chunked_td.learners.planning.base import count_transition, expect_error, learns_directly, plan
from chunked_td.learners.state import NO_LAMBDA, NO_NUMBER, SLACK
from chunked_td.policies import GIVEN, GREEDY, count_action, count_reward, draw, only_legal, uniform_legal, write_policy
from chunked_td.traces import LIMIT, backward_pass

ONGOING, TERMINATED, TRUNCATED = range(3)
"""States of an episode."""
NONE, FREE = -1, -2
"""Codes in place of an action: no action; the learner chooses."""

lambda_t = slot("source", "lambda_t", np.nan)
after_step, after_episode = slot("source", "after_step", None), slot("source", "after_episode", None)
observe, divide = slot("model", "observe", None), slot("division", "divide", None)
misread, seen_state = slot("error", "misread", -1), slot("error", "seen_state", lambda error, step: step.next_state)


class Arrival(NamedTuple):
    """A transition as the environment returns it."""

    state: int
    action: int
    next_state: int
    components: Any  # int64[c], the components of next_state; None if only its id is known
    percept: int  # next_state, or an id for the pair of reward and next state
    legal: Any  # bool[A], the legal actions in next_state
    only: int  # the only legal action, or −1 if several are legal
    ended: int  # ONGOING, TERMINATED or TRUNCATED
    given: int  # the prescribed next action (recorded episodes), or FREE


class Work(NamedTuple):
    """All inputs and outputs of the update; the first fields are those of `AgentState`."""

    rule: Any
    source: Any
    model: Any
    tables: Any
    trace: Any
    memory: Any
    watch: Annotated[np.ndarray, "int64[one]"]
    episode: Any
    planning: Any
    error: Any
    division: Any
    rng: Stream  # of the policy
    coins: Stream  # of sampled chunks
    reward: Annotated[np.ndarray, "float64[p]"]  # as received: d components, or one number to divide into d
    rates: Annotated[np.ndarray, "float64[three]"]  # ε, or the rate of another exploration; α; factor of λ_t
    legal: Annotated[np.ndarray, "bool[A]"]  # the legal actions, written by Python

    @classmethod
    def of(cls, state: Any, rng: Stream, coins: Stream, reward: Any, rates: Any, legal: Any) -> Work:
        """Join the state of a learner with its random streams and the arrays that Python writes."""
        given: Any = (*state, rng, coins, reward, rates, legal)
        return cls(*given)


RATES = 3
EPSILON, STEP_SIZE, CUT = range(RATES)
"""Columns of `Work.rates`."""


# ---- one transition


def advance(m, here, truth):
    """Make the update for one transition; return a_{t+1}, or NONE.

    Args:
      m: Work. here: Arrival. truth: the transition under the true model; None for other models.
    """
    step = perceive(m, here, truth)
    write_lambda(m, step)
    return credit(m, here, step)


def perceive(m, here, truth):
    """Steps 1 to 3: choose a_{t+1} if it is needed now, train the models, write δ_t; return the Step."""
    action = NONE
    count_action(m.tables.exploration, here.state, here.action, m.rule.n_actions)
    if here.ended != TERMINATED:
        acting = here.ended == ONGOING and here.given == FREE and not m.rule.chooses_late
        action = select_action(m, here.next_state, here.legal, here.only, acting)
        if here.given >= 0:
            action = here.given
    step = step_of(m, here, action, truth)
    train_model(m.error, m, here, step)
    divide(m.division, step, m.reward)
    row = row_of(m, step)
    count_transition(m.planning, row, seen_state(m.error, step), step.reward, here.ended == TERMINATED)
    write_td_error(m, step, row, here.ended == TERMINATED)
    return step


def lambda_of_source(m, step):
    """Write λ_t, times its factor in `rates`, to `memory.lambda_t`: one λ for all reward components, or one each."""
    out = m.memory.lambda_t
    if m.rule.per_component:
        for i in range(out.size):
            out[i] = m.rates[CUT] * number(lambda_t(m.source, step, i))
    else:
        value = m.rates[CUT] * number(lambda_t(m.source, step, 0))
        for i in range(out.size):
            out[i] = value
    if m.rule.checks_lambda:
        for i in range(out.size):
            if step.previous >= 0 and not in_unit(out[i]):  # the first step of an episode has no λ
                m.watch[0] |= NO_LAMBDA


write_lambda = slot("source", "write_lambda", lambda_of_source)


def credit(m, here, step):
    """Steps 5 and 6: update from λ_t and δ_t, run the planner, choose a_{t+1} if step 1 did not; return it, or NONE."""
    row, step_size, action = row_of(m, step), m.rates[STEP_SIZE], step.next_action
    add_transition(m.episode, step, here.ended == TRUNCATED)
    if m.trace is not None or m.planning is not None:  # values change at once; else at the end of the episode
        watch_update(m, step_size)
    if learns_directly(m.planning):
        update(m.trace, m, step, row, step_size, here.ended)
    after_step(m.source, step, step.reward, step.td_error, here.ended)
    plan(m.planning, m, row, step.epsilon, step_size, here.ended != ONGOING)
    count_reward(m.tables.exploration, step.reward, m.rule.discount, step.previous < 0, here.ended != ONGOING)
    m.memory.previous[0] = step.state * m.rule.n_actions + step.action
    if m.rule.chooses_late and here.ended == ONGOING:
        action = select_action(m, here.next_state, here.legal, here.only, here.given == FREE)
        if here.given >= 0:
            action = here.given
    keep_policy(m)
    return action


def begin(m, state, legal, only, given):
    """Return the first action of an episode."""
    action = select_action(m, state, legal, only, given == FREE)
    for a in range(m.rule.n_actions):  # a source that does not need the policy must not read it
        m.memory.policy[a] = m.memory.next_policy[a] if m.rule.keeps_policy else np.nan
    return given if given >= 0 else action


def finish(m):
    """End an episode: make the deferred updates and reset the memory of the episode."""
    end_episode(m.trace, m, m.coins, m.rates[STEP_SIZE])
    show_episode(m.episode, m.source)
    m.memory.length[0] = 0
    m.memory.previous[0] = -1


# ---- parts of the update


def select_action(m, state, legal, only, acting):
    """Write π(·|state) to `memory.next_policy`; return an action drawn from it if `acting`, else NONE.

    Args:
      legal: bool[A]. only: the only legal action, or −1 if several are legal.
      acting: False if only the probabilities are needed.
    """
    rule, memory, A = m.rule, m.memory, m.rule.n_actions
    arrive(m.trace, m, state)
    if rule.keeps_legal:
        for a in range(A):
            m.tables.legal[state, a] = legal[a]
    if rule.policy != GIVEN and only >= 0:
        if rule.bootstrap == SARSA and acting and not rule.keeps_policy:
            memory.next_policy[only] = 1.0  # only π(a_{t+1}|x_{t+1}) is read
            return only
        for a in range(A):
            memory.next_policy[a] = 1.0 if a == only else 0.0
        return only if acting else NONE
    if rule.policy == GREEDY:
        q = m.tables.values[state * A : (state + 1) * A]
        write_policy(m.tables.exploration, q, state, legal, m.rates[EPSILON], memory.next_policy)
    elif rule.policy != GIVEN:
        uniform_legal(legal, memory.next_policy)
    return draw(memory.next_policy, m.rng) if acting else NONE


def step_of(m, here, next_action, truth):
    """Return the Step that λ sources and models read."""
    memory = m.memory
    transition = transition_of(m.division, here, m.reward, next_action, memory.previous[0])
    policies = memory.policy, memory.next_policy
    return make_step(
        transition, policies, memory.delta_t, memory.scratch, m.rates[EPSILON], m.rule, m.tables, m.model, truth
    )


def transition_of(division, here, paid, next_action, previous):
    """Return the Transition of an Arrival; its reward is as received, or the array that `divide` fills."""
    reward = paid if division is None else division.reward
    return Transition(
        here.state,
        here.action,
        reward,
        here.next_state,
        here.components,
        here.percept,
        next_action,
        previous,
        here.ended,
    )


def train_model(error, m, here, step):
    """Train the λ source's model on the transition, altered by a model error if any (`chunked_td.models.errors`)."""
    if error is None:
        observe(m.model, step, True)
        return
    seen = misread(error, step)
    if seen >= 0:
        wrong = Arrival(here.state, here.action, seen, None, seen, here.legal, here.only, here.ended, here.given)
        observe(m.model, step_of(m, wrong, step.next_action, step.truth), True)
    observe(m.model, step, False)


def row_of(m, step):
    """Return the row of (s_t, a_t) in the table of values; of s_t for state values."""
    return natural(step.state if m.rule.bootstrap == STATE else step.state * m.rule.n_actions + step.action)


def write_td_error(m, step, row, terminated):
    """Write δ_t^i = r^i + γ B^i(x_{t+1}) − Q^i(row) to `memory.delta_t`; `ExpectedError` then changes part of it."""
    rule, values, memory = m.rule, m.tables.values, m.memory
    for i in range(step.reward.size):
        ahead = 0.0
        if not terminated:
            s, a = step.next_state, step.next_action
            ahead = bootstrap_value(rule.bootstrap, rule.n_actions, values, s, a, memory.next_policy, i)
        now = value_of(m.trace, m, step, row, i)
        memory.delta_t[i] = step.reward[i] + rule.discount * ahead - now
    expect_error(m.planning, m, row, step.epsilon)


def in_unit(value):
    """Return whether a λ is in [0, 1], up to rounding; False for NaN."""
    return -SLACK <= value <= 1.0 + SLACK


def keep_policy(m):
    """Copy π(·|x_{t+1}) to `memory.policy` for the next step, if λ needs it."""
    if m.rule.keeps_policy:
        for b in range(m.rule.n_actions):
            m.memory.policy[b] = m.memory.next_policy[b]


def watch_update(m, step_size):
    """Set NO_NUMBER in `watch` if α δ_t is not finite or is beyond LIMIT."""
    for i in range(m.memory.delta_t.size):
        if not abs(step_size * m.memory.delta_t[i]) <= LIMIT:  # also true of NaN
            m.watch[0] |= NO_NUMBER


def show_episode(episode, source):
    """Pass the finished episode to a λ source that learns from whole episodes."""
    if episode is not None:
        after_episode(source, episode)
        episode.length[0] = 0


# ---- offline views: values are fixed during an episode


def keep_step(no_trace, m, step, row, step_size, ended):
    """Store λ_t and δ_t for the end of the episode."""
    memory = m.memory
    t = memory.length[0]
    memory.rows[t] = row
    for i in range(memory.delta_t.size):
        memory.delta[t, i] = memory.delta_t[i]
        memory.lambda_[t, i] = memory.lambda_t[i]
    memory.length[0] = t + 1


def make_updates(no_trace, m, coins, step_size):
    """Make the updates of a whole episode, or of chunks sampled from it.

    Reward components with a λ each share one random number per step; each is dropped with its own probability.
    """
    memory, length = m.memory, m.memory.length[0]
    if m.rule.sampled:
        for t in range(1, length):
            u = uniform(coins)
            for i in range(memory.delta_t.size):
                memory.lambda_[t, i] = 1.0 if u < memory.lambda_[t, i] else 0.0
    values, rows, delta, lambda_ = m.tables.values, memory.rows, memory.delta, memory.lambda_
    if not backward_pass(values, rows, delta, lambda_, length, m.rule.discount, step_size):
        m.watch[0] |= NO_NUMBER


update, end_episode = slot("view", "update", keep_step), slot("view", "end", make_updates)


# ---- entries that Python calls, with the address of a learner's arrays (`chunked_td._link.Packed`)

read = slot("arrays", "read")


def _arrival(m, state, action, next_state, percept, ended, given):
    return Arrival(state, action, next_state, None, percept, m.legal, only_legal(m.legal), ended, given)


def step(address, state, action, next_state, percept, ended, given):
    """Make one update; return the next action, or NONE. State −1 begins an episode in `next_state`."""
    m = read(address)
    if state < 0:
        return begin(m, next_state, m.legal, only_legal(m.legal), given)
    return advance(m, _arrival(m, state, action, next_state, percept, ended, given), None)


def step_before_lambda(address, state, action, next_state, percept, ended, given):
    """Run `step` up to λ_t, for a source in plain Python; return a_{t+1}, or NONE if it is not chosen yet."""
    m = read(address)
    return perceive(m, _arrival(m, state, action, next_state, percept, ended, given), None).next_action


def step_after_lambda(address, state, action, next_state, percept, ended, given, next_action):
    """Run the rest of `step` with the λ_t in `memory.lambda_t`; return the next action, or NONE."""
    m = read(address)
    here = _arrival(m, state, action, next_state, percept, ended, given)
    return credit(m, here, step_of(m, here, next_action, None))


def known_step(m, here, next_action):
    """Return the Step of `step_before_lambda`, for a source in plain Python."""
    return step_of(m, _arrival(m, *here), next_action, None)


def select(address, state, acting):
    """Write π(·|state); return an action drawn from it if `acting`, else NONE."""
    m = read(address)
    return select_action(m, state, m.legal, only_legal(m.legal), acting != 0)


def end(address):
    """End an episode."""
    finish(read(address))
    return 0
