"""Facts of a problem, from episodes of random actions: late rewards, stochasticity, masks, hidden state.

They are counted on the learners' observations, so they need no table of the environment.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from chunked_td.comparison.settings import Settings
from chunked_td.envs.by_name import make_environment, make_indexer_for
from chunked_td.learners.inputs import check_reward, check_reward_vector, count_rewards, legal_actions
from chunked_td.learners.loop import reset, step
from chunked_td.observations import Indexer, make_indexer
from chunked_td.observations.features import Features
from chunked_td.observations.indexers import place_text

STEPS = 10_000
"""Fewest steps that are played; the last episode is played to its end."""
_CLEAR = 1e-4
"""Significance level, over all tests together, at which the state counts as hidden."""
_FEW = 10
"""Fewest steps expected in each cell of a table that is tested."""


@dataclass(frozen=True)
class Facts:
    """Facts of a problem. Numbers are NaN if nothing is known.

    Attributes:
      length: mean steps of an episode. paid: share of the steps with a reward; last: share of the reward, by absolute
        size, paid at an episode's last step.
      chance: probability that the same action in the same state leads to another state if it is tried again.
      back: share of the steps that lead back to a state of the same episode.
      legal: mean number of actions that the mask leaves; n_actions: of all.
      hidden: a sign that observations hide the state, in words, or "".
      seconds: per step of the environment, as measured.
    """

    length: float
    paid: float
    last: float
    chance: float
    back: float
    legal: float
    n_actions: int
    hidden: str
    seconds: float = 0.0

    @property
    def late(self) -> str:
        """Rewards that are late or rare, in words; "" if they are neither."""
        if not self.paid:
            return f"acting at random met no reward in {STEPS:,} steps"
        if self.last > 0.5:
            most = "" if self.last > 0.95 else "most of "
            late = f"{most}the reward comes at the end of an episode, after {self.length:.0f} steps on average"
            return f"{late}, and a low λ passes it back slowly"
        return f"one step in {1 / self.paid:.0f} pays" if self.paid < 0.4 else ""

    @property
    def deterministic(self) -> bool:
        """Whether no action led to two different states."""
        return self.chance == 0.0

    @property
    def random(self) -> str:
        """Noise in the return of a step, in words; "" if there is little."""
        if self.chance >= 0.05:
            often = f"reaches a different state {100 * self.chance:.0f} % of the time"
            return f"repeating an action in a state {often}, and a high λ passes that noise on"
        back = f"{100 * self.back:.0f} % of the steps lead back to a state of the same episode"
        return f"{back}, and with a high λ credit adds up in such loops" if self.back >= 0.2 else ""

    @property
    def masked(self) -> str:
        """Legal actions on average, in words; "" without a mask, or if it leaves every action."""
        if math.isnan(self.legal) or self.legal == self.n_actions:
            return ""
        return f"{self.legal:.2g} of {self.n_actions} actions are legal on average"


class _Step(NamedTuple):
    first: int  # state of the episode
    previous: int  # the state before this one; −1 at the first step
    state: int
    action: int
    target: int
    reward: float
    last: bool
    back: bool  # whether the target had been left in this episode
    legal: float


def facts_of(settings: Settings) -> Facts:
    """Play at random and count; only steps and rewards if values are linear in features."""
    env = make_environment(settings.env, settings.max_steps, settings.env_settings, settings.wrappers)
    try:
        given = make_indexer_for(env, settings.bins, settings.low, settings.high, settings.indexer)
        features = isinstance(given, Features)
        indexer = make_indexer() if features else make_indexer(env.observation_space) if given is None else given
        begun = time.perf_counter()
        steps = _played(env, _one_state if features else indexer, settings.action_mask)
        seconds = (time.perf_counter() - begun) / len(steps)
        found = replace(_counted(steps, indexer, int(env.action_space.n)), seconds=seconds)
        if features:
            return replace(found, chance=math.nan, back=0.0, hidden="")
        return found if given is None else replace(found, hidden="")  # bins always hide something
    finally:
        env.close()


def _one_state(observation: Any) -> int:
    return 0


def _played(env: Any, indexer: Callable[[Any], int], masks: bool) -> list[_Step]:
    steps: list[_Step] = []
    n_actions, components = int(env.action_space.n), count_rewards(env)
    env.action_space.seed(0)
    while len(steps) < STEPS:
        observation, info = reset(env, None if steps else 0)
        first, previous, over = indexer(observation), -1, False
        state, left = first, {first}
        while not over:
            mask = legal_actions(info["action_mask"], n_actions) if masks and "action_mask" in info else None
            action = env.action_space.sample(None if mask is None else mask.astype(np.int8))
            observation, reward, ended, cut, info = step(env, action)
            target, over, legal = indexer(observation), ended or cut, math.nan if mask is None else float(mask.sum())
            paid = check_reward(reward) if components == 1 else float(check_reward_vector(reward, components).sum())
            steps.append(_Step(first, previous, state, int(action), target, paid, over, target in left, legal))
            previous, state = state, target
            left.add(target)
    return steps


def _counted(steps: list[_Step], indexer: Indexer, n_actions: int) -> Facts:
    rewards, last = np.array([step.reward for step in steps]), np.array([step.last for step in steps])
    size = np.abs(rewards)
    tried: dict[tuple[int, int], list[_Step]] = {}
    for one in steps:
        tried.setdefault((one.state, one.action), []).append(one)
    again = [group for group in tried.values() if len(group) > 1]
    return Facts(
        length=len(steps) / int(last.sum()),
        paid=float((size > 0).mean()),
        last=float(size[last].sum() / size.sum()) if size.any() else math.nan,
        chance=1.0 - sum(map(_same, again)) / sum(map(len, again)) if again else math.nan,
        back=float(np.mean([step.back for step in steps])),
        legal=float(np.mean([step.legal for step in steps])),
        n_actions=n_actions,
        hidden=_hidden(list(tried.values()), indexer),
    )


def _same(group: list[_Step]) -> float:
    """Expected number of a group's steps that lead to the same state if tried again, unbiased: Σ c(c−1)/(n−1)."""
    counts = np.unique([step.target for step in group], return_counts=True)[1]
    return float((counts * (counts - 1)).sum() / (len(group) - 1))


def _hidden(groups: list[list[_Step]], indexer: Indexer) -> str:
    """The strongest sign that observations hide the state, in words: the outcome depends on an earlier observation.

    In a Markov chain it does not, under any policy. Each test is a 2 × 2 table: an earlier observation was x or not,
    and the outcome was the commonest next state (or a reward above the mean) or not.
    """
    signs = [sign for group in groups if len(group) >= 4 * _FEW for sign in _signs(group, indexer)]
    _, text, cells = max(signs, default=(0.0, "", (1, 1, 1, 1)))
    return text if len(signs) * _chance(*cells) < _CLEAR else ""


def _signs(group: list[_Step], indexer: Indexer) -> Iterator[tuple[float, str, tuple[int, int, int, int]]]:
    """Each test of the steps with one action in one state: |z|, the finding in words, and the table for `_chance`."""
    targets, rewards = (np.array([getattr(step, name) for step in group]) for name in ("target", "reward"))
    here = f"action {group[0].action} at observation {place_text(indexer, group[0].state)}"
    found, counts = np.unique(targets, return_counts=True)
    common = int(found[counts.argmax()])
    kept, leads = targets == common, f"leads to {place_text(indexer, common)} with probability"
    for which in ("first", "previous"):
        past = np.array([getattr(step, which) for step in group])
        for value in np.unique(past[past >= 0]):
            was, given = past == value, f"if the {which} observation was {place_text(indexer, int(value))}"
            for what, outcome, numbers in (("pays", rewards > rewards.mean(), rewards), (leads, kept, kept)):
                z = abs(_association(was, outcome))
                if not math.isnan(z):
                    means = f"{numbers[was].mean():.2g} {given}, and {numbers[~was].mean():.2g} otherwise"
                    cells = len(group), int(was.sum()), int(outcome.sum()), int((was & outcome).sum())
                    yield z, f"{here} {what} {means}".replace("-", "−"), cells


def _association(a: np.ndarray, b: np.ndarray) -> float:
    """z of a 2 × 2 table of two events; NaN if too few steps are expected in a cell."""
    n, p, q = a.size, a.mean(), b.mean()
    if n * min(p, 1 - p) * min(q, 1 - q) < _FEW:
        return math.nan
    return float(((a & b).mean() - p * q) / math.sqrt(p * (1 - p) * q * (1 - q) / n))


def _chance(n: int, first: int, second: int, both: int) -> float:
    """Two-sided exact p-value of a 2 × 2 table, given its sums; z is inexact in the tail."""
    factorial = np.append(0.0, np.cumsum(np.log(np.arange(1, n + 1))))  # its logarithm
    k = np.arange(max(0, first + second - n), min(first, second) + 1)
    log = -(factorial[k] + factorial[first - k] + factorial[second - k] + factorial[n - first - second + k])
    probability = np.exp(log - log.max())
    tail = min(probability[k >= both].sum(), probability[k <= both].sum())
    return 2.0 * float(tail / probability.sum())
