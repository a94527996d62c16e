"""Ten families of problems, written before any result of this study was read.

Their author knew the methods and what had been found on earlier problems. What was to differ is the kind of problem:
stopping, routes, queues, mazes, studying, wind, gambling, pursuit, cards, storage. Each is a table of the states that
can be reached, with rewards of order one. Nothing was changed after a learner had run on them.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from chunked_td.envs.table import TransitionTable
from studies.credit.families.family import Family, family

Rows = list[tuple[float, Any, float, bool]]
"""Outcomes: probability, next state, reward, whether the episode ends."""
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""Right, down, left, up, as (row, column)."""

_new = partial(family, epsilon=0.1, held_out=True)


def _merged(rows: Rows) -> Rows:
    """The same outcomes, each pair of next state and reward once."""
    found: dict[tuple[Any, float, bool], float] = {}
    for p, there, reward, ended in rows:
        if p > 0:
            key = there, round(reward, 12), ended
            found[key] = found.get(key, 0.0) + p
    return [(p, there, reward, ended) for (there, reward, ended), p in found.items()]


def _sometimes_over(rows: Rows, chance: float) -> Rows:
    """The same outcomes, but with this chance the episode ends after the step."""
    kept = [(p * (1 - chance), there, reward, ended) for p, there, reward, ended in rows]
    return _merged([*kept, *((p * chance, "over", reward, True) for p, _, reward, _ in rows)])


@_new("selling", "When to sell", dial="days", settings=(8, 20), episodes=1_000)
def selling(*, days: int, levels: int = 7) -> TransitionTable:
    """A price that rises or falls at random for n days: sell now or wait; waiting costs a little.

    On the last day it is sold for what it brings.
    """
    top = levels - 1

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        price, day = state
        if action == 0 or day == days - 1:
            return [(1.0, "sold", 2 * price / top - 1.0, True)]
        moves = ((0.45, 1), (0.45, -1), (0.1, 0))
        return _merged([(p, (min(max(price + step, 0), top), day + 1), -0.005, False) for p, step in moves])

    return TransitionTable.from_outcomes(outcomes, starts=[(levels // 2, 0)], n_actions=2)


@_new("commute", "A way to work", dial="stations", settings=(6, 14), episodes=800)
def commute(*, stations: int, late: int = 6) -> TransitionTable:
    """n stations, a slow line that is on time and a fast one that is often late; one may change at every station.

    A day too late costs as much as three delays; being early pays a little for every quarter of an hour.
    """

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        station, delay = state
        slower = ((0.9, 1), (0.1, 2)) if action == 0 else ((0.55, 0), (0.25, 1), (0.2, 4))
        rows: Rows = []
        for p, more in slower:
            sum_ = min(delay + more, late * stations // 4 + 4)
            if station + 1 < stations:
                rows.append((p, (station + 1, sum_), 0.0, False))
            else:
                rows.append((p, "work", 1.0 - sum_ / stations if sum_ <= 1.2 * stations else -1.0, True))
        return _merged(rows)

    return TransitionTable.from_outcomes(outcomes, starts=[(0, 0)], n_actions=2)


@_new("queue", "A counter", dial="arrivals", settings=(0.25, 0.45), episodes=400, discount=0.97)
def queue(*, arrivals: float, room: int = 10, over: float = 0.03) -> TransitionTable:
    """A queue at a counter: serve slowly for free, fast for money, or send the last one away; customers come by chance.

    Everyone who waits costs a little at every step, a customer served pays, one who finds no room costs.
    """

    def outcomes(waiting: int, action: int) -> Rows:
        served, cost = ((0.3, 0.0), (0.7, 0.12), (0.0, 0.0))[action]
        left = waiting - (action == 2 and waiting > 0)
        rows: Rows = []
        for (p, done), (q, come) in product(((served, 1), (1 - served, 0)), ((arrivals, 1), (1 - arrivals, 0))):
            after = left - (done if left > 0 else 0)
            reward = 0.4 * (done and left > 0) - cost - 0.02 * waiting - 0.05 * (left < waiting)
            reward -= 0.5 * (come and after == room)
            rows.append((p * q, min(after + come, room), reward, False))
        return _sometimes_over(_merged(rows), over)

    return TransitionTable.from_outcomes(outcomes, starts=[0, room // 2], n_actions=3, horizon=400)


@_new("maze", "A maze", dial="side", settings=(4, 6), episodes=250, discount=0.98)
def maze(*, side: int) -> TransitionTable:
    """A deterministic maze without loops, n × n cells; the exit pays 1, each step costs a little."""
    rng = np.random.default_rng([31, side])
    cells = list(product(range(side), range(side)))
    joined: dict[tuple[int, int], set[int]] = {cell: set() for cell in cells}
    stack, seen = [(0, 0)], {(0, 0)}
    while stack:
        row, column = stack[-1]
        ways = [(k, (row + d, column + r)) for k, (d, r) in enumerate(MOVES) if (row + d, column + r) in joined]
        ways = [(k, cell) for k, cell in ways if cell not in seen]
        if not ways:
            stack.pop()
            continue
        k, cell = ways[int(rng.integers(len(ways)))]
        joined[row, column].add(k)
        joined[cell].add((k + 2) % 4)
        seen.add(cell)
        stack.append(cell)
    goal = (side - 1, side - 1)

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        down, right = MOVES[action] if action in joined[state] else (0, 0)
        there = state[0] + down, state[1] + right
        return [(1.0, there, float(there == goal) - 0.005, there == goal)]

    return TransitionTable.from_outcomes(outcomes, starts=[(0, 0)], n_actions=4, horizon=400)


@_new("exam", "An exam", dial="days", settings=(6, 12), episodes=1_000)
def exam(*, days: int, strength: int = 4) -> TransitionTable:
    """n days to an exam: learn, learn hard or rest. The probability of passing depends on the knowledge.

    Learning hard tires; who is tired forgets. Nothing is paid before the exam.
    """
    full = 2 * days

    def outcomes(state: tuple[int, int, int], action: int) -> Rows:
        day, known, fresh = state
        if day == days:
            p = 0.05 + 0.9 * min(known / days, 1.0) ** 2
            return [(p, "passed", 1.0, True), (1 - p, "failed", -0.5, True)]
        if action == 2:
            return [(1.0, (day + 1, known, min(fresh + 2, strength)), 0.0, False)]
        gain, tires = ((1, 0), (2, 2))[action]
        learns = 0.35 + 0.6 * fresh / strength
        ahead = day + 1, min(known + gain, full), max(fresh - tires, 0)
        return _merged([(learns, ahead, 0.0, False), (1 - learns, (day + 1, max(known - 1, 0), ahead[2]), 0.0, False)])

    return TransitionTable.from_outcomes(outcomes, starts=[(0, 0, strength)], n_actions=3)


@_new("wind", "Wind", dial="gusts", settings=(0.1, 0.5), episodes=400, discount=0.98)
def wind(*, gusts: float, rows: int = 5, columns: int = 8) -> TransitionTable:
    """A grid whose middle columns have wind: with this chance it blows one up one row more. The far side pays 1."""
    goal = (rows // 2, columns - 1)

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        down, right = MOVES[action]
        found: Rows = []
        blown = gusts if 2 <= state[1] <= columns - 3 else 0.0
        for p, extra in ((1 - blown, 0), (blown, 1)):
            there = min(max(state[0] + down - extra, 0), rows - 1), min(max(state[1] + right, 0), columns - 1)
            found.append((p, there, float(there == goal) - 0.01, there == goal))
        return _merged(found)

    return TransitionTable.from_outcomes(outcomes, starts=[(rows // 2, 0)], n_actions=4, horizon=300)


@_new("gamble", "A gambler", dial="goal", settings=(8, 20), episodes=1_000)
def gamble(*, goal: int, win: float = 0.45) -> TransitionTable:
    """Stake one, half or all of what one has, on a game that is lost a little more often than won; the goal pays 1.

    Every game costs 0.03.
    """

    def outcomes(capital: int, action: int) -> Rows:
        stake = min((1, max(capital // 2, 1), capital)[action], goal - capital)
        up, down = capital + stake, capital - stake
        rows: Rows = [(win, "rich" if up == goal else up, float(up == goal) - 0.03, up == goal)]
        return [*rows, (1 - win, "poor" if down == 0 else down, -0.03, down == 0)]

    return TransitionTable.from_outcomes(outcomes, starts=[goal // 2, goal // 4], n_actions=3, horizon=200)


@_new("pursuit", "A pursuit", dial="places", settings=(7, 15), episodes=500, discount=0.97)
def pursuit(*, places: int) -> TransitionTable:
    """A guard and a thief on a ring of n places: forward, back or wait. The thief moves at random.

    Catching pays 1, a step costs a little. The thief rests at a bed.
    """
    beds = set(np.random.default_rng([32, places]).choice(places, 2, replace=False).tolist())

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        guard, thief = state
        mine = (guard + (1, -1, 0)[action]) % places
        stays = 0.8 if thief in beds else 0.2
        rows: Rows = []
        for p, step in ((0.7 * (1 - stays), 1), (0.3 * (1 - stays), -1), (stays, 0)):
            theirs = (thief + step) % places
            caught = mine in (thief, theirs) and (mine == theirs or guard == theirs)
            rows.append((p, "caught" if caught else (mine, theirs), float(caught) - 0.01, caught))
        return _merged(rows)

    starts = [(0, places // 2), (0, places // 3)]
    return TransitionTable.from_outcomes(outcomes, starts=starts, n_actions=3, horizon=300)


@_new("cards", "Cards", dial="pays", settings=(1.0, 3.0), episodes=1_500)
def cards(*, pays: float, goal: int = 15) -> TransitionTable:
    """Draw cards of 1 to 6 towards fifteen without going over it, then a dealer draws; an exact fifteen pays this much.

    Else 1 is won or lost. The dealer's first card is seen, and the dealer draws up to twelve.
    """

    def dealer(points: int) -> dict[int, float]:
        if points >= 12:
            return {points if points <= goal else 0: 1.0}
        found: dict[int, float] = {}
        for card in range(1, 7):
            for end, p in dealer(points + card).items():
                found[end] = found.get(end, 0.0) + p / 6
        return found

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        mine, seen = state
        if action == 0:
            drawn = [mine + card for card in range(1, 7)]
            lost: Rows = [(1 / 6, "lost", -1.0, True) for points in drawn if points > goal]
            return _merged([*lost, *((1 / 6, (points, seen), 0.0, False) for points in drawn if points <= goal)])
        rows: Rows = []
        for theirs, p in dealer(seen).items():
            won = pays if mine == goal else 1.0
            rows.append((p, "end", won if mine > theirs else 0.0 if mine == theirs else -1.0, True))
        return _merged(rows)

    starts = {(mine, seen): 1 / 36 for mine in range(1, 7) for seen in range(1, 7)}
    return TransitionTable.from_outcomes(outcomes, starts=starts, n_actions=2)


@_new("storage", "A battery", dial="size", settings=(3, 8), episodes=400, discount=0.96)
def storage(*, size: int, prices: int = 5, over: float = 0.03) -> TransitionTable:
    """A battery of this size: buy, hold or sell one unit at a price that wanders by chance; a little is lost in it.

    It is over by chance, and what is stored then is worth nothing.
    """
    top = prices - 1

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        held, price = state
        after = min(held + 1, size) if action == 0 else max(held - 1, 0) if action == 2 else held
        reward = (held - after) * (0.1 + 0.8 * price / top) - 0.01 * (after > held)
        rows: Rows = []
        for p, step in ((0.3, 1), (0.3, -1), (0.4, 0)):
            there = min(max(price + step, 0), top)
            rows += [(p * 0.95, (after, there), reward, False), (p * 0.05, (max(after - 1, 0), there), reward, False)]
        return _sometimes_over(_merged(rows), over)

    starts = [(0, price) for price in range(prices)]
    return TransitionTable.from_outcomes(outcomes, starts=starts, n_actions=3, horizon=400)


FAMILIES = {each.id: each for each in vars().copy().values() if isinstance(each, Family)}
"""All of them, by id."""
