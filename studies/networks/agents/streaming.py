"""Streaming learners with eligibility traces: one transition at a time, no replay, a λ per step that scales the trace.

    z ← γ λ_t z + ∇q(x_t, a_t),   w ← w + α_t δ_t z

    sarsa          δ = r + γ q(x', a') − q(x, a)
    q              δ = r + γ max q(x', ·) − q(x, a); λ = 0 at actions that are not greedy (Watkins)
    actor-critic   δ = r + γ v(x') − v(x), a trace for the critic and one for the policy

The step size cannot overshoot (after Elsayed, Vasan and Mahmood 2024): α_t = s · min(1, 1 / (κ max(|δ|, 1) |z|₁)),
with s the run's step size. With `bounded=False` it is s: on one-hot inputs without hidden layers that is the tabular
algorithm of the library.

With a memory (`studies.networks.memory`) the inputs of the values are percept and memory, and its observation model
learns after every window of transitions.

With `luck` M > 1 the task is stepped again from the same state and action, and δ is its mean over the sampled
next state and M − 1 further samples: sampling noise is reduced, the path is unchanged. It requires a task
that can be stepped from any state, as tasks in JAX can.

Settings are fixed at compile time; step size and λ are numbers of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from studies.networks.agents.base import DeepAgent, RunTally, count, new_tally
from studies.networks.lambdas.base import NextDraws, Q, StreamCredit, Transitions, V
from studies.networks.memory import PerceptWindow, RecurrentMemory
from studies.networks.networks import Mlp, apply_mlp, entropy, log_probability, make_mlp


@dataclass(frozen=True)
class StreamingSettings:
    """Settings fixed at compile time.

    Attributes:
      rule: "sarsa", "q" or "actor-critic". hidden: units of the layers. discount: γ.
      sparsity: share of first weights that are zero. bounded, kappa, kappa_actor: of the step size.
      entropy: weight of the policy's entropy. epsilon: exploration of "sarsa" and "q", from 1 to this value in
      `explore` steps. memory: further input of the values, or None. luck: M, samples per TD error.
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
    luck: int = 1


class Learned(NamedTuple):
    """Networks of a streaming learner and their traces. The policy's are None for action values."""

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
    clock: jax.Array
    key: jax.Array
    tally: RunTally
    model: Any = ()  # of the memory
    recall: Any = ()  # a `Recall` with a memory
    luck: Any = ()  # int32[], draws per TD error where there may be several, at most `settings.luck`


def make_learned(settings: StreamingSettings, inputs: int, outputs: int, key: jax.Array) -> Learned:
    """Fresh networks with empty traces; `outputs` of the policy, or action values."""
    acts = settings.rule == "actor-critic"
    critic = make_mlp(key, (inputs, *settings.hidden, 1 if acts else outputs), settings.sparsity)
    trace = jax.tree.map(jnp.zeros_like, critic)
    if not acts:
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
    output = action if learned.actor is None else jnp.zeros((), jnp.int32)
    decay = settings.discount * lambda_

    def followed(trace: Mlp, gradient: Mlp) -> Mlp:
        return jax.tree.map(lambda z, g: decay * z + g, trace, gradient)

    def moved(network: Mlp, trace: Mlp, step: jax.Array) -> Mlp:
        return jax.tree.map(lambda w, z: w + step * z, network, trace)

    def cleared(trace: Mlp) -> Mlp:
        return jax.tree.map(lambda z: jnp.where(ended, 0.0, z), trace)

    gradient = jax.grad(lambda w: apply_mlp(w, inputs)[0][output])(learned.critic)
    trace = followed(learned.trace, gradient)
    size = step_bound(settings, trace, td_error, settings.kappa) * step_size
    critic = moved(learned.critic, trace, size * td_error)
    discount = jnp.asarray(settings.discount, jnp.float32)
    credit = StreamCredit(learned.trace, trace, gradient, td_error, size, discount, ended)
    if learned.actor is None:
        return Learned(critic, cleared(trace), None, None), credit

    def objective(w: Mlp) -> jax.Array:
        outputs = apply_mlp(w, inputs)[0]
        return log_probability(outputs, action) + settings.entropy * jnp.sign(td_error) * entropy(outputs)

    actor_trace = followed(learned.actor_trace, jax.grad(objective)(learned.actor))
    bound = step_bound(settings, actor_trace, td_error, settings.kappa_actor)
    actor = moved(learned.actor, actor_trace, bound * step_size * td_error)
    return Learned(critic, cleared(trace), actor, cleared(actor_trace)), credit


def step_bound(settings: StreamingSettings, trace: Mlp, td_error: jax.Array, kappa: float) -> jax.Array:
    """min(1, 1 / (κ max(|δ|, 1) |z|₁)), or 1 if steps are not bounded."""
    if not settings.bounded:
        return jnp.ones(())
    size = sum((jnp.sum(jnp.abs(z)) for z in jax.tree.leaves(trace)), jnp.zeros(()))
    return 1.0 / jnp.maximum(1.0, kappa * jnp.maximum(jnp.abs(td_error), 1.0) * size)


def _behaviour(q: jax.Array, epsilon: jax.Array) -> jax.Array:
    """The ε-greedy policy."""
    greedy = (q == jnp.max(q)).astype(jnp.float32)
    return epsilon / q.size + (1 - epsilon) * greedy / jnp.sum(greedy)


@dataclass(frozen=True)
class StreamingAgent(DeepAgent):
    """SARSA(λ), Q(λ) or actor-critic(λ) on a task."""

    settings: StreamingSettings

    @property
    def bootstrap(self) -> str:
        """The bootstrap: "v" for actor-critic, else "q"."""
        return V if self.settings.rule == "actor-critic" else Q

    @property
    def unit(self) -> int:
        """Transitions that cannot be parted: a window of the memory, or one."""
        return 1 if self.settings.memory is None else self.settings.memory.window

    def start(self, seed: jax.Array) -> StreamState:
        """A run before its first transition."""
        key = jax.random.key(seed)
        network, begin, lambdas, draw = (jax.random.fold_in(key, k) for k in range(4))
        sizes = self.sizes()
        learned = make_learned(self.settings, sizes.inputs, self.task.n_actions, network)
        source = self.source.with_parameters(self.source.init(lambdas, sizes), learned.critic)
        world, observation = self.task.reset(begin)
        model = self.start_model(jax.random.fold_in(lambdas, 1))
        inputs, recall = self.begin(model, observation)
        action, _ = self._choose(learned, inputs, jnp.ones(()), draw)
        codes = self.task.space.codes(observation)
        begun = (jnp.ones((), bool), jnp.zeros(()), jnp.zeros((), jnp.int32), key, new_tally())
        return StreamState(learned, source, world, inputs, codes, action, *begun, model, recall, self.start_luck())

    def block(self, step_size: Any, now: StreamState, steps: int) -> tuple[StreamState, RunTally]:
        """`steps` transitions of one run, and their tally."""
        memory, begun = self.settings.memory, now._replace(tally=new_tally())
        if memory is None:
            done = jax.lax.fori_loop(0, steps, lambda _, state: self.step(step_size, state)[0], begun)
            return done, done.tally

        def window(_: Any, state: StreamState) -> StreamState:
            done, seen = jax.lax.scan(lambda s, _: self.step(step_size, s), state, length=memory.window)
            return done._replace(model=memory.model.learn(state.model, state.recall.earlier, seen))

        done = jax.lax.fori_loop(0, steps // memory.window, window, begun)
        return done, done.tally

    def step(self, step_size: Any, now: StreamState) -> tuple[StreamState, Any]:
        """One transition and its updates; also the data from which the memory's model learns after a window."""
        settings, space = self.settings, self.task.space
        act, begin, draw, move = _keys(now)
        done, fresh = self.task.step(move, now.task, now.action), self.task.reset(begin)
        ended = done.terminated | done.truncated
        epsilon = jnp.maximum(settings.epsilon, 1.0 - now.clock / settings.explore)
        next_codes, seen = space.codes(done.observation), ()
        if settings.memory is not None:
            seen = PerceptWindow(now.recall.inputs, now.recall.before, now.start, now.action, next_codes)
        came, recall = self.arrive(now.model, now.recall, now.action, done.observation)
        first, first_recall = self.begin(now.model, fresh[1])
        both = jnp.stack([came, first])

        here, features = apply_mlp(now.learned.critic, now.inputs)
        value = here[0 if self.bootstrap == V else now.action]
        outputs, hidden = apply_mlp(now.learned.critic, both)
        actions, policies = jax.vmap(self._choose, (None, 0, None, 0))(
            now.learned, both, epsilon, jax.random.split(act)
        )
        alive = jnp.where(done.terminated, 0.0, 1.0)
        expected = alive * self._expected(outputs[0], policies[0])
        sampled = alive * outputs[0][actions[0]] if settings.rule == "sarsa" else expected
        target = done.reward + settings.discount * sampled
        if settings.luck > 1:
            target = self._expected_target(now, target, epsilon, jax.random.fold_in(draw, 3))
        td_error = target - value

        def one(x: Any) -> jax.Array:
            return jnp.asarray(x)[None, None]

        if self.bootstrap == Q:
            policy = jax.nn.one_hot(now.action, self.task.n_actions)
        else:
            policy = jax.nn.softmax(apply_mlp(now.learned.actor, now.inputs)[0])
        state_value = value if self.bootstrap == V else self._expected(here, _behaviour(here, epsilon))
        transitions = Transitions(
            inputs=one(now.inputs),
            next_inputs=one(both[0]),
            features=one(features),
            next_features=one(hidden[0]),
            codes=one(now.codes),
            next_codes=one(next_codes),
            action=one(now.action),
            policy=one(policy),
            reward=one(done.reward),
            next_value=one(expected),
            value=one(value),
            td_error=one(td_error),
            start=one(now.start),
            terminated=one(done.terminated),
            discount=jnp.asarray(settings.discount, jnp.float32),
            draws=self._draws(now, policy, epsilon, draw) if self.source.needs_draws else None,
            state_value=one(state_value),
            mix=one(self._mix(here, _behaviour(here, epsilon))),
            next_mix=one(self._mix(outputs[0], policies[0])),
        )
        if settings.memory is not None:
            asked = (one(now.recall.hidden), transitions, one(now.recall.inputs))
            transitions = transitions._replace(recalled=settings.memory.model.forms(now.model, *asked))
        state, lambdas = self.source.step(now.source, transitions)
        lambda_ = lambdas[0, 0]
        if settings.rule == "q":
            lambda_ = jnp.where(value >= jnp.max(here), lambda_, 0.0)
        learned, credit = learn_step(settings, now.learned, now.inputs, now.action, td_error, lambda_, ended, step_size)
        state = self.source.after(state, credit)

        returns = now.returns + done.reward
        tally = count(now.tally, ended, done.score, returns, lambda_)
        new = dict(task=fresh[0], inputs=both[1], codes=space.codes(fresh[1]), action=actions[1], recall=first_recall)
        old = dict(task=done.state, inputs=both[0], codes=next_codes, action=actions[0], recall=recall)
        place = jax.tree.map(lambda x, y: jnp.where(ended, x, y), new, old)
        totals = {"returns": jnp.where(ended, 0.0, returns), "tally": tally}
        after = now._replace(learned=learned, source=state, start=ended, clock=now.clock + 1, **place, **totals)
        return after, seen

    def _choose(self, learned: Learned, inputs: jax.Array, epsilon: jax.Array, key: jax.Array) -> tuple[Any, Any]:
        """An action of the behaviour policy, and the policy."""
        if self.bootstrap == V:
            outputs = apply_mlp(learned.actor, inputs)[0]
            return jax.random.categorical(key, outputs), jax.nn.softmax(outputs)
        policy = _behaviour(apply_mlp(learned.critic, inputs)[0], epsilon)
        return jax.random.categorical(key, jnp.log(policy)), policy

    def _expected(self, outputs: jax.Array, policy: jax.Array) -> jax.Array:
        """The bootstrap without sampling a next action: Σ π q, max q, or v."""
        if self.bootstrap == V:
            return outputs[..., 0]
        return jnp.max(outputs, -1) if self.settings.rule == "q" else jnp.sum(policy * outputs, -1)

    def _mix(self, outputs: jax.Array, policy: jax.Array) -> jax.Array:
        """The weights of outputs in `_expected`."""
        if self.bootstrap == V:
            return jnp.ones(1)
        return jax.nn.one_hot(jnp.argmax(outputs), outputs.size) if self.settings.rule == "q" else policy

    def _expected_target(self, now: StreamState, came: jax.Array, epsilon: jax.Array, key: jax.Array) -> jax.Array:
        """Mean of r + γ B(x') over the sampled next state and further samples from the same state and action."""
        actions = jnp.broadcast_to(now.action, (self.settings.luck - 1, *now.action.shape))
        drawn, outputs, chosen, policies = self._stepped(now, actions, epsilon, *jax.random.split(key))
        values = self._expected(outputs, policies)
        if self.settings.rule == "sarsa":
            values = jnp.take_along_axis(outputs, chosen[:, None], 1)[:, 0]
        targets = drawn.reward + self.settings.discount * jnp.where(drawn.terminated, 0.0, values)
        return (came + jnp.sum(targets, where=jnp.arange(len(targets)) < now.luck - 1)) / now.luck

    def _draws(self, now: StreamState, policy: jax.Array, epsilon: jax.Array, key: jax.Array) -> NextDraws:
        """Further next states from the task itself, for sources that need them."""
        act, move, pick = jax.random.split(key, 3)
        group = self.draw_groups()
        actions = jax.random.categorical(act, jnp.log(policy), shape=group.shape)[group]
        drawn, outputs, _, policies = self._stepped(now, actions, epsilon, move, pick)
        values = jnp.where(drawn.terminated, 0.0, self._expected(outputs, policies))
        return NextDraws(*(x[None, None] for x in (self.task.space.codes(drawn.observation), values, group)))

    def _stepped(self, now: StreamState, actions: jax.Array, epsilon: Any, move: Any, pick: Any) -> tuple[Any, ...]:
        """Further steps from the present state, and there: the critic's outputs, next actions, policies."""
        drawn = jax.vmap(self.task.step, (0, None, 0))(jax.random.split(move, len(actions)), now.task, actions)
        inputs, _ = jax.vmap(self.arrive, (None, None, 0, 0))(now.model, now.recall, actions, drawn.observation)
        keys = jax.random.split(pick, len(actions))
        chosen, policies = jax.vmap(self._choose, (None, 0, None, 0))(now.learned, inputs, epsilon, keys)
        return drawn, apply_mlp(now.learned.critic, inputs)[0], chosen, policies


def _keys(now: StreamState) -> jax.Array:
    """Keys of this transition: to act, to begin an episode, to sample next states, and to move."""
    return jax.random.split(jax.random.fold_in(now.key, 4 + now.clock), 4)
