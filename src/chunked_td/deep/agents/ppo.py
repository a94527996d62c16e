"""PPO with a λ per step: rollouts of several environments, advantages with λ [T, B] from a source, clipped updates.

Schulman et al. (2017), with the choices most implementations share: separate networks for policy and value, Adam,
gradients of norm at most 0.5, advantages normalised per minibatch. With a constant source it is plain PPO: the λ
source is the only difference between arms.

With a memory (`chunked_td.deep.memory`) policy and values read what it remembers beside the percept. Its percept model
is the same for all environments and learns after every rollout, window by window. What was remembered while the rollout
was collected is taken as it was, in the updates too.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from chunked_td._checks import check_not_negative, check_positive, check_unit, check_whole
from chunked_td.deep.agents.streaming import draw_groups, max_samples
from chunked_td.deep.agents.tallies import RunTally, count, new_tally
from chunked_td.deep.lambdas.base import DeepLambda, NextDraws, SourceSizes, Transitions, V
from chunked_td.deep.lambdas.recurrent import PerceptWindow
from chunked_td.deep.memory import RecurrentMemory, check_memory
from chunked_td.deep.networks import Mlp, apply_mlp, make_mlp
from chunked_td.deep.policies import policy_behind, policy_of
from chunked_td.envs.jax_task import JaxTask, TaskStep
from chunked_td.returns import gae


@dataclass(frozen=True)
class PpoSettings:
    """What is fixed at compile time.

    Attributes:
      hidden: units of the layers of either network. discount: γ. environments: B. steps: T, per rollout.
      epochs, minibatches: of the updates after a rollout. clip: of the probability ratio. entropy: weight of the
      policy's entropy. max_norm: of the gradient. memory: what is read beside the percept; None is nothing.
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

    def __post_init__(self) -> None:
        for units in self.hidden:
            check_whole("hidden", units, 1)
        for name in ("environments", "steps", "epochs", "minibatches"):
            check_whole(name, getattr(self, name), 1)
        check_unit("discount", self.discount)
        for name in ("clip", "max_norm"):
            check_positive(name, getattr(self, name))
        check_not_negative("entropy", self.entropy)
        check_memory(self.memory)
        if self.environments * self.steps % self.minibatches:
            raise ValueError(
                f"minibatches must divide environments × steps = {self.environments * self.steps}, "
                f"got {self.minibatches}"
            )


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
    length: jax.Array
    clock: jax.Array
    key: jax.Array
    model: Any = ()  # of the memory
    recall: Any = ()  # a `Recall` [B, ...] where there is a memory


class _Moment(NamedTuple):
    """One step of all environments, as collected."""

    inputs: jax.Array
    codes: jax.Array
    next_inputs: jax.Array
    next_codes: jax.Array
    action: jax.Array
    logits: jax.Array  # or means and deviations of a Gaussian
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    start: jax.Array
    score: jax.Array
    returns: jax.Array
    length: jax.Array
    draws: Any
    recall: Any  # in the states that steps leave, without the kept percepts
    valid: Any = None  # bool[T, B], False where the environment only began an episode; None: all steps count


def _optimiser(settings: PpoSettings) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(settings.max_norm), optax.scale_by_adam(eps=1e-5))


def start_ppo(settings: PpoSettings, task: JaxTask, source: DeepLambda, seed: jax.Array, first: Any = None) -> PpoState:
    """A run before its first rollout; `first` is (states, observations [B]), where the task is not in JAX."""
    key = jax.random.key(seed)
    actor, critic, begin, lambdas = (jax.random.fold_in(key, k) for k in range(4))
    memory, n, model = settings.memory, task.space.n_inputs, ()
    if memory is not None:
        percepts = SourceSizes(n, 0, task.space.nvec, task.n_actions, V)
        model, n = memory.init(jax.random.fold_in(lambdas, 1), percepts), memory.n_inputs(n)
    networks = PpoNetworks(
        make_mlp(actor, (n, *settings.hidden, policy_of(task).n_outputs)), make_mlp(critic, (n, *settings.hidden, 1))
    )
    features = settings.hidden[-1] if settings.hidden else n
    sizes = SourceSizes(
        n, features, task.space.nvec, task.n_actions, V, settings.environments, memory=memory is not None
    )
    keys = jax.random.split(begin, settings.environments)
    world, observation = jax.vmap(task.reset)(keys) if first is None else first
    inputs, recall = _begin(settings, task, model, observation)
    zeros = jnp.zeros(settings.environments)
    return PpoState(
        networks,
        _optimiser(settings).init(networks),  # type: ignore[arg-type]
        source.with_parameters(source.init(lambdas, sizes), networks.critic),
        world,
        inputs,
        task.space.codes(observation),
        jnp.ones(settings.environments, bool),
        zeros,
        zeros,
        jnp.zeros((), jnp.int32),
        key,
        model,
        recall,
    )


def _begin(settings: PpoSettings, task: JaxTask, model: Any, observation: jax.Array) -> tuple[jax.Array, Any]:
    """What is read in the first states of episodes, and what is remembered: [B, ...]."""
    inputs, memory = task.space.inputs(observation), settings.memory
    if memory is None:
        return inputs, ()
    recall = jax.vmap(lambda x: memory.begin(model, x, task.n_actions))(inputs)
    return memory.read(recall), recall


def _arrive(
    settings: PpoSettings, task: JaxTask, now: PpoState, action: jax.Array, observation: jax.Array
) -> tuple[jax.Array, Any]:
    """What is read after actions [B, ...], and what is remembered."""
    inputs, memory = task.space.inputs(observation), settings.memory
    if memory is None:
        return inputs, ()
    arrive = jax.vmap(memory.arrive, (None, 0, 0, 0, 0))
    recall = arrive(now.model, now.recall, action, inputs, task.space.codes(observation))
    return memory.read(recall), recall


def collect(settings: PpoSettings, task: JaxTask, source: DeepLambda, now: PpoState) -> tuple[PpoState, _Moment]:
    """One rollout: arrays [T, B, ...]."""

    def step(carry: PpoState, number: jax.Array) -> tuple[PpoState, _Moment]:
        act, move, begin, draw = step_keys(carry, number)
        chosen = choose(task, carry, act)
        done = jax.vmap(task.step)(jax.random.split(move, settings.environments), carry.task, chosen[1])
        fresh = jax.vmap(task.reset)(jax.random.split(begin, settings.environments))
        draws = _draws(settings, task, source, carry, chosen[0], draw)
        return record(settings, task, carry, chosen, done, fresh, draws)

    return jax.lax.scan(step, now, jnp.arange(settings.steps))


def step_keys(now: PpoState, number: jax.Array) -> jax.Array:
    """Of a step of the present rollout: to act, to move, to begin episodes, and to draw next states."""
    return jax.random.split(jax.random.fold_in(jax.random.fold_in(now.key, 4 + 2 * now.clock), number), 4)


def choose(task: JaxTask, now: PpoState, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Outputs of the policy in the present states, and actions: [B, ...]."""
    outputs = apply_mlp(now.networks.actor, now.inputs)[0]
    return outputs, policy_of(task).sample(key, outputs)


def record(
    settings: PpoSettings,
    task: JaxTask,
    now: PpoState,
    chosen: tuple[jax.Array, jax.Array],
    done: TaskStep,
    fresh: tuple[Any, jax.Array],
    draws: Any = None,
    valid: Any = None,
) -> tuple[PpoState, _Moment]:
    """One step of all environments, wherever it was made.

    `fresh` are states and observations of new episodes; they are read where an episode ended.
    """
    outputs, action = chosen
    observation = fresh[1]
    ended = done.terminated | done.truncated
    inputs, recall = _arrive(settings, task, now, action, done.observation)
    first_inputs, first_recall = _begin(settings, task, now.model, observation)
    codes = task.space.codes(done.observation)
    returns, length = now.returns + done.reward, now.length + 1
    moment = _Moment(
        now.inputs,
        now.codes,
        inputs,
        codes,
        action,
        outputs,
        done.reward,
        done.terminated,
        done.truncated,
        now.start,
        done.score,
        returns,
        length,
        draws,
        now.recall._replace(kept=()) if now.recall else (),
        valid,
    )

    def pick(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(ended.reshape(-1, *(1,) * (old.ndim - 1)), new, old)

    after = now._replace(
        task=jax.tree.map(pick, fresh[0], done.state),
        inputs=pick(first_inputs, inputs),
        codes=pick(task.space.codes(observation), codes),
        start=ended,
        returns=jnp.where(ended, 0.0, returns),
        length=jnp.where(ended, 0.0, length),
        recall=jax.tree.map(pick, first_recall, recall),
    )
    return after, moment


def ppo_update(
    settings: PpoSettings, source: DeepLambda, learning_rate: jax.Array, now: PpoState, rollout: _Moment
) -> tuple[PpoState, jax.Array, jax.Array]:
    """λ from the source, advantages, and the epochs of clipped updates. Also returns λ and the TD errors, [T, B]."""
    r = rollout
    outputs, features = apply_mlp(now.networks.critic, r.inputs)
    next_outputs, next_features = apply_mlp(now.networks.critic, r.next_inputs)
    values = outputs[..., 0]
    next_values = jnp.where(r.terminated, 0.0, next_outputs[..., 0])
    errors = r.reward + settings.discount * next_values - values
    policy, valid = policy_behind(r.logits, r.action), jnp.ones_like(r.reward)
    if r.valid is not None:
        valid = r.valid.astype(jnp.float32)
        errors = errors * valid
    transitions = Transitions(
        inputs=r.inputs,
        next_inputs=r.next_inputs,
        features=features,
        next_features=next_features,
        codes=r.codes,
        next_codes=r.next_codes,
        action=policy.index(r.action),
        policy=policy.chances(r.logits),
        reward=r.reward,
        next_value=next_values,
        value=values,
        td_error=errors,
        start=r.start,
        terminated=r.terminated,
        valid=valid,
        discount=jnp.asarray(settings.discount, jnp.float32),
        draws=r.draws,
    )
    if settings.memory is not None:
        said = settings.memory.model.forms(now.model, r.recall.hidden, transitions, r.recall.inputs)
        transitions = transitions._replace(recalled=said)
    state, lambdas = source.step(now.source, transitions)
    advantages = gae(
        r.reward, values, next_values, r.terminated, r.truncated, settings.discount, jnp.clip(lambdas, 0.0, 1.0)
    )
    logs = policy.log_probability(r.logits, r.action)
    parts = (r.inputs, r.action, logs, advantages, advantages + values, *([] if r.valid is None else [valid]))
    flat = [x.reshape(-1, *x.shape[2:]) for x in parts]
    key = jax.random.fold_in(now.key, 5 + 2 * now.clock)
    size = len(flat[1])

    def epoch(carry: Any, number: jax.Array) -> Any:
        order = jax.random.permutation(jax.random.fold_in(key, number), size).reshape(settings.minibatches, -1)

        def minibatch(carry: Any, places: jax.Array) -> Any:
            networks, moments = carry
            gradient = jax.grad(functools.partial(ppo_loss, settings))(networks, *(x[places] for x in flat))
            change, moments = _optimiser(settings).update(gradient, moments)
            return (jax.tree.map(lambda w, c: w - learning_rate * c, networks, change), moments), None

        return jax.lax.scan(minibatch, carry, order)

    (networks, moments), _ = jax.lax.scan(epoch, (now.networks, now.moments), jnp.arange(settings.epochs))
    model = _learned_model(settings, now.model, rollout)
    now = now._replace(networks=networks, moments=moments, source=state, clock=now.clock + 1, model=model)
    return now, lambdas, errors


def _learned_model(settings: PpoSettings, model: Any, rollout: _Moment) -> Any:
    """The memory's percept model after the windows of a rollout; the last one may be shorter."""
    memory, r = settings.memory, rollout
    if memory is None:
        return model
    whole = PerceptWindow(r.recall.inputs, r.recall.before, r.start, r.action, r.next_codes, jnp.ones_like(r.reward))
    for first in range(0, settings.steps, memory.window):
        part = jax.tree.map(lambda x, first=first: x[first : first + memory.window], whole)
        model = memory.learn(model, r.recall.earlier[first], part)
    return model


def ppo_loss(
    settings: PpoSettings,
    networks: PpoNetworks,
    inputs: jax.Array,
    action: jax.Array,
    old_log: jax.Array,
    advantage: jax.Array,
    target: jax.Array,
    valid: jax.Array | None = None,
) -> jax.Array:
    """Clipped surrogate, half the squared error of values, and the entropy, on one minibatch.

    Means are over the transitions that are valid (1, not 0); None: all are.
    """

    def mean(x: jax.Array) -> jax.Array:
        return jnp.mean(x) if valid is None else jnp.sum(valid * x) / jnp.maximum(jnp.sum(valid), 1.0)

    outputs = apply_mlp(networks.actor, inputs)[0]
    policy = policy_behind(outputs, action)
    ratio = jnp.exp(policy.log_probability(outputs, action) - old_log)
    deviation = jnp.std(advantage) if valid is None else jnp.sqrt(mean((advantage - mean(advantage)) ** 2))
    advantage = (advantage - mean(advantage)) / (deviation + 1e-8)
    clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    surrogate = mean(jnp.minimum(ratio * advantage, clipped * advantage))
    miss = mean((apply_mlp(networks.critic, inputs)[0][..., 0] - target) ** 2)
    return -surrogate + 0.5 * miss - settings.entropy * mean(policy.entropy(outputs))


def ppo_block(
    settings: PpoSettings, task: JaxTask, source: DeepLambda, learning_rate: jax.Array, now: PpoState, steps: int
) -> tuple[PpoState, RunTally]:
    """As many whole rollouts as `steps` transitions hold, at least one, and what was counted on the way."""

    def one(_: Any, carry: tuple[PpoState, RunTally]) -> tuple[PpoState, RunTally]:
        state, tally = carry
        state, rollout = collect(settings, task, source, state)
        state, lambdas, errors = ppo_update(settings, source, learning_rate, state, rollout)
        ended = rollout.terminated | rollout.truncated
        return state, count(tally, ended, rollout.score, rollout.returns, rollout.length, lambdas, errors)

    rollouts = max(1, steps // (settings.environments * settings.steps))
    return jax.lax.fori_loop(0, rollouts, one, (now, new_tally()))


def _draws(
    settings: PpoSettings, task: JaxTask, source: DeepLambda, now: PpoState, logits: jax.Array, key: jax.Array
) -> NextDraws | None:
    """Further next states from the task itself, with actions of the policy, for sources that need them."""
    if not source.needs_draws:
        return None
    samples, batch = max_samples(source), len(logits)
    act, move = jax.random.split(key)
    group = draw_groups(V, samples)
    actions = jax.random.categorical(act, logits[:, None], shape=(batch, samples))[:, group]
    keys = jax.random.split(move, (batch, samples))
    drawn = jax.vmap(jax.vmap(task.step, (0, None, 0)))(keys, now.task, actions)
    one = functools.partial(_arrive, settings, task, now)
    inputs = jax.vmap(lambda a, x: one(a, x)[0], 1, 1)(actions, drawn.observation)
    values = apply_mlp(now.networks.critic, inputs)[0][..., 0]
    values = jnp.where(drawn.terminated, 0.0, values)
    return NextDraws(task.space.codes(drawn.observation), values, jnp.broadcast_to(group, actions.shape))
