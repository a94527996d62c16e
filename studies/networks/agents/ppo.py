"""PPO with a λ per step: rollouts of several environments, advantages with λ [T, B] from a source, clipped updates.

Schulman et al. (2017), with the choices most implementations share: separate networks for policy and value, Adam,
gradients of norm at most 0.5, advantages normalised per minibatch. With a constant source it is plain PPO: the λ
source is the only difference between arms.

With a memory (`studies.networks.memory`) the inputs of policy and values are percept and memory. Its observation model
is the same for all environments and learns after every rollout, window by window. Updates use the memory as it was when
the rollout was collected.

With `luck` M > 1 every TD error is a mean over M samples from the same state and action, as in `streaming`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from chunked_td.returns import gae
from studies.networks.agents.base import DeepAgent, RunTally, count, new_tally
from studies.networks.lambdas.base import NextDraws, Transitions
from studies.networks.memory import PerceptWindow, RecurrentMemory
from studies.networks.networks import Mlp, apply_mlp, entropy, log_probability, make_mlp
from studies.networks.tasks.base import TaskStep


@dataclass(frozen=True)
class PpoSettings:
    """Settings fixed at compile time.

    Attributes:
      hidden: units of the layers of either network. discount: γ. environments: B. steps: T, per rollout.
      epochs, minibatches: of the updates after a rollout. clip: of the probability ratio. entropy: weight of the
      policy's entropy. max_norm: of the gradient. memory: further input of both networks, or None.
      luck: M, samples per TD error.
    """

    hidden: tuple[int, ...] = (64, 64)
    discount: float = 0.99
    environments: int = 16
    steps: int = 64
    epochs: int = 4
    minibatches: int = 4
    clip: float = 0.2
    entropy: float = 0.01
    max_norm: float = 0.5
    memory: RecurrentMemory | None = None
    luck: int = 1


class PpoNetworks(NamedTuple):
    """Policy and value."""

    actor: Mlp
    critic: Mlp


class PpoState(NamedTuple):
    """A run between two rollouts; arrays of environments lead with [B]."""

    networks: PpoNetworks
    moments: Any
    source: Any
    task: Any
    inputs: jax.Array
    codes: jax.Array
    start: jax.Array
    returns: jax.Array
    clock: jax.Array
    key: jax.Array
    model: Any = ()  # of the memory
    recall: Any = ()  # a `Recall` [B, ...] with a memory
    luck: Any = ()  # as in `StreamState`


class Moment(NamedTuple):
    """One step of all environments, as collected."""

    inputs: jax.Array
    codes: jax.Array
    next_inputs: jax.Array
    next_codes: jax.Array
    action: jax.Array
    logits: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    start: jax.Array
    score: jax.Array
    returns: jax.Array
    draws: Any
    recall: Any  # in the states that steps leave, without the kept percepts
    further: Any = ()  # sum of r + γ V(x') over further draws, if any


@dataclass(frozen=True)
class PpoAgent(DeepAgent):
    """PPO on a task."""

    settings: PpoSettings

    @property
    def unit(self) -> int:
        """Transitions that cannot be parted: those of a rollout."""
        return self.settings.environments * self.settings.steps

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return optax.chain(optax.clip_by_global_norm(self.settings.max_norm), optax.scale_by_adam(eps=1e-5))

    def start(self, seed: jax.Array) -> PpoState:
        """A run before its first rollout."""
        key, settings = jax.random.key(seed), self.settings
        actor, critic, begin, lambdas = (jax.random.fold_in(key, k) for k in range(4))
        model, sizes = self.start_model(jax.random.fold_in(lambdas, 1)), self.sizes(settings.environments)
        layers = (sizes.inputs, *settings.hidden)
        networks = PpoNetworks(make_mlp(actor, (*layers, self.task.n_actions)), make_mlp(critic, (*layers, 1)))
        source = self.source.with_parameters(self.source.init(lambdas, sizes), networks.critic)
        keys = jax.random.split(begin, settings.environments)
        world, observation = jax.vmap(self.task.reset)(keys)
        inputs, recall = jax.vmap(self.begin, (None, 0))(model, observation)
        codes, zeros = self.task.space.codes(observation), jnp.zeros(settings.environments)
        begun = (jnp.ones(settings.environments, bool), zeros, jnp.zeros((), jnp.int32), key)
        moments: Any = self._optimiser.init(networks)  # type: ignore[arg-type]
        return PpoState(networks, moments, source, world, inputs, codes, *begun, model, recall, self.start_luck())

    def block(self, learning_rate: Any, now: PpoState, steps: int) -> tuple[PpoState, RunTally]:
        """Whole rollouts within `steps` transitions, at least one, and their tally."""

        def one(_: Any, carry: tuple[PpoState, RunTally]) -> tuple[PpoState, RunTally]:
            state, r = self.collect(carry[0])
            state, lambdas, _ = self.update(learning_rate, state, r)
            ended = r.terminated | r.truncated
            return state, count(carry[1], ended, r.score, r.returns, lambdas)

        return jax.lax.fori_loop(0, max(1, steps // self.unit), one, (now, new_tally()))

    def collect(self, now: PpoState) -> tuple[PpoState, Moment]:
        """One rollout: arrays [T, B, ...]."""
        copies = self.settings.environments

        def step(carry: PpoState, number: jax.Array) -> tuple[PpoState, Moment]:
            key = jax.random.fold_in(jax.random.fold_in(carry.key, 4 + 2 * carry.clock), number)
            act, move, begin, draw = jax.random.split(key, 4)
            outputs = apply_mlp(carry.networks.actor, carry.inputs)[0]
            action = jax.random.categorical(act, outputs)
            done = jax.vmap(self.task.step)(jax.random.split(move, copies), carry.task, action)
            fresh = jax.vmap(self.task.reset)(jax.random.split(begin, copies))
            draws = self._draws(carry, outputs, draw) if self.source.needs_draws else None
            further = self._further(carry, action, jax.random.fold_in(draw, 2))
            return self._record(carry, outputs, action, done, fresh, draws, further)

        return jax.lax.scan(step, now, jnp.arange(self.settings.steps))

    def _record(
        self, now: PpoState, outputs: jax.Array, action: jax.Array, done: TaskStep, fresh: Any, draws: Any, further: Any
    ) -> tuple[PpoState, Moment]:
        """One step of all environments; `fresh` states and observations begin an episode if the last one ended."""
        ended, space = done.terminated | done.truncated, self.task.space
        inputs, recall = jax.vmap(self.arrive, (None, 0, 0, 0))(now.model, now.recall, action, done.observation)
        first, first_recall = jax.vmap(self.begin, (None, 0))(now.model, fresh[1])
        codes, returns = space.codes(done.observation), now.returns + done.reward
        kept = now.recall._replace(kept=()) if now.recall else ()
        ends = (done.reward, done.terminated, done.truncated, now.start, done.score, returns)
        moment = Moment(now.inputs, now.codes, inputs, codes, action, outputs, *ends, draws, kept, further)

        def pick(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(ended.reshape(-1, *(1,) * (old.ndim - 1)), new, old)

        new = dict(task=fresh[0], inputs=first, codes=space.codes(fresh[1]), recall=first_recall)
        place = jax.tree.map(pick, new, dict(task=done.state, inputs=inputs, codes=codes, recall=recall))
        return now._replace(start=ended, returns=jnp.where(ended, 0.0, returns), **place), moment

    def update(self, learning_rate: Any, now: PpoState, r: Moment) -> tuple[PpoState, jax.Array, jax.Array]:
        """λ from the source, advantages, and the epochs of clipped updates. Also returns λ and TD errors, [T, B]."""
        settings = self.settings
        outputs, features = apply_mlp(now.networks.critic, r.inputs)
        next_outputs, next_features = apply_mlp(now.networks.critic, r.next_inputs)
        values = outputs[..., 0]
        next_values = jnp.where(r.terminated, 0.0, next_outputs[..., 0])
        came = r.reward + settings.discount * next_values
        target = (came + r.further) / now.luck if settings.luck > 1 else came
        errors = target - values
        transitions = Transitions(
            inputs=r.inputs,
            next_inputs=r.next_inputs,
            features=features,
            next_features=next_features,
            codes=r.codes,
            next_codes=r.next_codes,
            action=r.action,
            policy=jax.nn.softmax(r.logits),
            reward=r.reward,
            next_value=next_values,
            value=values,
            td_error=errors,
            start=r.start,
            terminated=r.terminated,
            discount=jnp.asarray(settings.discount, jnp.float32),
            draws=r.draws,
        )
        if settings.memory is not None:
            said = settings.memory.model.forms(now.model, r.recall.hidden, transitions, r.recall.inputs)
            transitions = transitions._replace(recalled=said)
        state, lambdas = self.source.step(now.source, transitions)
        reward, clipped = r.reward + (target - came) if settings.luck > 1 else r.reward, jnp.clip(lambdas, 0.0, 1.0)
        advantages = gae(reward, values, next_values, r.terminated, r.truncated, settings.discount, clipped)
        logs = log_probability(r.logits, r.action)
        parts = (r.inputs, r.action, logs, advantages, advantages + values)
        networks, moments = self._trained(learning_rate, now, [x.reshape(-1, *x.shape[2:]) for x in parts])
        model = self._learned_model(now.model, r)
        now = now._replace(networks=networks, moments=moments, source=state, clock=now.clock + 1, model=model)
        return now, lambdas, errors

    def _trained(self, learning_rate: Any, now: PpoState, data: list[jax.Array]) -> tuple[PpoNetworks, Any]:
        """Networks and moments after the epochs of a rollout; `data` are the arguments of `ppo_loss`."""
        key, size = jax.random.fold_in(now.key, 5 + 2 * now.clock), len(data[1])

        def minibatch(carry: Any, places: jax.Array) -> Any:
            networks, moments = carry
            gradient = jax.grad(ppo_loss, 1)(self.settings, networks, *(x[places] for x in data))
            change, moments = self._optimiser.update(gradient, moments)
            return (jax.tree.map(lambda w, c: w - learning_rate * c, networks, change), moments), None

        def epoch(carry: Any, number: jax.Array) -> Any:
            order = jax.random.permutation(jax.random.fold_in(key, number), size)
            return jax.lax.scan(minibatch, carry, order.reshape(self.settings.minibatches, -1))

        return jax.lax.scan(epoch, (now.networks, now.moments), jnp.arange(self.settings.epochs))[0]

    def _learned_model(self, model: Any, r: Moment) -> Any:
        """The memory's percept model after the windows of a rollout; the last one may be shorter."""
        memory = self.settings.memory
        if memory is None:
            return model
        whole = PerceptWindow(r.recall.inputs, r.recall.before, r.start, r.action, r.next_codes)
        for first in range(0, self.settings.steps, memory.window):
            part = jax.tree.map(lambda x, first=first: x[first : first + memory.window], whole)
            model = memory.model.learn(model, r.recall.earlier[first], part)
        return model

    def _draws(self, now: PpoState, logits: jax.Array, key: jax.Array) -> NextDraws:
        """Further next states from the task itself, with actions of the policy, for sources that need them."""
        act, move = jax.random.split(key)
        group = self.draw_groups()
        actions = jax.random.categorical(act, logits[:, None], shape=(len(logits), group.size))[:, group]
        drawn, values = self._stepped(now, actions, move)
        return NextDraws(self.task.space.codes(drawn.observation), values, jnp.broadcast_to(group, actions.shape))

    def _further(self, now: PpoState, action: jax.Array, key: jax.Array) -> Any:
        """The sum of r + γ V(x') over further samples after the actions taken, [B]; () if there are none."""
        if self.settings.luck == 1:
            return ()
        count = self.settings.luck - 1
        drawn, values = self._stepped(now, jnp.repeat(action[:, None], count, 1), key)
        return jnp.sum(drawn.reward + self.settings.discount * values, 1, where=jnp.arange(count) < now.luck - 1)

    def _stepped(self, now: PpoState, actions: jax.Array, key: jax.Array) -> tuple[TaskStep, jax.Array]:
        """Further steps from the present states, with actions [B, K], and the values that they lead to."""
        keys = jax.random.split(key, actions.shape[:2])
        drawn = jax.vmap(jax.vmap(self.task.step, (0, None, 0)))(keys, now.task, actions)
        arrive = jax.vmap(jax.vmap(self.arrive, (None, None, 0, 0)), (None, 0, 0, 0))
        inputs, _ = arrive(now.model, now.recall, actions, drawn.observation)
        return drawn, jnp.where(drawn.terminated, 0.0, apply_mlp(now.networks.critic, inputs)[0][..., 0])


def ppo_loss(
    settings: PpoSettings,
    networks: PpoNetworks,
    inputs: jax.Array,
    action: jax.Array,
    old_log: jax.Array,
    advantage: jax.Array,
    target: jax.Array,
) -> jax.Array:
    """Clipped surrogate, half the squared error of values, and the entropy, on one minibatch."""
    outputs = apply_mlp(networks.actor, inputs)[0]
    ratio = jnp.exp(log_probability(outputs, action) - old_log)
    advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)
    clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    surrogate = jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
    miss = jnp.mean((apply_mlp(networks.critic, inputs)[0][..., 0] - target) ** 2)
    return -surrogate + 0.5 * miss - settings.entropy * jnp.mean(entropy(outputs))
