"""Blackjack by the rules of Gymnasium's `Blackjack-v1`: an infinite deck, a dealer who draws to 17, no doubling.

A state is what Gymnasium shows: (player's sum, dealer's card, usable ace), of sizes (32, 11, 2). Action 0 sticks,
action 1 hits. Whether 21 was dealt at once (a natural) is not shown, and pays differently by some rules. The dynamics
remember it in `fresh`; `table()` makes it a component of the state, for exact values.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._checks import check_flag
from chunked_td._link import kernel
from chunked_td.envs.protocol import Outcome
from chunked_td.envs.table import TransitionTable
from chunked_td.envs.table_building import Lists
from chunked_td.seeding import Stream, uniform

STICK, HIT = 0, 1
_CARDS = [(1 / 13, card) for card in range(1, 10)] + [(4 / 13, 10)]


class Blackjack(NamedTuple):
    """Dynamics of Blackjack. Build with `Blackjack.make`."""

    sab: bool
    natural: bool
    fresh: Annotated[np.ndarray, "bool[k]"]  # whether the player still has the two cards dealt

    @classmethod
    def make(cls, sab: bool = True, natural: bool = False) -> Blackjack:
        """Choose the rules.

        Args:
          sab: the rules of Sutton and Barto: a natural wins unless the dealer has one, too. As `gymnasium.make` has it.
          natural: without `sab`, a natural that wins pays 1.5.
        """
        return cls(check_flag("sab", sab), check_flag("natural", natural), np.zeros(1, bool))

    nvec = (32, 11, 2)  # as Gymnasium's observation space
    n_actions = 2  # stick and hit
    n_rewards = 1  # a scalar reward
    draws = 17  # the dealer's cards: each adds at least 1, and 17 is enough
    horizon = 20  # a player with two aces can hit nineteen times without going over 21

    @property
    def starts(self) -> list[tuple[float, tuple[int, ...]]]:
        """What is dealt."""
        total: dict[tuple[int, ...], float] = {}
        for p, first in _CARDS:
            for q, second in _CARDS:
                for r, dealer in _CARDS:
                    hard = first + second
                    soft = 1 in (first, second)
                    state = (hard + 10 * soft, dealer, int(soft))
                    total[state] = total.get(state, 0.0) + p * q * r
        return [(p, state) for state, p in total.items()]

    @kernel
    def reset(env: Any, rng: Stream, state: np.ndarray) -> None:
        """Deal two cards to the player and one to the dealer."""
        first, second = draw_card(rng), draw_card(rng)
        soft = first == 1 or second == 1
        state[0] = first + second + (10 if soft else 0)
        state[1] = draw_card(rng)
        state[2] = 1 if soft else 0
        env.fresh[0] = True

    @kernel
    def step(env: Any, rng: Stream, state: np.ndarray, action: int, reward: np.ndarray) -> bool:
        """Hit, or stick and let the dealer play."""
        reward[0] = 0.0
        if action == 1:
            add_card(state, draw_card(rng))
            env.fresh[0] = False
            if state[0] > 21:
                reward[0] = -1.0
            return state[0] > 21
        second = draw_card(rng)
        blackjack = second + state[1] == 11 and (second == 1 or state[1] == 1)
        dealer = play_dealer(rng, state[1], second)
        score = 0 if dealer > 21 else dealer
        reward[0] = 1.0 if state[0] > score else 0.0 if state[0] == score else -1.0
        if env.fresh[0] and state[0] == 21:
            if env.sab and not blackjack:
                reward[0] = 1.0
            elif not env.sab and env.natural and reward[0] == 1.0:
                reward[0] = 1.5
        return True

    @kernel
    def legal(env: Any, state: np.ndarray) -> int:
        """Both actions."""
        return 2

    @kernel
    def miss(env: Any, first_action: int, state: np.ndarray) -> bool:
        """Going over 21."""
        return state[0] > 21

    @kernel
    def probability(env: Any, state: np.ndarray, action: int, next_state: np.ndarray, out: np.ndarray) -> None:
        """P(sum' | x, a) into out[0]; the dealer's card stays, and the sum tells whether the ace is still usable."""
        out[1] = 1.0 if next_state[1] == state[1] else 0.0
        out[0], out[2] = 0.0, 0.0
        if action == 0:
            out[0] = 1.0 if next_state[0] == state[0] else 0.0
            out[2] = 1.0 if next_state[2] == state[2] else 0.0
            return
        for card in range(1, 11):
            chance = 4.0 / 13.0 if card == 10 else 1.0 / 13.0
            hard = state[0] - 10 * state[2] + card
            soft = (state[2] == 1 or card == 1) and hard + 10 <= 21
            if next_state[0] == hard + (10 if soft else 0) and next_state[2] == (1 if soft else 0):
                out[0] += chance
        out[2] = 1.0 if out[0] > 0.0 else 0.0

    def outcomes(self, state: tuple[int, ...], action: int) -> list[Outcome]:
        """List what can happen. What sticking on a soft 21 pays is not known where naturals count: use `table()`."""
        if state == (21, state[1], 1) and action == STICK and (self.sab or self.natural):
            raise ValueError("state must tell whether 21 is a natural, which pays differently here: use table()")
        return [(p, x[:3], r, ended) for p, x, r, ended in self._outcomes((*state, 0), action)]

    def transition_lists(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Next states by (state, action) for the true model: sum and ace are not independent of each other."""
        return _next_states()

    def table(self) -> TransitionTable:
        """The same game with a fourth state component: whether the player has a natural. For exact values."""
        starts = {(*x, int(x[0] == 21)): p for p, x in self.starts}
        return TransitionTable.from_outcomes(self._outcomes, starts=starts, n_actions=2)

    def _outcomes(self, state: tuple[int, ...], action: int) -> list[Outcome]:
        if state[0] > 21:
            return []
        found: dict[tuple[Any, ...], float] = {}
        for p, x, reward, ended in self._hits(*state) if action == HIT else self._sticks(*state):
            key = (x, (reward,), ended)
            found[key] = found.get(key, 0.0) + p
        return [(p, *key) for key, p in found.items()]

    def _hits(self, total: int, shown: int, ace: int, _: int) -> Iterator[tuple[float, tuple[int, ...], float, bool]]:
        for p, card in _CARDS:
            hard = total - 10 * ace + card
            soft = bool(ace or card == 1) and hard <= 11
            after = hard + 10 * soft
            yield p, (after, shown, int(soft), 0), -1.0 if after > 21 else 0.0, after > 21

    def _sticks(self, *state: int) -> Iterator[tuple[float, tuple[int, ...], float, bool]]:
        total, shown, _, natural = state
        for p, second in _CARDS:
            blackjack = {shown, second} == {1, 10}
            for q, dealer in _dealer(shown + second, 1 in (shown, second)):
                score = 0 if dealer > 21 else dealer
                reward = float(total > score) - float(total < score)
                if natural and self.sab and not blackjack:
                    reward = 1.0
                elif natural and not self.sab and self.natural and reward == 1.0:
                    reward = 1.5
                yield p * q, state, reward, True


@cache
def _next_states() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same under all rules: where the outcomes of each pair begin, the states they lead to, their probabilities."""
    rules = Blackjack.make(sab=False)

    def listed(state: tuple[int, ...], action: int) -> list[Any]:
        return [(p, int(np.ravel_multi_index(x, rules.nvec)), 0.0, e) for p, x, _, e in rules.outcomes(state, action)]

    nested = [[listed(state, action) for action in (STICK, HIT)] for state in np.ndindex(*rules.nvec)]
    lists = Lists.from_nested(nested, 2)
    return lists.first, lists.target, lists.chance


@cache
def _dealer(hard: int, ace: bool) -> list[tuple[float, int]]:
    """Sums that a dealer ends with, by probability, from cards that add up to `hard` with aces as 1."""
    total = hard + 10 if ace and hard <= 11 else hard
    if total >= 17:
        return [(1.0, total)]
    ends: dict[int, float] = {}
    for p, card in _CARDS:
        for q, end in _dealer(hard + card, ace or card == 1):
            ends[end] = ends.get(end, 0.0) + p * q
    return [(p, end) for end, p in ends.items()]


def draw_card(rng):
    """A card from an infinite deck: 1 to 10, where ten, jack, queen and king count 10."""
    return min(int(uniform(rng) * 13.0) + 1, 10)


def add_card(state, card):
    """The player takes a card."""
    hard = state[0] - 10 * state[2] + card
    soft = (state[2] == 1 or card == 1) and hard + 10 <= 21
    state[0] = hard + (10 if soft else 0)
    state[2] = 1 if soft else 0


def play_dealer(rng, shown, second):
    """The sum with which the dealer stops."""
    hard = shown + second
    ace = shown == 1 or second == 1
    total = hard + 10 if ace and hard <= 11 else hard
    while total < 17:
        card = draw_card(rng)
        hard += card
        ace = ace or card == 1
        total = hard + 10 if ace and hard <= 11 else hard
    return total
