"""Streaming learners with eligibility traces: one transition at a time, no replay, a λ per step that scales the trace.

    z ← γ λ_t z + ∇q(x_t, a_t),   w ← w + α_t δ_t z

    sarsa          δ = r + γ q(x', a') − q(x, a)
    q              δ = r + γ max q(x', ·) − q(x, a); λ = 0 at actions that are not greedy (Watkins)
    actor-critic   δ = r + γ v(x') − v(x), a trace for the critic and one for the policy

The step size cannot overshoot (after Elsayed, Vasan and Mahmood 2024): α_t = s · min(1, 1 / (κ max(|δ|, 1) |z|₁)),
with s the run's step size. With `bounded=False` it is s: on one-hot inputs without hidden layers that is the tabular
algorithm of the library.

With a memory (`chunked_td.deep.memory`) values read what it remembers beside the percept, and its percept model learns
after every window of transitions.

A run is a function of its seed. Settings are fixed at compile time; step size and λ are numbers of the run.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chunked_td._checks import check_choice, check_flag, check_not_negative, check_positive, check_unit, check_whole
from chunked_td.deep.agents.tallies import RunTally, count, new_tally
from chunked_td.deep.lambdas.base import DeepLambda, NextDraws, Q, SourceSizes, StreamCredit, Transitions, V
from chunked_td.deep.lambdas.recurrent import PerceptWindow
from chunked_td.deep.memory import RecurrentMemory, check_memory
from chunked_td.deep.networks import Mlp, apply_mlp, make_mlp
from chunked_td.deep.policies import Policy, policy_behind, policy_of
from chunked_td.envs.jax_task import JaxTask, TaskStep

RULES = ("sarsa", "q", "actor-critic")


@dataclass(frozen=True)
class StreamingSettings:
    """What is fixed at compile time.

    Attributes:
      rule: "sarsa", "q" or "actor-critic". hidden: units of the layers. discount: γ.
      sparsity: share of first weights that are zero. bounded, kappa, kappa_actor: of the step size.
      entropy: weight of the policy's entropy. epsilon: exploration of "sarsa" and "q", from 1 to this value in
      `explore` steps. memory: what values read beside the percept; None is nothing.
    """

    rule: str = "sarsa"
    hidden: tuple[int, ...] = (32, 32)
    discount: float = 0.99
    sparsity: float = 0.9
    bounded: bool = True
    kappa: float = 2.0
    kappa_actor: float = 3.0
    entropy: float = 0.01
    epsilon: float = 0.05
    explore: int = 10_000
    memory: RecurrentMemory | None = None

    def __post_init__(self) -> None:
        check_choice("rule", self.rule, RULES)
        for units in self.hidden:
            check_whole("hidden", units, 1)
        for name in ("discount", "sparsity", "epsilon"):
            check_unit(name, getattr(self, name))
        for name in ("kappa", "kappa_actor"):
            check_positive(name, getattr(self, name))
        check_not_negative("entropy", self.entropy)
        check_whole("explore", self.explore, 1)
        check_flag("bounded", self.bounded)
        check_memory(self.memory)

    @property
    def bootstrap(self) -> str:
        """What λ may depend on."""
        return V if self.rule == "actor-critic" else Q


class Learned(NamedTuple):
    """What a streaming learner changes: networks and their traces. The policy's are None for action values."""

    critic: Mlp
    trace: Mlp
    actor: Any
    actor_trace: Any


class StreamState(NamedTuple):
    """A run between two transitions."""

    learned: Learned
    source: Any
    task: Any
    inputs: jax.Array  # of the current observation
    codes: jax.Array
    action: jax.Array  # drawn, not yet taken
    start: jax.Array
    returns: jax.Array
    length: jax.Array
    clock: jax.Array
    key: jax.Array
    tally: RunTally
    model: Any = ()  # of the memory
    recall: Any = ()  # a `Recall` where there is a memory


def make_learned(settings: StreamingSettings, inputs: int, outputs: int, key: jax.Array) -> Learned:
    """Fresh networks with empty traces; `outputs` of the policy, or action values."""
    critic = make_mlp(key, (inputs, *settings.hidden, 1 if settings.bootstrap == V else outputs), settings.sparsity)
    trace = jax.tree.map(jnp.zeros_like, critic)
    if settings.bootstrap == Q:
        return Learned(critic, trace, None, None)
    actor = make_mlp(jax.random.fold_in(key, 1), (inputs, *settings.hidden, outputs), settings.sparsity)
    return Learned(critic, trace, actor, jax.tree.map(jnp.zeros_like, actor))


def learn_step(
    settings: StreamingSettings,
    learned: Learned,
    inputs: jax.Array,
    action: jax.Array,
    td_error: jax.Array,
    lambda_: jax.Array,
    ended: jax.Array,
    step_size: jax.Array,
) -> tuple[Learned, StreamCredit]:
    """Decay the traces by γλ, add the gradients at (x, a), move the weights by the TD error.

    Traces are cleared where the episode ended.
    """
    output = _output(settings, action)
    gradient = jax.grad(lambda w: apply_mlp(w, inputs)[0][output])(learned.critic)
    decay = settings.discount * lambda_
    trace = jax.tree.map(lambda z, g: decay * z + g, learned.trace, gradient)
    size = step_bound(settings, trace, td_error, settings.kappa) * step_size
    critic = _moved(learned.critic, trace, size * td_error)
    credit = StreamCredit(
        learned.trace, trace, gradient, td_error, size, jnp.asarray(settings.discount, jnp.float32), ended
    )
    actor, actor_trace = learned.actor, learned.actor_trace
    if actor is not None:

        def objective(w: Mlp) -> jax.Array:
            outputs = apply_mlp(w, inputs)[0]
            policy = policy_behind(outputs, action)
            entropy = settings.entropy * jnp.sign(td_error) * policy.entropy(outputs)
            return policy.log_probability(outputs, action) + entropy

        actor_trace = jax.tree.map(lambda z, g: decay * z + g, actor_trace, jax.grad(objective)(actor))
        bound = step_bound(settings, actor_trace, td_error, settings.kappa_actor)
        actor = _moved(actor, actor_trace, bound * step_size * td_error)
        actor_trace = _cleared(actor_trace, ended)
    return Learned(critic, _cleared(trace, ended), actor, actor_trace), credit


def step_bound(settings: StreamingSettings, trace: Mlp, td_error: jax.Array, kappa: float) -> jax.Array:
    """min(1, 1 / (κ max(|δ|, 1) |z|₁)), or 1 where steps are not bounded."""
    if not settings.bounded:
        return jnp.ones(())
    size = sum((jnp.sum(jnp.abs(z)) for z in jax.tree.leaves(trace)), jnp.zeros(()))
    return 1.0 / jnp.maximum(1.0, kappa * jnp.maximum(jnp.abs(td_error), 1.0) * size)


def _moved(network: Mlp, trace: Mlp, step: jax.Array) -> Mlp:
    return jax.tree.map(lambda w, z: w + step * z, network, trace)


def _cleared(trace: Any, ended: jax.Array) -> Any:
    return jax.tree.map(lambda z: jnp.where(ended, 0.0, z), trace)


def start_run(
    settings: StreamingSettings, task: JaxTask, source: DeepLambda, seed: jax.Array, first: Any = None
) -> StreamState:
    """A run before its first transition; `first` is its (state, observation), where the task is not in JAX."""
    key = jax.random.key(seed)
    network, begin, lambdas, draw = (jax.random.fold_in(key, k) for k in range(4))
    if settings.memory is None and source.needs_memory:
        raise ValueError("memory: got None, but λ from a recurrent model needs an agent with a RecurrentMemory")
    sizes = source_sizes(settings, task)
    learned = make_learned(settings, sizes.inputs, policy_of(task).n_outputs, network)
    state = source.with_parameters(source.init(lambdas, sizes), learned.critic)
    world, observation = task.reset(begin) if first is None else first
    inputs, model, recall = task.space.inputs(observation), (), ()
    if settings.memory is not None:
        percepts = dataclasses.replace(sizes, inputs=task.space.n_inputs)
        model = settings.memory.init(jax.random.fold_in(lambdas, 1), percepts)
        recall = settings.memory.begin(model, inputs, task.n_actions)
        inputs = settings.memory.read(recall)
    action, _ = _choose(settings, policy_of(task), learned, inputs, jnp.ones(()), draw)
    zero = jnp.zeros(())
    return StreamState(
        learned,
        state,
        world,
        inputs,
        task.space.codes(observation),
        action,
        jnp.ones((), bool),
        zero,
        zero,
        jnp.zeros((), jnp.int32),
        key,
        new_tally(),
        model,
        recall,
    )


def source_sizes(settings: StreamingSettings, task: JaxTask) -> SourceSizes:
    """What the run's λ source must know."""
    memory = settings.memory
    inputs = task.space.n_inputs if memory is None else memory.n_inputs(task.space.n_inputs)
    features = settings.hidden[-1] if settings.hidden else inputs
    return SourceSizes(inputs, features, task.space.nvec, task.n_actions, settings.bootstrap, memory=memory is not None)


def stream_step(
    settings: StreamingSettings, task: JaxTask, source: DeepLambda, step_size: jax.Array, now: StreamState
) -> StreamState:
    """One transition, and everything learned from it; the memory's model does not learn."""
    return _transition(settings, task, source, step_size, now)[0]


def _transition(
    settings: StreamingSettings, task: JaxTask, source: DeepLambda, step_size: jax.Array, now: StreamState
) -> tuple[StreamState, Any]:
    """One transition, and what the memory's model may learn from it."""
    _, begin, _, move = _keys(now)
    done = task.step(move, now.task, now.action)
    return learn_transition(settings, task, source, step_size, now, done, task.reset(begin))


def _keys(now: StreamState) -> jax.Array:
    """Of this transition: to act, to begin an episode, to draw next states, and to move."""
    return jax.random.split(jax.random.fold_in(now.key, 4 + now.clock), 4)


def learn_transition(
    settings: StreamingSettings,
    task: JaxTask,
    source: DeepLambda,
    step_size: jax.Array,
    now: StreamState,
    done: TaskStep,
    fresh: tuple[Any, jax.Array],
) -> tuple[StreamState, Any]:
    """What is learned from a transition, wherever it was made, and what the memory's model may learn from it.

    `fresh` is (state, observation) of a new episode; it is read where this one ended.
    """
    act, _, draw, _ = _keys(now)
    chooser = policy_of(task)
    ended = done.terminated | done.truncated
    epsilon = jnp.maximum(settings.epsilon, 1.0 - now.clock / settings.explore)
    new_task, new_observation = fresh
    both = jnp.stack([task.space.inputs(o) for o in (done.observation, new_observation)])
    next_codes = task.space.codes(done.observation)
    recalls, seen = (), ()
    if settings.memory is not None:
        seen = PerceptWindow(now.recall.inputs, now.recall.before, now.start, now.action, next_codes, jnp.ones(()))
        recalls = (
            settings.memory.arrive(now.model, now.recall, now.action, both[0], next_codes),
            settings.memory.begin(now.model, both[1], task.n_actions),
        )
        both = jnp.stack([settings.memory.read(recall) for recall in recalls])

    here, features = apply_mlp(now.learned.critic, now.inputs)
    value = here[_output(settings, now.action)]
    outputs, hidden = apply_mlp(now.learned.critic, both)
    actions, policies = jax.vmap(functools.partial(_choose, settings, chooser, now.learned), (0, None, 0))(
        both, epsilon, jax.random.split(act)
    )
    alive = jnp.where(done.terminated, 0.0, 1.0)
    expected = alive * _expected(settings, outputs[0], policies[0])
    sampled = alive * outputs[0][actions[0]] if settings.rule == "sarsa" else expected
    td_error = done.reward + settings.discount * sampled - value

    def one(x: Any) -> jax.Array:
        return jnp.asarray(x)[None, None]

    if settings.bootstrap == Q:
        policy = jax.nn.one_hot(now.action, task.n_actions)
    else:
        policy = chooser.chances(apply_mlp(now.learned.actor, now.inputs)[0])
    draws = _draws(settings, task, source, now, policy, epsilon, draw)
    state_value = value if settings.bootstrap == V else _expected(settings, here, _behaviour(here, epsilon))
    transitions = Transitions(
        inputs=one(now.inputs),
        next_inputs=one(both[0]),
        features=one(features),
        next_features=one(hidden[0]),
        codes=one(now.codes),
        next_codes=one(next_codes),
        action=one(chooser.index(now.action)),
        policy=one(policy),
        reward=one(done.reward),
        next_value=one(expected),
        value=one(value),
        td_error=one(td_error),
        start=one(now.start),
        terminated=one(done.terminated),
        valid=jnp.ones((1, 1)),
        discount=jnp.asarray(settings.discount, jnp.float32),
        draws=draws,
        state_value=one(state_value),
    )
    if settings.memory is not None:
        transitions = transitions._replace(recalled=settings.memory.forms(now.model, now.recall, transitions))
    state, lambdas = source.step(now.source, transitions)
    lambda_ = lambdas[0, 0]
    if settings.rule == "q":
        lambda_ = jnp.where(value >= jnp.max(here), lambda_, 0.0)
    learned, credit = learn_step(settings, now.learned, now.inputs, now.action, td_error, lambda_, ended, step_size)
    state = source.after(state, credit)

    returns, length = now.returns + done.reward, now.length + 1
    tally = count(now.tally, ended, done.score, returns, length, lambda_, td_error)
    pick = functools.partial(jnp.where, ended)
    after = StreamState(
        learned,
        state,
        jax.tree.map(pick, new_task, done.state),
        pick(both[1], both[0]),
        pick(task.space.codes(new_observation), next_codes),
        pick(actions[1], actions[0]),
        ended,
        pick(0.0, returns),
        pick(0.0, length),
        now.clock + 1,
        now.key,
        tally,
        now.model,
        jax.tree.map(pick, recalls[1], recalls[0]) if recalls else (),
    )
    return after, seen


def stream_block(
    settings: StreamingSettings, task: JaxTask, source: DeepLambda, step_size: jax.Array, now: StreamState, steps: int
) -> tuple[StreamState, RunTally]:
    """So many transitions of one run, and what was counted on the way."""
    memory, begun = settings.memory, now._replace(tally=new_tally())
    step = functools.partial(_transition, settings, task, source, step_size)
    if memory is None:
        done = jax.lax.fori_loop(0, steps, lambda _, state: step(state)[0], begun)
        return done, done.tally
    if steps % memory.window:
        raise ValueError(f"steps: got {steps}, takes a multiple of the memory's window, {memory.window}")

    def window(_: Any, state: StreamState) -> StreamState:
        done, seen = jax.lax.scan(lambda s, _: step(s), state, length=memory.window)
        return done._replace(model=memory.learn(state.model, state.recall.earlier, seen))

    done = jax.lax.fori_loop(0, steps // memory.window, window, begun)
    return done, done.tally


def _output(settings: StreamingSettings, action: jax.Array) -> jax.Array:
    """Which output of the critic is updated."""
    return jnp.zeros((), jnp.int32) if settings.bootstrap == V else action


def _choose(
    settings: StreamingSettings,
    chooser: Policy,
    learned: Learned,
    inputs: jax.Array,
    epsilon: jax.Array,
    key: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """An action of the behaviour policy, and the policy."""
    if settings.bootstrap == V:
        outputs = apply_mlp(learned.actor, inputs)[0]
        return chooser.sample(key, outputs), chooser.chances(outputs)
    policy = _behaviour(apply_mlp(learned.critic, inputs)[0], epsilon)
    return jax.random.categorical(key, jnp.log(policy)), policy


def _behaviour(q: jax.Array, epsilon: jax.Array) -> jax.Array:
    """The ε-greedy policy."""
    greedy = (q == jnp.max(q)).astype(jnp.float32)
    return epsilon / q.size + (1 - epsilon) * greedy / jnp.sum(greedy)


def _expected(settings: StreamingSettings, outputs: jax.Array, policy: jax.Array) -> jax.Array:
    """The bootstrap without the draw of a next action: Σ π q, max q, or v."""
    if settings.rule == "actor-critic":
        return outputs[..., 0]
    return jnp.max(outputs, -1) if settings.rule == "q" else jnp.sum(policy * outputs, -1)


def _draws(
    settings: StreamingSettings,
    task: JaxTask,
    source: DeepLambda,
    now: StreamState,
    policy: jax.Array,
    epsilon: jax.Array,
    key: jax.Array,
) -> NextDraws | None:
    """Further next states from the task itself, for sources that need them."""
    if not source.needs_draws:
        return None
    samples = max_samples(source)
    act, move, pick = jax.random.split(key, 3)
    group = draw_groups(settings.bootstrap, samples)
    actions = jax.random.categorical(act, jnp.log(policy), shape=(samples,))[group]
    drawn = jax.vmap(task.step, (0, None, 0))(jax.random.split(move, samples), now.task, actions)
    inputs, codes = task.space.inputs(drawn.observation), task.space.codes(drawn.observation)
    if settings.memory is not None:
        arrive = jax.vmap(settings.memory.arrive, (None, None, 0, 0, 0))
        inputs = settings.memory.read(arrive(now.model, now.recall, actions, inputs, codes))
    _, policies = jax.vmap(functools.partial(_choose, settings, policy_of(task), now.learned), (0, None, 0))(
        inputs, epsilon, jax.random.split(pick, samples)
    )
    values = _expected(settings, apply_mlp(now.learned.critic, inputs)[0], policies)
    values = jnp.where(drawn.terminated, 0.0, values)
    return NextDraws(codes[None, None], values[None, None], group[None, None])


def draw_groups(bootstrap: str, samples: int) -> jax.Array:
    """Which draws share an action: all where the bootstrap is Q, three at a time where it is V."""
    return jnp.arange(samples) // (samples if bootstrap == Q else 3)


def max_samples(source: Any) -> int:
    """How many draws a source, or any of those in a switch, asks for."""
    return max([getattr(source, "samples", 0), *(max_samples(s) for s in getattr(source, "sources", ()))])
