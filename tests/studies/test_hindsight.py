"""Hindsight credit assignment and COCOA for tables, against exact gradients and plain definitions."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from chunked_td.envs.dynamics import linear_key_to_door
from helpers.episodes import all_episodes
from studies.linear_key_to_door.gradients import add_contributions, add_reinforce, count_hindsight, policy_gradient

TABLE = linear_key_to_door(5, apples=1.0, seed=2)
S, A, GAMMA = TABLE.n_states, 4, 0.9
PI = np.random.default_rng(0).dirichlet(np.ones(A), size=S)


def columns(story):
    states, actions, rewards = (np.array([getattr(m, name) for m in story]) for name in "sar")
    return states, actions, rewards, PI[states]


EPISODES = [(p, columns(story)) for p, story in all_episodes(TABLE, PI)]


def exact_gradient():
    """E[Σ_t (1_a − π(a|S_t)) G_t], the score-function form of the policy gradient, over all episodes."""
    change = np.zeros((S, A))
    for p, (states, actions, rewards, policies) in EPISODES:
        for t, (s, a) in enumerate(zip(states, actions, strict=True)):
            g = sum(GAMMA ** (k - t) * rewards[k] for k in range(t, len(rewards)))
            change[s] += p * (np.eye(A)[a] - policies[t]) * g
    return change


@pytest.mark.uncompiled
@pytest.mark.parametrize("form", ["state", "reward"])
def test_contributions_are_the_policy_gradient_on_average(form):
    """With h and r̂ of all episodes, weighted by their probability."""
    episodes = EPISODES
    values = sorted({float(r) for _, (_, _, rewards, _) in episodes for r in rewards})
    objects = [
        states if form == "state" else np.array([values.index(r) for r in rewards])
        for _, (states, _, rewards, _) in episodes
    ]
    width = S if form == "state" else len(values)
    pairs, after = defaultdict(float), defaultdict(float)
    paid, visits = np.zeros((S, A)), np.zeros((S, A))
    for (p, (states, actions, rewards, _)), u in zip(episodes, objects, strict=True):
        for t, (s, a) in enumerate(zip(states, actions, strict=True)):
            paid[s, a] += p * rewards[t]
            visits[s, a] += p
            for k in range(t + 1, len(states)):
                pairs[s, u[k], a] += p * GAMMA ** (k - t)
                after[s, u[k]] += p * GAMMA ** (k - t)
    hindsight = np.zeros((S, width, A))
    for (s, u, a), weight in pairs.items():
        hindsight[s, u, a] = weight / after[s, u]
    change = np.zeros((S, A))
    known = hindsight, paid / np.maximum(visits, 1e-300)
    for (p, (states, _, rewards, policies)), u in zip(episodes, objects, strict=True):
        one = np.zeros((S, A))
        add_contributions(one, *known, states, rewards, u, policies, GAMMA, np.zeros(A))
        change += p * one
    assert np.abs(exact_gradient()).max() > 0.05
    np.testing.assert_allclose(change, exact_gradient(), atol=1e-10)


@pytest.mark.uncompiled
def test_counts_in_hindsight_are_weighted_averages():
    hindsight, seen, mean, visits = np.zeros((S, S, A)), np.zeros((S, S)), np.zeros((S, A)), np.zeros((S, A))
    stories = [story for _, story in EPISODES[:40]]
    pairs = defaultdict(float)
    for states, actions, rewards, _ in stories:
        count_hindsight(hindsight, seen, mean, visits, states, actions, rewards, states, GAMMA, 0.0)
        for t in range(len(states)):
            for k in range(t + 1, len(states)):
                pairs[states[t], states[k], actions[t]] += GAMMA ** (k - t)
    for s in range(S):
        for u in range(S):
            total = sum(pairs[s, u, a] for a in range(A))
            np.testing.assert_allclose(seen[s, u], total)
            if total:
                np.testing.assert_allclose(hindsight[s, u], [pairs[s, u, a] / total for a in range(A)])
    paid = [r for states, actions, rewards, _ in stories for s, a, r in zip(states, actions, rewards, strict=True)
            if (s, a) == (0, 0)]  # fmt: skip
    np.testing.assert_allclose(mean[0, 0], np.mean(paid))


@pytest.mark.uncompiled
def test_reinforce_is_the_score_function():
    change = np.zeros((S, A))
    for p, (states, actions, rewards, policies) in EPISODES:
        one = np.zeros((S, A))
        add_reinforce(one, states, actions, rewards, policies, GAMMA)
        change += p * one
    np.testing.assert_allclose(change, exact_gradient(), atol=1e-12)


@pytest.mark.parametrize("form", ["reward", "state", "none"])
def test_the_key_is_learned_without_noise(form):
    """Linear key-to-door without apples: one choice at the start pays at the end, all else is idle."""
    table = linear_key_to_door(6, apples=0.0)
    misses = policy_gradient(table, form=form, entropy=0.0, seed=1, step_size=3.0, record_at=[500, 600])
    assert misses[1] - misses[0] < 30
