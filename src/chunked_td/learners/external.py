"""λ from a model object of the user's: what it must offer, and how λ_t is made of its answers.

The formulas are those of the table in `chunked_td.lambdas`. Sums run in the kernels' order, so that a model that gives
the true probabilities gives the numbers of the compiled oracle, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.lambdas import EXPECTED, FACTORED, FORWARD, SARSA, LambdaSource
from chunked_td.learners.recursion import arrive, conclude
from chunked_td.policies import epsilon_greedy


def check_model(model: Any, source: LambdaSource, bootstrap: int) -> None:
    """Refuse a model that cannot answer what this λ source asks."""
    asked = {FORWARD: "probabilities", FACTORED: "component_probabilities", EXPECTED: "expected_probabilities"}
    if source.code not in asked:
        raise ValueError(f"lambda_source {source!r} is read off counts; it takes no model, got {model!r}")
    question = asked[source.code]
    if source.code == EXPECTED and bootstrap == SARSA:
        question = "distribution"
    for name in ("observe", question):
        if not callable(getattr(model, name, None)):
            raise ValueError(f"model must have a method {name}() for {source!r}, got {model!r}")


def advance_with_model(agent: Any, rng: Any, state: int, legal: np.ndarray, ended: int) -> int:
    """One transition of the recursion with λ from `agent.model`; returns the next action, or −1.

    An error inside the model leaves the learner as it was.
    """
    memory, action = agent.memory, -1
    position, policy = int(rng.position[0]), memory.next_policy.copy()
    reward = float(agent._reward[0]) if agent.rewards == 1 else agent._reward.copy()
    try:
        if ended != 1:
            action = arrive(agent.rule, agent.tables, memory, rng, state, legal, agent._epsilon, ended == 0)
        agent.model.observe(agent.state, agent.action, reward, state, ended == 1)
        memory.lambda_t[:] = model_lambda(agent, reward, state, action)
    except BaseException:
        rng.position[0] = position
        memory.next_policy[:] = policy
        raise
    conclude(
        agent.rule,
        agent.tables,
        agent.trace,
        memory,
        agent.state,
        agent.action,
        agent._reward,
        state,
        action,
        ended == 1,
        agent._alpha,
    )
    return action


def model_lambda(agent: Any, reward: Any, state: int, action: int) -> Any:
    """λ_t of the transition from `agent.state` to `state`, a number or float64[d].

    Args:
      reward: what the transition paid. action: the next action, or −1 where there is none.
    """
    source, model, policy = agent.lambda_source.code, agent.model, agent.memory.policy
    if source == FACTORED:
        each = np.asarray(model.component_probabilities(agent.state, state, reward), np.float64)
        return checked_probability([_mixture(policy, _products(each, group)) for group in agent.tables.groups])
    if source == EXPECTED:
        if agent.bootstrap == SARSA:
            return checked_probability(_expected_sarsa(agent))
        return checked_probability(np.asarray(model.expected_probabilities(agent.state, policy), np.float64)[-1])
    chances = np.asarray(model.probabilities(agent.state, state, reward), np.float64)
    if agent.bootstrap != SARSA:
        return checked_probability(_mixture(policy, chances))
    return checked_probability(chances[agent.action]) * (1.0 if action < 0 else agent.memory.next_policy[action])


def checked_probability(value: Any) -> Any:
    """`value` cut to [0, 1], or an error if it lies outside by more than rounding."""
    low, high = np.min(value), np.max(value)
    if not (low >= -1e-6 and high <= 1.0 + 1e-6):
        raise ValueError(f"model gave a probability outside [0, 1]: {value!r}")
    return np.clip(value, 0.0, 1.0)


def _mixture(policy: np.ndarray, chances: Any) -> float:
    """Σ_a π(a) p_a."""
    total = 0.0
    for weight, chance in zip(policy, chances, strict=True):
        if weight > 0.0:
            total += weight * chance
    return total


def _products(each: np.ndarray, group: np.ndarray) -> list[float]:
    """Π_j over a group of state components, for every action."""
    products = []
    for row in each:
        product = 1.0
        for chance, member in zip(row, group, strict=True):
            product = product * chance if member else product
        products.append(product)
    return products


def _expected_sarsa(agent: Any) -> float:
    """Σ_{x'} P̂(x'|x,a)² Σ_{a'} π(a'|x')². States never acted in (terminal ones) have no policy factor."""
    A, tables, total = agent.actions, agent.tables, 0.0
    for target, chance in agent.model.distribution(agent.state, agent.action):
        factor = 1.0
        if target < tables.legal.shape[0] and tables.legal[target].any():
            rows = tables.values[target * A : (target + 1) * A]
            epsilon_greedy(rows, tables.legal[target], agent._epsilon, agent.memory.scratch)
            factor = sum(p * p for p in agent.memory.scratch)
        total += chance * chance * factor
    return total
