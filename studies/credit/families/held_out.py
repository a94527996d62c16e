"""Held-out problems, not used for design or tuning: the last test of the credit study.

They were written without sight of the methods, so that what holds here was not made to hold. In all of them one learns
to act. Their kinds: going back and forth for one reward, deep exploration, falling back half-way, many starts, risky
shortcuts, seasons, ways that merge, Gymnasium's own tables, and the trades of a shop, a workshop and a die.

Every problem is one small table of the states that can be reached. Times, seasons and stocks are part of the state.
Chance is fixed: where a problem is drawn at random, it is always the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from chunked_td.envs.table import TransitionTable
from studies.credit.families.family import Family, family

Rows = list[tuple[float, Any, float, bool]]
"""Outcomes: probability, next state, reward, whether the episode ends."""

_held_out = partial(family, epsilon=0.1, held_out=True)
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""Right, down, left, up, as (row, column)."""


def _sometimes_over(rows: Rows, chance: float) -> Rows:
    """The same outcomes, but with this chance the episode ends after the step."""
    over = [(p * chance, "over", reward, True) for p, _, reward, ended in rows if not ended]
    return [(p if ended else p * (1 - chance), there, reward, ended) for p, there, reward, ended in rows] + over


def _astray(outcomes: Callable[[Any, int], Rows], chance: float, n_actions: int) -> Callable[[Any, int], Rows]:
    """The same problem, but with this chance an action is replaced by any of the actions, alike likely."""

    def mixed(state: Any, action: int) -> Rows:
        rows: Rows = []
        for other in range(n_actions):
            p = chance / n_actions + (1 - chance if other == action else 0.0)
            rows += [(p * q, there, reward, ended) for q, there, reward, ended in outcomes(state, other) if p > 0]
        return rows

    return mixed


# ---- back and forth


@_held_out("rooms", "Four rooms", dial="side", settings=(2, 3, 4), episodes=350, discount=0.97)
def rooms(*, side: int, slip: float = 0.1) -> TransitionTable:
    """Four rooms of n × n cells, doors between them, one reward in the room across; one move in ten slips.

    The reward, 1, is in the middle of that room; episodes begin in the far corner.
    """
    wall, last = side, 2 * side
    door = side // 2
    doors = {(wall, door), (door, wall), (wall, last - door), (last - door, wall)}
    goal = (last - door, last - door)

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        row, column = state[0] + MOVES[action][0], state[1] + MOVES[action][1]
        blocked = wall in (row, column) and (row, column) not in doors
        there = state if blocked or not (0 <= row <= last and 0 <= column <= last) else (row, column)
        return [(1.0, there, float(there == goal), there == goal)]

    return TransitionTable.from_outcomes(_astray(outcomes, slip, 4), starts=[(0, 0)], n_actions=4, horizon=400)


@_held_out("roads", "Roads both ways", dial="towns", settings=(12, 24, 48), episodes=400, discount=0.97)
def roads(*, towns: int) -> TransitionTable:
    """n towns on a ring with short roads across; the farthest town pays, and every road also leads back.

    Each town has four roads, in an order of its own. The town farthest from the first pays 1.
    """
    rng = np.random.default_rng([11, towns])
    roads_of = [{(k + 1) % towns, (k - 1) % towns} for k in range(towns)]
    for k in range(towns):  # roads across are short, so that the far side stays far
        other = (k + int(rng.integers(2, 4))) % towns
        if len(roads_of[k]) < 4 and len(roads_of[other]) < 4:
            roads_of[k].add(other)
            roads_of[other].add(k)
    listed = [rng.permutation(sorted(ways) + [k] * (4 - len(ways))).tolist() for k, ways in enumerate(roads_of)]
    far, wave, seen = 0, [0], {0}
    while wave:
        far = wave[-1]
        wave = sorted({there for k in wave for there in roads_of[k]} - seen)
        seen |= set(wave)

    def outcomes(town: int, action: int) -> Rows:
        there = listed[town][action]
        return [(1.0, there, float(there == far), there == far)]

    return TransitionTable.from_outcomes(outcomes, starts=[0], n_actions=4, horizon=400)


# ---- deep exploration


@_held_out("deep-sea", "Deep sea", dial="depth", settings=(3, 5, 7), episodes=2_000)
def deep_sea(*, depth: int, cost: float = 0.02) -> TransitionTable:
    """n rows with one right action each, at a small cost; all of them together find the one reward.

    bsuite's deep sea: one row down each step, left or right. Which action is right differs from cell to cell.
    """
    turned = np.random.default_rng([12, depth]).integers(0, 2, (depth, depth))

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        row, column = state
        right = action != turned[row, column]
        treasure = right and row == depth - 1 and column == depth - 1
        there = row + 1, min(column + 1, depth - 1) if right else max(column - 1, 0)
        return [(1.0, there, float(treasure) - cost / depth * right, row == depth - 1)]

    return TransitionTable.from_outcomes(outcomes, starts=[(0, 0)], n_actions=2)


@_held_out("upstream", "Upstream", dial="length", settings=(4, 6, 8), episodes=1_000, discount=0.99)
def upstream(*, length: int, cost: float = 0.01, over: float = 0.01) -> TransitionTable:
    """A river of n places: swimming up costs a little and often fails, drifting is free; the source pays.

    The source pays 1. Episodes also end at random.
    """

    def outcomes(place: int, action: int) -> Rows:
        back = max(place - 1, 0)
        if action == 0:
            return _sometimes_over([(1.0, back, 0.0, False)], over)
        source = place + 1 == length
        up = (0.4, place + 1, float(source) - cost, source)
        return _sometimes_over([up, (0.5, place, -cost, False), (0.1, back, -cost, False)], over)

    return TransitionTable.from_outcomes(outcomes, starts=[0], n_actions=2, horizon=1_000)


# ---- back half-way


@_held_out("slope", "Back half-way", dial="height", settings=(5, 8, 11), episodes=400, discount=0.99)
def slope(*, height: int, actions: int = 3, slide: float = 0.25, bump: float = 0.03) -> TransitionTable:
    """A slope of n holds, one good one in three; the others, and random slips, lead back to half the height.

    The top pays 1.
    """
    good = np.random.default_rng([13, height]).integers(0, actions, height)

    def outcomes(place: int, action: int) -> Rows:
        half = (1.0, place // 2, -0.01, False)
        if action != good[place]:
            return [(slide, *half[1:]), (1 - slide, place, -0.01, False)]
        top = place + 1 == height
        return [(bump, *half[1:]), (1 - bump, place + 1, float(top) - 0.01, top)]

    return TransitionTable.from_outcomes(outcomes, starts=[0], n_actions=actions, horizon=500)


@_held_out("snakes", "Snakes and ladders", dial="snakes", settings=(3, 6, 9), episodes=500, discount=0.99)
def snakes(*, snakes: int, squares: int = 40) -> TransitionTable:
    """Forty squares, a choice of three dice, and n snakes that each lead back half of the way.

    The dice: one step for certain, a die of three, or a die of six. Each throw costs 0.05, and the end pays 1.
    """
    rng = np.random.default_rng([14, snakes])
    places = rng.choice(np.arange(4, squares - 1), snakes + 2, replace=False).tolist()
    leads = {place: place // 2 for place in places[2:]} | {place: min(place + 8, squares - 1) for place in places[:2]}
    while any(there in leads for there in leads.values()):
        leads = {place: leads.get(there, there) for place, there in leads.items()}

    def outcomes(place: int, action: int) -> Rows:
        sides = (1, 3, 6)[action]
        rows: Rows = []
        for k in range(1, sides + 1):
            there = min(place + k, squares)
            there = leads.get(there, there)
            rows.append((1 / sides, there, float(there == squares) - 0.05, there == squares))
        return rows

    return TransitionTable.from_outcomes(outcomes, starts=[0], n_actions=3, horizon=500)


# ---- many starts


@_held_out("homeward", "Many starts", dial="starts", settings=(3, 12, 56), episodes=1_000, discount=0.95)
def homeward(*, starts: int, side: int = 8, slip: float = 0.1) -> TransitionTable:
    """Eight by eight with holes, home in the middle; an episode begins in one of n places.

    Home pays 1, a hole −0.5.
    """
    rng = np.random.default_rng(17)
    home = (side // 2, side // 2)
    cells = [(row, column) for row in range(side) for column in range(side) if (row, column) != home]
    order = [cells[k] for k in rng.permutation(len(cells))]
    # Holes are apart from each other and from home, so that every place has a way.
    holes: list[tuple[int, int]] = []
    for cell in order:
        if len(holes) < 6 and all(max(abs(cell[0] - y), abs(cell[1] - x)) > 1 for y, x in [*holes, home]):
            holes.append(cell)
    begin = [cell for cell in order if cell not in holes][:starts]

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        down, right = MOVES[action]
        there = min(max(state[0] + down, 0), side - 1), min(max(state[1] + right, 0), side - 1)
        return [(1.0, there, float(there == home) - 0.5 * (there in holes), there == home or there in holes)]

    return TransitionTable.from_outcomes(_astray(outcomes, slip, 4), starts=begin, n_actions=4, horizon=500)


# ---- risky shortcuts


@_held_out("bridge", "Bridge or road", dial="slip", settings=(0.02, 0.06, 0.2), episodes=1_000, discount=0.99)
def bridge(*, slip: float, span: int = 5, road: int = 4, cost: float = 0.03) -> TransitionTable:
    """A short bridge on which each step slips into the water with this chance, or a road twice as long without.

    The far side pays 1, water −1, each step costs a little. Row 0 is the bridge; row `road` is the road; water is
    between.
    """
    goal = (0, span + 1)

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        row = min(max(state[0] + MOVES[action][0], 0), road)
        column = min(max(state[1] + MOVES[action][1], 0), span + 1)
        over_river = 1 <= column <= span
        if over_river and 0 < row < road:
            return [(1.0, "water", -1.0, True)]
        if over_river and row == 0:
            return [(1 - slip, (0, column), -cost, False), (slip, "water", -1.0, True)]
        there = (row, column)
        return [(1.0, there, float(there == goal) - cost, there == goal)]

    return TransitionTable.from_outcomes(outcomes, starts=[(0, 0)], n_actions=4, horizon=500)


# ---- seasons


@_held_out("harvest", "Seasons", dial="period", settings=(4, 8, 16), episodes=1_000, discount=0.95)
def harvest(*, period: int, fields: int = 5, over: float = 0.02) -> TransitionTable:
    """Five fields, ripe at different times of a year of n steps; what pays in one season costs in another.

    Back, pick or on. Ripe pays 0.5, unripe costs 0.2. The season advances with every step, a walk costs 0.02, and the
    harvest is over by chance.
    """
    ripe = [(k * 3 * period // (2 * fields)) % period for k in range(fields)]
    width = max(1, period // 4)

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        field, season = state
        there = min(max(field + action - 1, 0), fields - 1), (season + 1) % period
        picked = 0.5 if (season - ripe[field]) % period < width else -0.2
        return _sometimes_over([(1.0, there, picked if action == 1 else -0.02, False)], over)

    starts = [(fields // 2, season) for season in range(period)]
    return TransitionTable.from_outcomes(outcomes, starts=starts, n_actions=3, horizon=500)


@_held_out("tide", "Tide", dial="period", settings=(6, 12, 24), episodes=400, discount=0.98)
def tide(*, period: int, places: int = 6, ford: int = 3) -> TransitionTable:
    """A ford that can be crossed at low tide only, in a cycle of n steps; else one is swept back.

    Back, wait or on; a step costs 0.01, being swept back 0.2, and the far end pays 1. Low tide is a third of the cycle.
    The tide advances in nine of ten steps.
    """
    low = max(2, period // 3)

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        place, time = state
        there = max(place + action - 1, 0)
        done = there == places
        rows: Rows = []
        for p, then in ((0.9, (time + 1) % period), (0.1, time)):
            if there == ford and then >= low:
                rows.append((p, (0, then), -0.2, False))
            else:
                rows.append((p, "across" if done else (there, then), float(done) - 0.01, done))
        return rows

    starts = [(0, time) for time in range(period)]
    return TransitionTable.from_outcomes(outcomes, starts=starts, n_actions=3, horizon=500)


# ---- ways that merge


@_held_out("tributaries", "Ways that merge", dial="ways", settings=(2, 6, 18), episodes=1_000)
def tributaries(*, ways: int, length: int = 6, corridor: int = 8) -> TransitionTable:
    """n streams with small gains and tolls run into one river, whose every step can strand one.

    One may change streams on the way. In the river, one of two actions is right; its end pays 1.
    """
    rng = np.random.default_rng([16, ways])
    tolls = rng.normal(0.0, 0.1, (ways, length, 2)).round(3)
    right = rng.integers(0, 2, corridor)

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        way, place = state
        if way >= 0:
            ahead = ((way + action) % ways, place + 1) if place + 1 < length else (-1, 0)
            return [(1.0, ahead, float(tolls[way, place, action]), False)]
        last = place + 1 == corridor
        on = "sea" if last else (-1, place + 1)
        if action == right[place]:
            return [(1.0, on, float(last), last)]
        return [(0.5, on, float(last), last), (0.5, "stranded", 0.0, True)]

    return TransitionTable.from_outcomes(outcomes, starts=[(way, 0) for way in range(ways)], n_actions=2)


# ---- Gymnasium's


def _latest_env(name: str) -> Any:
    """Gymnasium's environment of this name, in its latest version."""
    import gymnasium

    versions = [int(spec.version or 0) for spec in gymnasium.registry.values() if spec.name == name]
    return gymnasium.make(f"{name}-v{max(versions)}")


def _published(env: Any, *, astray: float, unit: float, horizon: int) -> TransitionTable:
    """The reachable part of the table that an environment publishes, with rewards in units of `unit`."""
    P, chances = env.unwrapped.P, np.asarray(env.unwrapped.initial_state_distrib)
    n_actions = int(env.action_space.n)

    def outcomes(state: int, action: int) -> Rows:
        return [(float(p), int(there), float(reward) / unit, bool(end)) for p, there, reward, end in P[state][action]]

    starts = {int(state): float(chances[state]) for state in np.flatnonzero(chances)}
    return TransitionTable.from_outcomes(
        _astray(outcomes, astray, n_actions), starts=starts, n_actions=n_actions, horizon=horizon
    )


@_held_out("cliff", "Cliff walking", dial="astray", settings=(0.0, 0.1, 0.2), episodes=500, discount=0.99)
def cliff(*, astray: float) -> TransitionTable:
    """Gymnasium's CliffWalking, in which an action goes astray with this chance.

    A step costs 0.02 and the cliff 2.
    """
    return _published(_latest_env("CliffWalking"), astray=astray, unit=50.0, horizon=200)


_LAKE_OF_SIX = ("SFFFFF", "FFFHFF", "FHFFFF", "FFFFHF", "HFFFFF", "FFFHFG")


@_held_out("lake", "Frozen lake", dial="side", settings=(4, 6, 8), episodes=1_000, discount=0.99)
def lake(*, side: int) -> TransitionTable:
    """Gymnasium's slippery FrozenLake with n × n cells.

    Gymnasium's maps of four and of eight, and one of six between them.
    """
    import gymnasium

    known = {4: {"map_name": "4x4"}, 6: {"desc": list(_LAKE_OF_SIX)}, 8: {"map_name": "8x8"}}
    env = gymnasium.make("FrozenLake-v1", is_slippery=True, **known[side])
    return _published(env, astray=0.0, unit=1.0, horizon=200)


@_held_out("taxi", "Taxi", dial="astray", settings=(0.0, 0.1, 0.2), episodes=500, discount=0.99)
def taxi(*, astray: float) -> TransitionTable:
    """Gymnasium's Taxi, in which an action goes astray with this chance.

    Rewards are −0.1, −1 and 2.
    """
    return _published(_latest_env("Taxi"), astray=astray, unit=10.0, horizon=200)


# ---- trades


@_held_out("stock", "A shop's stock", dial="demand", settings=(1.0, 2.0, 3.5), episodes=1_000, discount=0.95)
def stock(*, demand: float, room: int = 12, most: int = 5, over: float = 0.02) -> TransitionTable:
    """Daily orders for n customers on average: orders, storage and empty shelves cost.

    Order 0 to `most` pieces, which arrive before the next day; the number of customers is Poisson. A piece costs 0.1
    and sells for 0.25, an order costs 0.15, a piece kept overnight 0.02, a customer sent away 0.05. The shop closes for
    good by chance.
    """
    weights = [1.0]
    for k in range(1, 13):
        weights.append(weights[-1] * demand / k)
    chances = [w / sum(weights) for w in weights]

    def outcomes(pieces: int, action: int) -> Rows:
        ordered = min(action, room - pieces)
        held = pieces + ordered
        rows: Rows = []
        for customers, p in enumerate(chances):
            sold = min(held, customers)
            reward = 0.25 * sold - 0.1 * ordered - 0.15 * (action > 0) - 0.02 * held - 0.05 * (customers - sold)
            rows.append((p, held - sold, reward, False))
        return _sometimes_over(rows, over)

    return TransitionTable.from_outcomes(outcomes, starts=[room // 2], n_actions=most + 1, horizon=500)


@_held_out("machine", "Maintenance", dial="levels", settings=(5, 10, 20), episodes=1_000, discount=0.97)
def machine(*, levels: int, over: float = 0.02) -> TransitionTable:
    """A machine that wears in n steps: run it slowly or fast, oil it or replace it before it breaks.

    Worn out, it breaks, for −2 and a new one. Work pays less the more it is worn; fast work pays and wears more. It is
    over by chance.
    """

    def outcomes(wear: int, action: int) -> Rows:
        if action == 2:
            return _sometimes_over([(0.7, max(wear - 2, 0), -0.1, False), (0.3, wear, -0.1, False)], over)
        if action == 3:
            return _sometimes_over([(1.0, 0, -0.6, False)], over)
        pay = (0.15 if action == 0 else 0.3) * (1 - 0.5 * wear / levels)
        rows: Rows = []
        for p, worn in ((0.6, 0), (0.4, 1)) if action == 0 else ((0.2, 0), (0.5, 1), (0.3, 2)):
            broken = wear + worn >= levels
            rows.append((p, 0 if broken else wear + worn, -2.0 if broken else pay, False))
        return _sometimes_over(rows, over)

    return TransitionTable.from_outcomes(outcomes, starts=[0], n_actions=4, horizon=500)


@_held_out("pig", "Pig", dial="goal", settings=(10, 20, 30), episodes=1_000, discount=0.99)
def pig(*, goal: int) -> TransitionTable:
    """A dice game: throw on or keep the sum, to reach this goal in few turns.

    A one loses what was not kept, and the turn. Every turn costs 0.1, and reaching the goal with what is kept pays 1.
    """

    def outcomes(state: tuple[int, int], action: int) -> Rows:
        kept, turn = state
        if action == 0:
            total = min(kept + turn, goal)
            return [(1.0, (total, 0), float(total == goal) - 0.1, total == goal)]
        thrown = [(1 / 6, (kept, min(turn + pips, goal - kept)), 0.0, False) for pips in range(2, 7)]
        return [(1 / 6, (kept, 0), -0.1, False), *thrown]

    return TransitionTable.from_outcomes(outcomes, starts=[(0, 0)], n_actions=2, horizon=500)


FAMILIES = tuple(thing for thing in vars().values() if isinstance(thing, Family))
"""All of them."""
