"""Key-to-Door with Q networks, whole runs as one JAX program: many seeds and step sizes side by side.

In a round 32 episodes are played ε-greedily on the sum of the heads. Targets are the Expected-SARSA λ-returns of whole
episodes, head by head; then the network takes eight Adam steps, each on an eighth of the round. What comes next is
learned by a second network of the same size, in the same way, where λ needs it.

What is known of the problem makes it fast: between the first and the last step nothing that is done matters for what
comes, so all states of an episode are known once its first action is.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

HORIZON, COINS, ROUND, STEPS, WIDTH = 100, 4, 32, 8, 128
KEY, DOOR, TREASURE, TIME = 0, 1, 2 + COINS, 3 + COINS
BOOLEANS = 3 + COINS
"""Components of the state but the time: key, door, coins, treasure."""
PARTS = np.array([*range(2, 2 + COINS), TREASURE])
"""The components that pay: a reward and a head each."""
MODEL_RATE, RIDGE = 1e-3, 1.0
GIVEN, LEARNED, ONE = "given", "learned", "one"
FIXED, EACH, WRONG, WHOLE = "fixed", "each", "wrong", "whole"


@dataclass(frozen=True)
class Arm:
    """Settings of a method.

    Args:
      heads: "one"; "given": one per part of the reward, which is given; "learned": the same, from the scalar reward, by
        ridge regression of the reward on its components, with all transitions so far.
      source: of λ. "fixed": a number. "each": the expected probability of the next value of a head's own component.
        "wrong": that of another component, the next in a circle. "whole": the probability of the whole next state, the
        paper's.
    """

    heads: str
    source: str = FIXED

    @property
    def outputs(self) -> int:
        """Number of heads."""
        return 1 if self.heads == ONE else len(PARTS)


def network(key: Any, sizes: tuple[int, ...]) -> Any:
    """Weights and biases, uniform on ±1/√inputs, as PyTorch's."""
    keys = jax.random.split(key, (len(sizes) - 1, 2))
    layers = []
    for pair, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True):
        both = zip(pair, ((a, b), (b,)), strict=True)
        layers.append(tuple(jax.random.uniform(k, shape, minval=-1) / np.sqrt(a) for k, shape in both))
    return layers


def apply(params: Any, x: Any) -> Any:
    """A multilayer perceptron."""
    for weight, bias in params[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    return x @ params[-1][0] + params[-1][1]


def values(params: Any, states: Any, heads: int) -> Any:
    """Q float32[..., actions, heads] of states float32[..., components], the time divided by its maximum."""
    return apply(params, states).reshape(*states.shape[:-1], 2, heads)


def chances(params: Any, states: Any) -> Any:
    """P̂(component is 1 next | state, action) float32[..., actions, BOOLEANS]."""
    each = [jnp.broadcast_to(jax.nn.one_hot(a, 2), (*states.shape[:-1], 2)) for a in range(2)]
    both = jnp.stack([jnp.concatenate([states, action], -1) for action in each], -2)
    return jax.nn.sigmoid(apply(params, both))


def policy(q: Any, epsilon: Any) -> Any:
    """ε-greedy on the sum of the heads, float32[..., actions]; ties are shared. Args: q: [..., actions, heads]."""
    total = q.sum(-1)
    best = (total >= total.max(-1, keepdims=True)).astype(jnp.float32)
    return epsilon / 2 + (1 - epsilon) * best / best.sum(-1, keepdims=True)


def play(params: Any, heads: int, epsilon: Any, key: Any) -> Any:
    """A round: states [N, T + 1, c], actions [N, T], and of the states at 0..T−1 Q and π."""
    coins, first, rest = jax.random.split(key, 3)
    t = jnp.arange(HORIZON + 1)
    tossed = jax.random.bernoulli(coins, 0.5, (ROUND, HORIZON + 1, COINS)) & ((t > 0) & (t < HORIZON - 1))[:, None]
    states = jnp.zeros((ROUND, HORIZON + 1, BOOLEANS + 1)).at[:, :, 2 : 2 + COINS].set(tossed)
    states = states.at[:, :, TIME].set(t / HORIZON).at[:, HORIZON - 1, DOOR].set(1.0)
    start = policy(values(params, states[:, 0], heads), epsilon)
    picked = jax.random.uniform(first, (ROUND,)) < start[:, 0]  # action 0 picks the key up
    states = states.at[:, 1:, KEY].set(picked[:, None])
    q = values(params, states[:, :-1], heads)
    pi = policy(q, epsilon)
    actions = (jax.random.uniform(rest, (ROUND, HORIZON)) >= pi[..., 0]).astype(jnp.int32)
    actions = actions.at[:, 0].set(1 - picked)
    opened = picked & (actions[:, -1] == 1)
    return states.at[:, -1, TREASURE].set(opened), actions, q, pi


def lambda_returns(reward: Any, value: Any, lambdas: Any) -> Any:
    """G float32[N, T, heads]: Gₜ = rₜ₊₁ + (1 − λₜ₊₁) V(xₜ₊₁) + λₜ₊₁ Gₜ₊₁, and the reward at the end.

    Args:
      reward: rₜ₊₁, value: V(xₜ), lambdas: of the transition that leaves xₜ; all [N, T, heads], for t in 0..T−1.
    """

    def back(following: Any, xs: Any) -> Any:
        r, v, lam = xs
        g = r + following
        return (1 - lam) * v + lam * g, g  # what the step before it adds to its reward

    turned = [jnp.moveaxis(each, 1, 0) for each in (reward, value, lambdas)]
    _, found = jax.lax.scan(back, jnp.zeros_like(turned[0][0]), turned, reverse=True)
    return jnp.moveaxis(found, 0, 1)


def lambdas_of(arm: Arm, fixed: Any, model: Any, states: Any, pi: Any) -> Any:
    """λ of the transition that leaves each state, float32[N, T, heads]."""
    shape = (*pi.shape[:-1], arm.outputs)
    if arm.source == FIXED:
        return jnp.full(shape, fixed)
    p = chances(model, states[:, :-1])  # [N, T, actions, BOOLEANS]
    if arm.source == WHOLE:
        came = states[:, 1:, None, :BOOLEANS]
        each = jnp.prod(jnp.where(came > 0.5, p, 1 - p), -1)
        return jnp.broadcast_to((pi * each).sum(-1)[..., None], shape)
    mean = jnp.einsum("nta,ntac->ntc", pi, p)
    found = (mean**2 + (1 - mean) ** 2)[..., PARTS]
    return jnp.roll(found, 1, axis=-1) if arm.source == WRONG else found


def learn(loss: Any, rate: Any, params: Any, moments: Any, data: Any, key: Any) -> Any:
    """Eight Adam steps, each on a random eighth of the transitions. Args: data: arrays that lead with rows."""
    adam = optax.scale_by_adam()
    rows = jax.random.permutation(key, ROUND * HORIZON).reshape(STEPS, -1)

    def step(carry: Any, batch: Any) -> Any:
        params, moments = carry
        gradient = jax.grad(loss)(params, *(each[batch] for each in data))
        change, moments = adam.update(gradient, moments)
        return (jax.tree.map(lambda p, c: p - rate * c, params, change), moments), None

    return jax.lax.scan(step, (params, moments), rows)[0]


def one_run(arm: Arm, rounds: int, coin: Any, fixed: Any, rate: Any, seed: Any) -> Any:
    """Share of episodes with treasure in every round, float32[rounds]. Rewards are in units of the treasure's."""
    keys = jax.random.split(jax.random.key(seed), 3)
    pays = jnp.array([coin] * COINS + [1.0])
    params = network(keys[0], (BOOLEANS + 1, WIDTH, WIDTH, 2 * arm.outputs))
    model = network(keys[1], (BOOLEANS + 3, WIDTH, WIDTH, BOOLEANS))
    start = optax.scale_by_adam().init
    squares = RIDGE * jnp.eye(len(PARTS)), jnp.zeros(len(PARTS))

    def q_loss(params: Any, states: Any, actions: Any, targets: Any) -> Any:
        q = values(params, states, arm.outputs)
        return jnp.mean(jnp.sum((q[jnp.arange(len(q)), actions] - targets) ** 2, -1))

    def model_loss(model: Any, states: Any, actions: Any, after: Any) -> Any:
        logits = apply(model, jnp.concatenate([states, jax.nn.one_hot(actions, 2)], -1))
        return jnp.mean(optax.sigmoid_binary_cross_entropy(logits, after))

    def step(carry: Any, xs: Any) -> Any:
        params, moments, model, its, squares = carry
        k, key = xs
        played, shuffled, mixed = jax.random.split(key, 3)
        # ε falls from 1 to 0.1 over the first tenth of the rounds.
        epsilon = jnp.maximum(1.0 - 0.9 * k / (rounds / 10), 0.1)
        states, actions, q, pi = play(params, arm.outputs, epsilon, played)
        parts = states[:, 1:, PARTS]
        if arm.heads == ONE:
            reward = (parts * pays).sum(-1, keepdims=True)
        elif arm.heads == GIVEN:
            reward = parts * pays
        else:
            x = parts.reshape(-1, len(PARTS))
            squares = squares[0] + x.T @ x, squares[1] + x.T @ (x @ pays)
            reward = parts * jnp.linalg.solve(*squares)
            left = (parts * pays).sum(-1) - reward.sum(-1)  # what the fit leaves is shared
            reward = reward + left[..., None] / len(PARTS)
        flat = [each.reshape(ROUND * HORIZON, *each.shape[2:]) for each in (states[:, :-1], actions)]
        if arm.source != FIXED:
            after = states[:, 1:, :BOOLEANS].reshape(ROUND * HORIZON, -1)
            model, its = learn(model_loss, MODEL_RATE, model, its, (*flat, after), mixed)
        lambdas = lambdas_of(arm, fixed, model, states, pi)
        targets = lambda_returns(reward, (pi[..., None] * q).sum(-2), lambdas)
        targets = targets.reshape(ROUND * HORIZON, -1)
        params, moments = learn(q_loss, rate, params, moments, (*flat, targets), shuffled)
        seen = states[:, -1, TREASURE].mean(), lambdas[..., -1].mean(), lambdas[..., 0].mean()
        return (params, moments, model, its, squares), seen

    xs = jnp.arange(rounds), jax.random.split(keys[2], rounds)
    return jax.lax.scan(step, (params, start(params), model, start(model), squares), xs)[1]


@functools.partial(jax.jit, static_argnums=(0, 1))
def run_many(arm: Arm, rounds: int, coin: Any, fixed: Any, rates: Any, seeds: Any) -> Any:
    """Many runs as one program: treasure, mean λ of the treasure's head and of the first; float32[runs, rounds] each.

    Args:
      coin: reward of a coin. fixed: λ of a source "fixed". rates, seeds: one of each per run.
    """
    return jax.vmap(lambda rate, seed: one_run(arm, rounds, coin, fixed, rate, seed))(rates, seeds)
