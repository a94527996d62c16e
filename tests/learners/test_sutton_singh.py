"""Naive TD(0), TD(1/n), TDC and TD(n/n) against App. C, on acyclic episodes.

The terminal state is a state of its own (END), also where an episode ends in what was an ordinary state before.

Two independent definitions each: the backward recursion for Ṽ, and the average of targets that App. C starts from
(with the values of successors taken at the time that each algorithm stands for).
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from helpers.worlds import World

END = 7
GAMMAS = st.sampled_from([1.0, 1.0, 0.9, 0.0])


def episodes_of(agent, world, count):
    """Play; yields (states, rewards, terminated) of each episode after the learner has finished it."""
    for _ in range(count):
        s = world.reset()
        action = agent.start(world.observe(s), world.info(s))
        states, rewards, ended = [s], [], 0
        while not ended:
            reward, s, ended = world.step(action)
            states.append(END if ended == 1 else s)
            rewards.append(float(reward[0]))
            action = agent.step(rewards[-1], world.observe(s), ended == 1, ended == 2, world.info(s))
        yield states, rewards, ended == 1


def make(cls, seed, gamma):
    world = World(seed, (7,), actions=2, acyclic=True, sudden=0.1)
    return cls(world, discount=gamma, seed=seed), world


@settings(max_examples=40)
@given(st.integers(0, 10**6), GAMMAS)
def test_td_one_over_n(seed, gamma):
    """Ṽ_t = V(S_t) + (R + γṼ_{t+1} − V(S_t))/n(S_t); and V = mean of R + γV at the end of that episode."""
    agent, world = make(ctd.TDOneOverN, seed, gamma)
    V, n, targets = np.zeros(8), np.zeros(8, int), defaultdict(list)
    for states, rewards, terminated in episodes_of(agent, world, 8):
        after = 0.0 if terminated else V[states[-1]]
        for s, r in zip(states[-2::-1], rewards[::-1], strict=True):
            n[s] += 1
            targets[s].append(r + gamma * after)
            after = V[s] = V[s] + (r + gamma * after - V[s]) / n[s]
        np.testing.assert_allclose(agent.tables.values[:7, 0], V[:7], rtol=1e-9, atol=1e-12)
        for s in set(states[:-1]):
            assert V[s] == pytest.approx(np.mean(targets[s]))


@settings(max_examples=40)
@given(st.integers(0, 10**6), GAMMAS)
def test_tdc(seed, gamma):
    """Ṽ of App. C.3; and V = mean over visits of R + γV(s',s), the value at the latest episode with s → s'."""
    agent, world = make(ctd.CorrectedTD, seed, gamma)
    V, n, pairs, stale = np.zeros(8), np.zeros(8, int), defaultdict(int), defaultdict(float)
    history = defaultdict(list)
    for states, rewards, terminated in episodes_of(agent, world, 8):
        old, after = V.copy(), 0.0 if terminated else V[states[-1]]
        for t in range(len(rewards) - 1, -1, -1):
            s, s2, r = states[t], states[t + 1], rewards[t]
            n[s] += 1
            pairs[s2, s] += 1
            m = pairs[s2, s]
            after = V[s] = (
                (n[s] - 1) / n[s] * old[s] - gamma * (m - 1) / n[s] * stale[s2, s] + gamma * m / n[s] * after + r / n[s]
            )
            history[s].append((r, s2))
        for t in range(len(rewards) - (1 if terminated else 0)):
            stale[states[t + 1], states[t]] = V[states[t + 1]]
        np.testing.assert_allclose(agent.tables.values[:7, 0], V[:7], rtol=1e-9, atol=1e-12)
        for s in set(states[:-1]):
            assert V[s] == pytest.approx(np.mean([r + gamma * stale[s2, s] for r, s2 in history[s]]))


@settings(max_examples=40)
@given(st.integers(0, 10**6), GAMMAS)
def test_naive_td0(seed, gamma):
    """V = mean of R + γV(S_{t+1}) as it was on entering S_{t+1}."""
    agent, world = make(ctd.NaiveTD0, seed, gamma)
    V, targets = np.zeros(8), defaultdict(list)
    for states, rewards, terminated in episodes_of(agent, world, 8):
        old = V.copy()
        for t, r in enumerate(rewards):
            last = t == len(rewards) - 1 and terminated
            targets[states[t]].append(r + gamma * (0.0 if last else old[states[t + 1]]))
            V[states[t]] = np.mean(targets[states[t]])
        np.testing.assert_allclose(agent.tables.values[:7, 0], V[:7], rtol=1e-9, atol=1e-12)


@settings(max_examples=40)
@given(st.integers(0, 10**6), GAMMAS)
def test_td_n_over_n(seed, gamma):
    """u_t = Σ_{k≥t} δ_k/n(S_k) Π_{i=t}^{k−1} γ n(S_{i+1},S_i)/n(S_i): TDC's total with the plain TD error."""
    agent, world = make(ctd.TDNOverN, seed, gamma)
    V, n, pairs = np.zeros(8), np.zeros(8, int), defaultdict(int)
    for states, rewards, terminated in episodes_of(agent, world, 8):
        T, old = len(rewards), V.copy()
        deltas = []
        for t in range(T):
            n[states[t]] += 1
            pairs[states[t + 1], states[t]] += 1
            ahead = 0.0 if t == T - 1 and terminated else old[states[t + 1]]
            deltas.append(rewards[t] + gamma * ahead - old[states[t]])
        for t in range(T):
            for k in range(t, T):
                product = np.prod([gamma * pairs[states[i + 1], states[i]] / n[states[i]] for i in range(t, k)])
                V[states[t]] += deltas[k] / n[states[k]] * product
        np.testing.assert_allclose(agent.tables.values[:7, 0], V[:7], rtol=1e-9, atol=1e-12)


def test_an_abandoned_episode_ends_where_it_was():
    """TDC: the values that past targets used are those at the end of the abandoned episode, not of the next one."""
    world = World(0, (4,), actions=1, acyclic=True)
    agent = ctd.CorrectedTD(world, seed=0)
    agent.start(0)
    agent.step(1.0, 1, False)
    agent.start(2)
    assert agent.visited == []
    agent.step(1.0, 3, True)
    assert agent.episode == 2


def test_scalar_rewards_only():
    with pytest.raises(ValueError, match="requires scalar rewards"):
        ctd.TDOneOverN(World(0, rewards=2))
