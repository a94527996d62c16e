"""Policies that learn: policy gradient with advantages by each λ, from the same warm start, critic and random numbers.

An update writes a batch of sequences and takes one step of Adam along A log π, with whitened advantages. The critic is

    learned   by one step per update towards the rewards (λ = 1 for every arm), after some on the first policy's text;
    informed  by the task: it knows which decisions were right so far, and how often the policy is right in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from chunked_td.returns import log_probs_and_lambda, masked_whiten
from studies.tokens.arms import CONTROLLED
from studies.tokens.gate import LAMBDAS, Written, advantages, permuted
from studies.tokens.learning import (
    CriticSays,
    Networks,
    Weights,
    ask_critic,
    critic_step,
    policy_logits,
    sample_batch,
    start_critic,
    train_critic,
    warm_start,
)
from studies.tokens.tasks import (
    DECISION,
    DECISIONS,
    TASKS,
    VOCABULARY,
    TokenLayout,
    TokenTask,
    make_layouts,
    mask_of,
    right_answers,
)

ARMS = (*LAMBDAS, *(f"{name}-permuted" for name in CONTROLLED))

SIDE_BY_SIDE = 4
"""Runs that one core's cache has room for."""


class TrainingSettings(NamedTuple):
    """A size of training.

    Attributes:
      warm: updates of the warm start, per length of the task. critic: of the critic before the policy's.
    """

    networks: Networks
    warm: int
    critic: int


SIZES = {
    "smoke": TrainingSettings(Networks(layers=1, width=16, heads=2, batch=4), 3, 2),
    "paper": TrainingSettings(Networks(2, 32, heads=2, batch=16, warm_rate=3e-3, critic_rate=1e-3), 2_000, 100),
}


def train_policies(
    size: str, task: str, informed: bool, arm: str, seeds: Sequence[int], step_sizes: Sequence[float], updates: int
) -> np.ndarray:
    """Mean reward of the text of every update, float32[R, updates], of runs side by side.

    Args:
      size: of `SIZES`. informed: whether the critic knows the task. arm: of `ARMS`. seeds, step_sizes: of each run.
    """
    different = tuple(sorted(set(seeds)))
    begun = _begin(size, task, different)
    rows = jnp.asarray([different.index(seed) for seed in seeds])
    layouts, policies, critics = jax.tree.map(lambda each: each[rows], begun)
    keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 1))(jnp.asarray(seeds))
    program = _program(size, task, informed, updates)
    return np.asarray(program(ARMS.index(arm), layouts, policies, critics, keys, jnp.asarray(step_sizes, jnp.float32)))


@lru_cache(maxsize=1)  # all arms of a task begin alike
def _begin(size: str, task: str, seeds: tuple[int, ...]) -> tuple[TokenLayout, Weights, Any]:
    settings, of_task = SIZES[size], TASKS[task]
    networks, layouts = settings.networks, make_layouts(of_task, seeds)

    def begin(layout: TokenLayout, seed: jax.Array) -> Any:
        keys = jax.random.split(jax.random.key(seed))
        policy = warm_start(networks, of_task, layout, keys[0], settings.warm * len(of_task.lengths))
        critic = start_critic(networks, of_task, policy)
        return policy, train_critic(networks, of_task, layout, policy, critic, keys[1], settings.critic)

    return layouts, *jax.jit(jax.vmap(begin))(layouts, jnp.asarray(seeds))


@lru_cache(maxsize=1)  # compiled once for all arms
def _program(size: str, task: str, informed: bool, updates: int) -> Callable[..., jax.Array]:
    networks, of_task = SIZES[size].networks, TASKS[task]
    shape = networks.policy(of_task)

    def lambdas(arm: str) -> Callable[..., jax.Array]:
        name = arm.removesuffix("-permuted")
        if name == arm:
            return lambda text, said, _: LAMBDAS[name](text, said)
        return lambda text, said, key: permuted(LAMBDAS[name](text, said), text.mask, key)

    def run(
        arm: jax.Array, layout: TokenLayout, policy: Weights, critic: Any, key: jax.Array, step_size: jax.Array
    ) -> jax.Array:
        optimiser = optax.adam(step_size)

        def objective(policy: Weights, drawn: Any, critic: Weights, key: jax.Array) -> jax.Array:
            prompts, tokens, rewards = drawn
            logits = policy_logits(shape, policy, prompts, tokens)
            text = Written(prompts, tokens, mask_of(layout, prompts), rewards, jax.lax.stop_gradient(logits))
            if informed:
                said = informed_critic(of_task, layout, text)
            else:
                said = ask_critic(networks.critic(of_task), critic, prompts, tokens)
            chosen = jax.lax.switch(arm, [lambdas(arm) for arm in ARMS], text, said, key)
            whitened = masked_whiten(advantages(text, said.values, chosen), text.mask)
            gains = whitened * log_probs_and_lambda(logits, tokens).log_probs
            return -jnp.sum(jnp.where(text.mask, gains, 0.0)) / jnp.sum(text.mask)

        def update(carry: Any, number: jax.Array) -> Any:
            policy, state, critic = carry
            keys = jax.random.split(jax.random.fold_in(key, number))
            drawn = sample_batch(of_task, shape, policy, layout, keys[0], networks.batch)
            change, state = optimiser.update(jax.grad(objective)(policy, drawn, critic[0], keys[1]), state)
            critic = critic if informed else critic_step(networks, of_task, layout, critic, drawn)
            return (optax.apply_updates(policy, change), state, critic), jnp.mean(drawn[2])

        return jax.lax.scan(update, (policy, optimiser.init(policy), critic), jnp.arange(updates))[1]

    return jax.jit(lambda arm, *runs: jax.lax.map(lambda each: run(arm, *each), runs, batch_size=SIDE_BY_SIDE))


def informed_critic(task: TokenTask, layout: TokenLayout, text: Written) -> CriticSays:
    """Values of states from the number of right decisions so far and the policy's mean skill in each of the others."""
    decides = layout.kinds[text.prompts.codes] == DECISION
    answers, numbers = right_answers(layout, text.prompts), layout.numbers[text.prompts.codes]
    chance = jnp.take_along_axis(jax.nn.softmax(text.logits), answers[..., None], axis=-1)[..., 0]
    skill = jnp.zeros(DECISIONS).at[numbers].add(jnp.where(decides, chance, 0.0)) / text.mask.shape[0]
    made = jnp.cumsum(decides, axis=1) - decides
    right = decides & (text.tokens == answers)
    so_far = jnp.cumsum(right, axis=1) - right

    def value(made: jax.Array, right: jax.Array) -> jax.Array:
        to_come = jnp.arange(DECISIONS) >= made[..., None]
        if task.parity:
            return 0.5 + 0.5 * (1.0 - 2.0 * (right % 2)) * jnp.prod(jnp.where(to_come, 1.0 - 2.0 * skill, 1.0), -1)
        return (right + jnp.sum(jnp.where(to_come, skill, 0.0), -1)) / DECISIONS

    token_is_right = decides[..., None] & (jnp.arange(VOCABULARY) == answers[..., None])
    after = (value(made + decides, so_far + each)[..., None] for each in (1, 0))
    of_tokens = jnp.where(token_is_right, *after)
    return CriticSays(value(made, so_far), jnp.zeros(made.shape), of_tokens)
