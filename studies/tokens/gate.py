"""The gate: how well do advantages with each λ agree with the truth, for one policy and a critic of several ages?

The truth of a generated token is V(s') − V(s), each the mean reward of many continuations by the policy. A token of
probability p changes V by at most 1 − p, because rewards lie in [0, 1]. So V is measured behind the least certain
tokens only, and carried over the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td.returns import length_lambda, log_probs_and_lambda, token_gae, unexplained_lambda
from chunked_td.returns.policy import PolicyLambda
from studies.tokens.learning import (
    CriticSays,
    Networks,
    Weights,
    ask_critic,
    policy_logits,
    sample,
    sample_batch,
    start_critic,
    train_critic,
    warm_start,
)
from studies.tokens.tasks import Prompts, TokenLayout, TokenTask, make_layouts, mask_of, rewards_of

FIXED = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
MATCHED_CUT = 0.05
"""Mean of 1 − λ over the tokens of a sequence, for the budget-matched form: that of λ = 0.95."""
KERNEL_WIDTH = 0.3
PERMUTATIONS = 8


class Written(NamedTuple):
    """Sequences of a policy: prompts, tokens and mask [B, T], rewards [B], logits [B, T, V]."""

    prompts: Prompts
    tokens: jax.Array
    mask: jax.Array
    rewards: jax.Array
    logits: jax.Array


def _from_policy(form: PolicyLambda) -> Callable[..., jax.Array]:
    return lambda text, _: log_probs_and_lambda(text.logits, text.tokens, form).lambda_


def _matched(text: Written, said: CriticSays) -> jax.Array:
    """Σπ² with its cuts scaled to a mean of `MATCHED_CUT` in every sequence."""
    cuts, mask = 1.0 - LAMBDAS["expected"](text, said), text.mask
    mean = jnp.sum(jnp.where(mask, cuts, 0.0), axis=1, keepdims=True) / jnp.sum(mask, axis=1, keepdims=True)
    return jnp.clip(1.0 - MATCHED_CUT / jnp.maximum(mean, 1e-6) * cuts, 0.0, 1.0)


def _mature(text: Written, said: CriticSays) -> jax.Array:
    """1 − (1 − Σπ²)(1 − I): Σπ² for mature values, 1 for initial ones."""
    return 1.0 - (1.0 - LAMBDAS["expected"](text, said)) * (1.0 - jnp.clip(said.immaturity, 0.0, 1.0))


def _unexplained(text: Written, said: CriticSays) -> jax.Array:
    return unexplained_lambda(said.values, text.rewards[:, None], text.mask)


def _kernel(text: Written, said: CriticSays) -> jax.Array:
    """Probability that two draws of the next token have about the same value, under a Gaussian kernel."""
    pi, errors = jax.nn.softmax(text.logits), advantages(text, said.values, jnp.zeros_like(said.values))
    width = KERNEL_WIDTH * jnp.sqrt(jnp.sum(errors**2) / jnp.sum(text.mask))
    gaps = said.token_values[..., :, None] - said.token_values[..., None, :]
    return jnp.einsum("bti,btj,btij->bt", pi, pi, jnp.exp(-0.5 * (gaps / width) ** 2))


def _fixed(value: float) -> Callable[..., jax.Array]:
    return lambda text, _: jnp.full(text.mask.shape, value)


LAMBDAS: dict[str, Callable[[Written, CriticSays], jax.Array]] = {
    **{f"{value:g}": _fixed(value) for value in FIXED},
    **{form: _from_policy(form) for form in get_args(PolicyLambda)},
    "vapo": lambda text, _: jnp.broadcast_to(length_lambda(text.mask), text.mask.shape),
    "expected-matched": _matched,
    "value-kernel": _kernel,
    "mature-expected": _mature,
    "explained": lambda text, said: jnp.broadcast_to(_unexplained(text, said), text.mask.shape),
    "explained-expected": lambda text, said: 1 - (1 - _unexplained(text, said)) * (1 - LAMBDAS["expected"](text, said)),
}
"""λ of the state that each generated token leaves, by every arm: float32[B, T]."""


def advantages(text: Written, values: jax.Array, lambdas: jax.Array) -> jax.Array:
    """Advantages with a λ per token, float32[B, T]; rewards come with the last token."""
    last = jnp.arange(values.shape[1]) == jnp.sum(text.mask, axis=1, keepdims=True) - 1
    rewards = jnp.where(last, text.rewards[:, None], 0.0)
    return token_gae(rewards, values, text.mask, lambdas, 1.0).advantages


def correlation(x: jax.Array, y: jax.Array, mask: jax.Array) -> jax.Array:
    """Pearson's correlation over the tokens of all sequences."""
    total = jnp.sum(mask)
    x, y = (jnp.where(mask, z - jnp.sum(jnp.where(mask, z, 0.0)) / total, 0.0) for z in (x, y))
    return jnp.sum(x * y) / jnp.sqrt(jnp.maximum(jnp.sum(x * x) * jnp.sum(y * y), 1e-12))


def permuted(lambdas: jax.Array, mask: jax.Array, key: jax.Array) -> jax.Array:
    """The same λs in another order within each sequence."""
    order = jnp.argsort(jnp.where(mask, jax.random.uniform(key, mask.shape), 2.0), axis=1)
    return jnp.take_along_axis(lambdas, order, axis=1)


def sample_with_truth(
    networks: Networks, task: TokenTask, layout: TokenLayout, policy: Weights, key: jax.Array, batch: int, rollouts: int
) -> tuple[Written, jax.Array]:
    """Sequences of the policy, and the true advantage of every token, float32[B, T]."""
    shape = networks.policy(task)
    first, key = jax.random.split(key)
    prompts, tokens, rewards = sample_batch(task, shape, policy, layout, first, batch)
    mask = mask_of(layout, prompts)
    logits = policy_logits(shape, policy, prompts, tokens)
    chance = jnp.take_along_axis(jax.nn.softmax(logits), tokens[..., None], axis=-1)[..., 0]
    # Places behind which V is measured: the least certain tokens, as many as the layout has decisions and free tokens,
    # with some to spare.
    room = min(tokens.shape[1], 16 + task.free)
    uncertain = jnp.argsort(jnp.where(mask, chance, 2.0), axis=1)[:, :room]
    starts = jnp.concatenate([jnp.zeros((batch, 1), jnp.int32), uncertain + 1], axis=1)

    repeat = functools.partial(jnp.repeat, repeats=rollouts, axis=0)
    again = Prompts(*map(repeat, prompts))

    def value(number: jax.Array, start: jax.Array) -> Any:
        """Mean reward of continuations from one place of every sequence."""
        draws = sample(shape, policy, again, jax.random.fold_in(key, number), repeat(tokens), repeat(start))
        found = rewards_of(task, layout, again, draws)
        return number + 1, found.reshape(batch, rollouts).mean(axis=1)

    _, values = jax.lax.scan(value, jnp.zeros((), jnp.int32), starts.T)
    behind = jnp.full((batch, tokens.shape[1] + 1), jnp.nan).at[jnp.arange(batch)[:, None], starts].set(values.T)
    behind = behind.at[jnp.arange(batch), jnp.sum(mask, axis=1)].set(rewards)

    def carry_over(latest: jax.Array, here: jax.Array) -> Any:
        latest = jnp.where(jnp.isnan(here), latest, here)
        return latest, latest

    _, filled = jax.lax.scan(carry_over, behind[:, 0], behind.T)
    truth = jnp.where(mask, jnp.diff(filled.T, axis=1), 0.0)
    return Written(prompts, tokens, mask, rewards, logits), truth


def judge(networks: Networks, task: TokenTask, critic: Weights, sampled: Any, key: jax.Array) -> Any:
    """Of every arm of `LAMBDAS`: correlation with the truth, the same with its λs permuted, mean λ."""
    text, truth = sampled
    said = ask_critic(networks.critic(task), critic, text.prompts, text.tokens)

    def score(lambdas: jax.Array) -> jax.Array:
        return correlation(advantages(text, said.values, lambdas), truth, text.mask)

    def control(lambdas: jax.Array, key: jax.Array) -> jax.Array:
        return score(permuted(lambdas, text.mask, key))

    stacked = jnp.stack([lambda_(text, said) for lambda_ in LAMBDAS.values()])
    controls = jax.vmap(jax.vmap(control, (None, 0)), (0, None))(stacked, jax.random.split(key, PERMUTATIONS))
    means = jnp.sum(jnp.where(text.mask, stacked, 0.0), axis=(1, 2)) / jnp.sum(text.mask)
    return jax.vmap(score)(stacked), jnp.mean(controls, axis=1), means


class Settings(NamedTuple):
    """A size of the gate.

    Attributes:
      warm: updates of the warm start. ages: updates of the critic at which it is judged, multiples of the first.
      batch: sequences that are judged. rollouts: continuations per value of the truth.
    """

    networks: Networks
    warm: int
    ages: tuple[int, ...]
    batch: int
    rollouts: int


SIZES = {
    "smoke": Settings(Networks(layers=1, width=16, heads=2, batch=4), 3, (1, 2), 2, 2),
    "paper": Settings(Networks(), 800, (10, 40, 160), 16, 256),
}


def run_gate(settings: Settings, task: TokenTask, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """All arms for several seeds side by side.

    Returns:
      "score" (the correlation), "permuted" (the same with λs permuted within sequences) and "mean_lambda", each
      float[seeds, ages, arms], arms in the order of `LAMBDAS`.
    """
    networks = settings.networks
    layouts = make_layouts(task, seeds)
    keys = jax.vmap(lambda seed: jax.random.split(jax.random.key(seed), 4))(jnp.asarray(seeds))

    def over_seeds(function: Any) -> Any:
        return jax.jit(jax.vmap(function))

    size = (settings.batch, settings.rollouts)
    policies = over_seeds(lambda at, key: warm_start(networks, task, at, key, settings.warm))(layouts, keys[:, 0])
    sampled = over_seeds(lambda at, policy, key: sample_with_truth(networks, task, at, policy, key, *size))(
        layouts, policies, keys[:, 1]
    )
    critics = over_seeds(lambda policy: start_critic(networks, task, policy))(policies)
    train = over_seeds(lambda *parts: train_critic(networks, task, *parts, updates=settings.ages[0]))
    judge_all = over_seeds(lambda *parts: judge(networks, task, *parts))
    judged = []
    for updates in range(settings.ages[0], settings.ages[-1] + 1, settings.ages[0]):
        fresh = jax.vmap(jax.random.fold_in, (0, None))(keys[:, 2], updates)
        critics = train(layouts, policies, critics, fresh)
        if updates in settings.ages:
            judged.append(judge_all(critics[0], sampled, keys[:, 3]))
    names = ("score", "permuted", "mean_lambda")
    return {name: np.stack(found, axis=1) for name, found in zip(names, zip(*judged, strict=True), strict=True)}
