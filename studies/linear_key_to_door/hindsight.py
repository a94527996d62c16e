"""Rivals that assign credit in hindsight, episode by episode: contributions to rewards, and redistributed rewards.

`HindsightPolicyGradient` (Harutyunyan et al. 2019; Meulemans et al. 2023, "COCOA"), for tables, π = softmax(θ):

    ∇J = Σ_t Σ_a ∇π(a|S_t) [r̂(S_t,a) + Σ_{k>t} γ^{k−t} (h(a|S_t,U_k)/π(a|S_t) − 1) R_{k+1}]

h(a|s,u) is the probability that a was taken in s, given that u came later. U_k is the state that is left at k, for
tables that is hindsight credit assignment, or the reward R_{k+1} itself: then what did not change the chance of a
reward is not credited for it. "none" is REINFORCE with the return in place of the bracket.

`RudderQ` (Arjona-Medina et al. 2019), with a table in place of their LSTM: g(s,a) is the mean return of the episodes
that passed (s,a), and each step is paid by how much it changed that forecast; the last one is paid the rest:

    R'_{t+1} = g(S_t,A_t) − g(S_{t−1},A_{t−1}),   R'_T += G − g(S_{T−1},A_{T−1}),   Q(S_t,A_t) ← Q + α (R'_{t+1} − Q)

Both play Gymnasium's loop and update after every episode. They have no λ, views or planners.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from chunked_td._checks import check_choice, check_positive, check_seed, check_unit
from chunked_td.indexing import make_indexer
from chunked_td.learners.inputs import check_reward, legal_actions
from chunked_td.learners.loop import History, reset, step
from chunked_td.seeding import generator, split_seed

FORMS = ("state", "reward", "none")


class EpisodicLearner:
    """Base of both: plays episodes, keeps them, and shows them to `learn_episode`.

    Args:
      env: a Gymnasium environment with a countable observation space and scalar rewards.
      step_size: α. discount: γ. seed: of the policy; `learn` seeds the environment with it, too.
    """

    def __init__(self, env: Any, *, step_size: float = 0.1, discount: float = 1.0, seed: int = 0):
        self.step_size, self.discount = check_positive("step_size", step_size), check_unit("discount", discount)
        self.seed, self.indexer = check_seed(seed), make_indexer(env.observation_space)
        if not self.indexer.fixed:
            raise ValueError(f"env must have a countable observation space, got {env.observation_space!r}")
        self.n_actions, self.episode = int(env.action_space.n), 0
        self._rng = generator(split_seed(self.seed).policy)

    def probabilities(self, state: int, legal: np.ndarray) -> np.ndarray:
        """π(·|state), float64[A]."""
        raise NotImplementedError

    def learn_episode(self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray, policies: np.ndarray) -> None:
        """Learn from transitions 0..T−1; policies: float64[T, A], as they were."""
        raise NotImplementedError

    def learn(self, env: Any, episodes: int) -> History:
        """Train for so many episodes. An episode that is cut counts as one that ended."""
        returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
        for n in range(episodes):
            observation, info = reset(env, self.seed if self.episode == 0 else None)
            kept, ended = [], False
            while not ended:
                state, legal = self.indexer(observation), np.ones(self.n_actions, bool)
                if "action_mask" in info:
                    legal = legal_actions(info["action_mask"], self.n_actions)
                policy = self.probabilities(state, legal)
                action = int(self._rng.choice(self.n_actions, p=policy))
                observation, reward, terminated, truncated, info = step(env, action)
                kept.append((state, action, check_reward(reward), policy))
                ended = terminated or truncated
            states, actions, rewards, policies = (np.array(column) for column in zip(*kept, strict=True))
            self.learn_episode(states, actions, rewards, policies)
            returns[n], lengths[n] = rewards.sum(), rewards.size
            self.episode += 1
        return History(returns, lengths)


class HindsightPolicyGradient(EpisodicLearner):
    """Policy gradient with counterfactual contributions; see the module's text.

    Args:
      env, step_size, discount, seed: see `EpisodicLearner`.
      form: what is conditioned on in hindsight: "state", "reward", or "none" (REINFORCE).
      least_weight: of a new observation in h and r̂; 0 is the plain average, which forgets no old policy.
      reward_values: for the form "reward", how many different rewards there may be.
    """

    def __init__(
        self, env: Any, *, form: str = "reward", least_weight: float = 0.0, reward_values: int = 16, **common: Any
    ):
        super().__init__(env, **common)
        self.form, self.least_weight = check_choice("form", form, FORMS), check_unit("least_weight", least_weight)
        S, A = self.indexer.size, self.n_actions
        U = {"state": S, "reward": reward_values, "none": 1}[self.form]
        self.logits, self.mean_reward, self.visits = np.zeros((S, A)), np.zeros((S, A)), np.zeros((S, A))
        self.hindsight, self.seen = np.zeros((S, U, A)), np.zeros((S, U))
        self._values: dict[float, int] = {}

    def probabilities(self, state: int, legal: np.ndarray) -> np.ndarray:
        """Softmax of the logits of the legal actions."""
        weights = np.where(legal, np.exp(self.logits[state] - self.logits[state][legal].max()), 0.0)
        return weights / weights.sum()

    def objects_of(self, states: np.ndarray, rewards: np.ndarray) -> np.ndarray:
        """U_k as numbers; −1 where nothing is to be credited."""
        if self.form == "state":
            return states
        if self.form == "none":
            return np.full(states.size, -1)
        found = [-1 if r == 0.0 else self._values.setdefault(round(float(r), 12), len(self._values)) for r in rewards]
        if len(self._values) > self.seen.shape[1]:
            raise ValueError(f"reward_values must be the number of different rewards or more, got {self.seen.shape[1]}")
        return np.array(found, np.int64)

    def learn_episode(self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray, policies: np.ndarray) -> None:
        """Count in hindsight, then step along the gradient."""
        change = np.zeros_like(self.logits)
        if self.form == "none":
            add_reinforce(change, states, actions, rewards, policies, self.discount)
        else:
            objects = self.objects_of(states, rewards)
            tables = self.hindsight, self.seen, self.mean_reward, self.visits
            count_hindsight(*tables, states, actions, rewards, objects, self.discount, self.least_weight)
            known = self.hindsight, self.mean_reward
            add_contributions(
                change, *known, states, rewards, objects, policies, self.discount, np.zeros(self.n_actions)
            )
        self.logits += self.step_size * change


class RudderQ(EpisodicLearner):
    """Action values of redistributed rewards, acted on ε-greedily; see the module's text.

    Args:
      env, step_size, discount, seed: see `EpisodicLearner`. The discount is that of the return G.
      epsilon: exploration.
      least_weight: of a new return in g; 0 is the plain average.
    """

    def __init__(self, env: Any, *, epsilon: float = 0.1, least_weight: float = 0.0, **common: Any):
        super().__init__(env, **common)
        self.epsilon, self.least_weight = check_unit("epsilon", epsilon), check_unit("least_weight", least_weight)
        shape = self.indexer.size, self.n_actions
        self.values, self.forecast, self.visits = np.zeros(shape), np.zeros(shape), np.zeros(shape)

    def probabilities(self, state: int, legal: np.ndarray) -> np.ndarray:
        """ε-greedy; ties share."""
        q = np.where(legal, self.values[state], -np.inf)
        greedy = q == q.max()
        return self.epsilon * legal / legal.sum() + (1.0 - self.epsilon) * greedy / greedy.sum()

    def learn_episode(self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray, policies: np.ndarray) -> None:
        """Redistribute by the forecasts so far, learn, then improve the forecasts."""
        total = float(rewards @ self.discount ** np.arange(rewards.size))
        paid = redistributed(self.forecast[states, actions], total)
        for s, a, r in zip(states, actions, paid, strict=True):
            self.values[s, a] += self.step_size * (r - self.values[s, a])
            self.visits[s, a] += 1.0
            self.forecast[s, a] += max(1.0 / self.visits[s, a], self.least_weight) * (total - self.forecast[s, a])


def redistributed(forecasts: np.ndarray, total: float) -> np.ndarray:
    """R' of an episode: differences of the forecasts float64[T], and the rest at its end; they add up to the return."""
    paid = np.diff(forecasts, prepend=0.0)
    paid[-1] += total - forecasts[-1]
    return paid


@njit(cache=True, nogil=True)
def count_hindsight(hindsight, seen, mean_reward, visits, states, actions, rewards, objects, discount, least):
    """h and r̂ with one more episode: u that comes k steps after s counts γ^k."""
    for t in range(states.size):
        s, a = states[t], actions[t]
        visits[s, a] += 1.0
        mean_reward[s, a] += max(1.0 / visits[s, a], least) * (rewards[t] - mean_reward[s, a])
        weight = 1.0
        for k in range(t + 1, states.size):
            weight *= discount
            u = objects[k]
            if u >= 0 and weight > 0.0:
                seen[s, u] += weight
                share = max(weight / seen[s, u], least)
                for b in range(hindsight.shape[2]):
                    hindsight[s, u, b] += share * ((1.0 if b == a else 0.0) - hindsight[s, u, b])


@njit(cache=True, nogil=True)
def add_contributions(change, hindsight, mean_reward, states, rewards, objects, policies, discount, q):
    """Add the gradient of an episode by the logits to `change`; q: float64[A], scratch."""
    for t in range(states.size):
        s, policy = states[t], policies[t]
        for b in range(q.size):
            q[b] = mean_reward[s, b]
        weight = 1.0
        for k in range(t + 1, states.size):
            weight *= discount
            if objects[k] >= 0 and rewards[k] != 0.0:
                for b in range(q.size):
                    if policy[b] > 0.0:
                        q[b] += weight * (hindsight[s, objects[k], b] / policy[b] - 1.0) * rewards[k]
        mean = 0.0
        for b in range(q.size):
            mean += policy[b] * q[b]
        for b in range(q.size):
            change[s, b] += policy[b] * (q[b] - mean)


@njit(cache=True, nogil=True)
def add_reinforce(change, states, actions, rewards, policies, discount):
    """Add (1 − π) G at the action taken and −π G elsewhere, with the return G that followed."""
    future = 0.0
    for t in range(states.size - 1, -1, -1):
        future = rewards[t] + discount * future
        for b in range(change.shape[1]):
            change[states[t], b] += ((1.0 if b == actions[t] else 0.0) - policies[t, b]) * future
