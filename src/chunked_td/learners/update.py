"""The one update behind every algorithm of the paper, as a choice of four.

| choice | values |
|---|---|
| bootstrap B(x') | V(s'), Q(s',a'), Σ_a π(a|s') Q(s',a), max_a Q(s',a) (`chunked_td.bootstraps`) |
| λ source | see `chunked_td.lambdas` |
| view | traces (online), of several kinds; offline λ-return, sampled chunks (`learners.views`) |
| step size | α, or 1/n(s) (`learners.sutton_singh`) |

Per transition t, in this order (Alg. 1 to 4):

1. choose a_{t+1}, where the update needs it (SARSA, true online; state values have a policy of their own); 2. train the
model on transition t; 3. δ_t = r_{t+1} + γ B(x_{t+1}) − Q(s_t,a_t); 4. read λ_t; e ← γ λ_t e; 5. e(s_t,a_t) += 1;
6. Q ← Q + α δ_t e; 7. choose a_{t+1} from the new values, where it was not chosen in 1 (Expected-SARSA, Q-learning).

A learner that plans (`learners.planning`) trains the planner's model between 2 and 3, and plans after 6. One that
divides its reward (`learners.learned_components`) does so between 2 and 3, too.

The offline view stores δ_t and λ_t, holds the values still during the episode and makes all updates at its end
(Eq. 2 and 4). Sampled chunks (§3.1) are the offline view with λ_t replaced by a coin that falls heads with
probability λ_t: heads drops the state at t from the compressed episode, tails keeps it to bootstrap from.

For V and SARSA the offline view is Eq. 4. Expected-SARSA subtracts Q(s_t,a_t) in δ_t but bootstraps from
B(x_t) = Σ_a π(a|s_t) Q(s_t,a), so the updates of Alg. 3 add up to another return, which the offline view uses too:

    G_t = r_{t+1} + γ[B(x_{t+1}) + λ_{t+1}(G_{t+1} − Q(s_{t+1},a_{t+1}))]

The two have the same expectation over a_{t+1} where λ_{t+1} does not depend on it.

On termination B = 0. On truncation the episode ends but the value does not: B(x_T) stands, and is Σ_a π(a|s_T) Q(s_T,a)
for SARSA too, since no a_T is drawn.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._numba import Form, code, dispatch, entry, kernel, natural, read
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.features.linear import arrive, value_of
from chunked_td.lambdas.episode import add_transition
from chunked_td.lambdas.step import Transition, bootstrap_value, make_step
from chunked_td.learners.planning.base import count_transition, expect_error, learns_directly, plan
from chunked_td.learners.state import NO_LAMBDA, NO_NUMBER, SLACK
from chunked_td.policies import GIVEN, GREEDY, count_action, count_reward, draw, only_legal, uniform_legal, write_policy
from chunked_td.seeding import uniform
from chunked_td.traces import LIMIT, backward_pass

ONGOING, TERMINATED, TRUNCATED = range(3)
"""Whether an episode has ended, and how."""


class Arrival(NamedTuple):
    """A transition, as the environment gives it."""

    state: int
    action: int
    reward: Annotated[np.ndarray, "float64[p]"]  # d components, or one that is divided into d
    next_state: int
    components: Any  # int64[c], the components of next_state where they are at hand, else None
    percept: int  # next_state, or an id for the pair of reward and next state
    legal: Any  # bool[A], the legal actions in next_state; None where the next action has been chosen
    only: int  # the one legal action, or −1 where there are several
    ended: int  # ONGOING, TERMINATED or TRUNCATED


class Rates(NamedTuple):
    """The numbers that may change from episode to episode."""

    epsilon: float  # or what an exploration has in its place, such as a temperature
    step_size: float


@kernel
def _next_state(error, step):
    return step.next_state


count, misread, seen_state = dispatch("observe", None), dispatch("misread"), dispatch("seen_state", _next_state)
lambda_of = dispatch("lambda_t", np.nan, number=True)  # λ of a source that is plain Python is written by `python_steps`
after_step, after_episode = dispatch("after_step", None), dispatch("after_episode", None)
divide = dispatch("divide")


@kernel
def select_action(agent, rng, state, legal, only, epsilon, acting):
    """Write π(·|state) into `memory.next_policy` and draw the next action; −1 if none is to be taken.

    Args:
      legal: bool[A]. only: the one legal action, or −1 where there are several.
      acting: False on truncation, where only the probabilities are needed.
    """
    rule, memory, A = agent.rule, agent.memory, code(agent.rule.n_actions)
    arrive(agent.trace, agent, state)
    if code(rule.keeps_legal):
        for a in range(A):
            agent.tables.legal[state, a] = legal[a]
    if code(rule.policy) != GIVEN and only >= 0:
        if code(rule.bootstrap) == SARSA and acting and not code(rule.keeps_policy):
            memory.next_policy[only] = 1.0  # all that is read: π(a_{t+1}|x_{t+1})
            return only
        for a in range(A):
            memory.next_policy[a] = 1.0 if a == only else 0.0
        return only if acting else -1
    if code(rule.policy) == GREEDY:
        q = agent.tables.values[state * A : (state + 1) * A]
        write_policy(agent.tables.exploration, q, state, legal, epsilon, memory.next_policy)
    elif code(rule.policy) != GIVEN:
        uniform_legal(legal, memory.next_policy)
    return draw(memory.next_policy, rng) if acting else -1


@kernel
def begin(agent, rng, state, legal, only, epsilon):
    """The first action of an episode."""
    memory = agent.memory
    action = select_action(agent, rng, state, legal, only, epsilon, True)
    for a in range(code(agent.rule.n_actions)):  # a source that does not need the policy must not read it
        memory.policy[a] = memory.next_policy[a] if code(agent.rule.keeps_policy) else np.nan
    return action


@kernel
def advance(agent, rng, arrival, rates, truth):
    """Learn from one transition; returns the next action, or −1.

    Args:
      agent: AgentState. rng: a Stream for the policy. arrival: Arrival. rates: Rates.
      truth: the transition as the true model sees it; None for other models.
    """
    action = -1
    count_action(agent.tables.exploration, arrival.state, arrival.action, code(agent.rule.n_actions))
    if arrival.ended != TERMINATED:
        acting = arrival.ended == ONGOING and not code(agent.rule.chooses_late)
        action = select_action(agent, rng, arrival.next_state, arrival.legal, arrival.only, rates.epsilon, acting)
    step = step_of(agent, arrival, action, rates.epsilon, truth)
    observe(agent, step, arrival.reward, arrival.ended)
    write_lambda(agent, step)
    use_lambda(agent, step, arrival.ended, rates.step_size)
    if code(agent.rule.chooses_late) and arrival.ended == ONGOING:
        action = select_action(agent, rng, arrival.next_state, arrival.legal, arrival.only, rates.epsilon, True)
        keep_policy(agent)
    return action


@kernel
def _transition_of(division, here, next_action, previous):
    """The transition of an Arrival; its reward is the one that came, or the array that `divide` fills."""
    reward = here.reward if division is None else division.reward
    return Transition(
        here.state, here.action, reward, here.next_state, here.components, here.percept, next_action, previous
    )


@kernel
def step_of(agent, arrival, next_action, epsilon, truth):
    """The transition as λ sources and models see it."""
    memory = agent.memory
    transition = _transition_of(agent.division, arrival, next_action, memory.previous[0])
    policies = memory.policy, memory.next_policy
    return make_step(
        transition, policies, memory.delta_t, memory.scratch, epsilon, agent.rule, agent.tables, agent.model, truth
    )


@kernel
def known_step(work, state, action, next_state, percept, next_action):
    """The transition as λ sources and models see it, where the next action has been chosen."""
    arrival = Arrival(state, action, work.reward, next_state, None, percept, None, -1, ONGOING)
    return step_of(work.agent, arrival, next_action, work.rates[0], None)


@kernel
def observe(agent, step, paid, ended):
    """Train the models on the transition, and write δ_t; `paid` is the reward as it came."""
    _train_model(agent.error, agent, step)
    _divide(agent.division, step, paid)
    row = row_of(agent, step)
    count_transition(agent.planning, row, seen_state(agent.error, step), step.reward, ended == TERMINATED)
    write_td_error(agent, step, row, ended == TERMINATED)


@kernel
def _train_model(error, agent, step):
    """Train the λ source's model on the transition, or on what an error makes of it (`chunked_td.models.errors`)."""
    if error is None:
        count(agent.model, step, True)
        return
    seen = misread(error, step)
    if seen >= 0:
        arrival = Arrival(step.state, step.action, step.reward, seen, None, seen, None, -1, ONGOING)
        count(agent.model, step_of(agent, arrival, step.next_action, step.epsilon, step.truth), True)
    count(agent.model, step, False)


@kernel
def _divide(division, step, paid):
    if division is not None:
        divide(division, step, paid)


@kernel
def row_of(agent, step):
    """The row of the table of values that the transition left."""
    row = step.state if code(agent.rule.bootstrap) == STATE else step.state * code(agent.rule.n_actions) + step.action
    return natural(row)


@kernel
def write_lambda(agent, step):
    """λ_t into `memory.lambda_t`: one number for all reward components, or one each."""
    out = agent.memory.lambda_t
    if code(agent.rule.per_component):
        for i in range(out.size):
            out[i] = lambda_of(agent.source, step, i)
    else:
        value = lambda_of(agent.source, step, 0)
        for i in range(out.size):
            out[i] = value
    if code(agent.rule.checks_lambda):
        for i in range(out.size):
            if step.previous >= 0 and not in_unit(out[i]):  # the first step of an episode has no λ
                agent.watch[0] |= NO_LAMBDA


@kernel
def in_unit(value):
    """Whether a λ lies in [0, 1], up to rounding; NaN does not."""
    return -SLACK <= value <= 1.0 + SLACK


@kernel
def use_lambda(agent, step, ended, step_size):
    """The part of a step that follows once λ_t and δ_t stand in the memory."""
    A, row = code(agent.rule.n_actions), row_of(agent, step)
    add_transition(agent.episode, step, ended == TRUNCATED)
    if agent.trace is not None or agent.planning is not None:  # values change at once; else at the end of the episode
        watch_update(agent, step_size)
    if learns_directly(agent.planning):
        learn(agent.trace, agent, step, row, step_size, ended)
    after_step(agent.source, step, step.reward, step.td_error, ended)
    plan(agent.planning, agent, row, step.epsilon, step_size, ended != ONGOING)
    first, last = step.previous < 0, ended != ONGOING
    count_reward(agent.tables.exploration, step.reward, agent.rule.discount, first, last)
    agent.memory.previous[0] = step.state * A + step.action
    keep_policy(agent)


@kernel
def keep_policy(agent):
    """π(·|x_{t+1}) becomes the present policy, where it is needed."""
    if code(agent.rule.keeps_policy):
        for b in range(code(agent.rule.n_actions)):
            agent.memory.policy[b] = agent.memory.next_policy[b]


@kernel
def watch_update(agent, step_size):
    """Note in `agent.watch` a δ_t that nothing can be learned from."""
    for i in range(agent.memory.delta_t.size):
        if not abs(step_size * agent.memory.delta_t[i]) <= LIMIT:  # true of NaN too
            agent.watch[0] |= NO_NUMBER


@kernel
def write_td_error(agent, step, row, terminated):
    """δ_t^i = r^i + γ B^i(x_{t+1}) − Q^i(row), into `memory.delta_t`; all of it may be read off a model."""
    rule, values, memory = agent.rule, agent.tables.values, agent.memory
    for i in range(step.reward.size):
        ahead = 0.0
        if not terminated:
            s, a = step.next_state, step.next_action
            ahead = bootstrap_value(rule.bootstrap, rule.n_actions, values, s, a, memory.next_policy, i)
        now = value_of(agent.trace, agent, step, row, i)
        memory.delta_t[i] = step.reward[i] + rule.discount * ahead - now
    expect_error(agent.planning, agent, row, step.epsilon)


@kernel
def _keep(no_trace, agent, step, row, step_size, ended):
    """Without traces, λ_t and δ_t are kept for the end of the episode."""
    memory = agent.memory
    t = memory.length[0]
    memory.rows[t] = row
    for i in range(memory.delta_t.size):
        memory.delta[t, i] = memory.delta_t[i]
        memory.lambda_[t, i] = memory.lambda_t[i]
    memory.length[0] = t + 1


@kernel
def _make_updates(no_trace, agent, coins, step_size):
    """The updates of a whole episode, or of chunks sampled from it."""
    memory, discount = agent.memory, agent.rule.discount
    length = memory.length[0]
    if agent.rule.sampled:
        for t in range(1, length):
            u = uniform(coins)
            for i in range(memory.delta_t.size):
                memory.lambda_[t, i] = 1.0 if u < memory.lambda_[t, i] else 0.0
    values, rows, delta, lambda_ = agent.tables.values, memory.rows, memory.delta, memory.lambda_
    if not backward_pass(values, rows, delta, lambda_, length, discount, step_size):
        agent.watch[0] |= NO_NUMBER


learn, end_episode = dispatch("update", _keep), dispatch("end", _make_updates)
"""Use λ_t and δ_t as the kind of trace does; the end of an episode."""


@kernel
def show_episode(episode, source):
    """Show the episode to a λ source that learns from it."""
    if episode is not None:
        after_episode(source, episode)
        episode.length[0] = 0


@kernel
def finish(agent, coins, step_size):
    """End of an episode: make the updates that wait for it and forget the episode.

    Args:
      coins: a Stream with T − 1 numbers for sampled chunks, not read otherwise. Components with a λ of their own
        share the number, so that each is dropped with its own probability.
    """
    end_episode(agent.trace, agent, coins, step_size)
    show_episode(agent.episode, agent.source)
    agent.memory.length[0] = 0
    agent.memory.previous[0] = -1


# ---- what Python calls: a learner by the addresses of its arrays (`chunked_td._numba.layouts.Packed`)

EMPTY = -2
"""Returned instead of an action where the stream of random numbers has run out; nothing has changed then."""


class Workspace(NamedTuple):
    """What the entry points are given by address: a learner, its random numbers, a place for the reward."""

    agent: Any
    rng: Any
    coins: Any
    reward: Annotated[np.ndarray, "float64[p]"]
    rates: Annotated[np.ndarray, "float64[2]"]  # ε or a temperature, α


def _entry_point(make: Any) -> Any:
    """A function that is compiled for the form of a `Workspace` when it is first used."""
    return functools.cached_property(lambda entries: entry(make(entries.form), entries.cached))


class Entries:
    """The entry points for learners of one form: one combination of bootstrap, λ source, model and view."""

    def __init__(self, form: Form, cached: bool) -> None:
        self.form, self.cached = form, cached

    @_entry_point
    def step(form):
        """step(addresses, state, action, next_state, percept, legal, ended): learn; the next action, −1 or EMPTY.

        With state −1 nothing is learned: an episode begins in `next_state`.
        """

        def step(addresses, state, action, next_state, percept, legal, ended):
            work = read(addresses, form)
            if work.rng.position[0] >= work.rng.block.size:
                return EMPTY
            if state < 0:
                return begin(work.agent, work.rng, next_state, legal, only_legal(legal), work.rates[0])
            arrival = Arrival(state, action, work.reward, next_state, None, percept, legal, only_legal(legal), ended)
            return advance(work.agent, work.rng, arrival, Rates(work.rates[0], work.rates[1]), None)

        return step

    @_entry_point
    def finish(form):
        """finish(addresses, step_size): the end of an episode."""

        def finish_episode(addresses, step_size):
            work = read(addresses, form)
            finish(work.agent, work.coins, step_size)

        return finish_episode

    # the parts of a step, where λ or the model is Python

    @_entry_point
    def select(form):
        """select(addresses, state, legal, acting): the next action, −1 or EMPTY."""

        def select(addresses, state, legal, acting):
            work = read(addresses, form)
            if work.rng.position[0] >= work.rng.block.size:
                return EMPTY
            return select_action(work.agent, work.rng, state, legal, only_legal(legal), work.rates[0], acting)

        return select

    @_entry_point
    def observe(form):
        """observe(addresses, state, action, next_state, percept, next_action, ended): train counts; write δ_t and λ_t.

        λ of a source that is plain Python is written by `python_steps`.
        """

        def observe_step(addresses, state, action, next_state, percept, next_action, ended):
            work = read(addresses, form)
            step = known_step(work, state, action, next_state, percept, next_action)
            observe(work.agent, step, work.reward, ended)
            if work.agent.source is not None:
                write_lambda(work.agent, step)

        return observe_step

    @_entry_point
    def use_lambda(form):
        """use_lambda(addresses, state, action, next_state, percept, next_action, ended): learn from λ_t and δ_t."""

        def learn_from_step(addresses, state, action, next_state, percept, next_action, ended):
            work = read(addresses, form)
            step = known_step(work, state, action, next_state, percept, next_action)
            use_lambda(work.agent, step, ended, work.rates[1])

        return learn_from_step


entries_for = functools.cache(Entries)
"""entries_for(form, cached): the entry points for learners of this form."""
