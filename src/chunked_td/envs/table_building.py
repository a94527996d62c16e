"""Checked arrays of a `TransitionTable`, from lists, functions, arrays and environments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_whole
from chunked_td._link import compiled
from chunked_td.envs.protocol import Dynamics, legal_masks, start_states

TOLERANCE = 1e-9
"""Largest deviation of a sum of probabilities from 1."""

_MOST_STATES = 2**31 - 1  # a trace indexes rows by int32


class Lists(NamedTuple):
    """Outcomes of all state–action pairs, sorted by pair and next state."""

    states: int
    actions: int
    first: np.ndarray  # int64[S·A + 1], index of the first outcome of a pair
    chance: np.ndarray  # float64[n]
    target: np.ndarray  # int64[n]
    reward: np.ndarray  # float64[n, d]
    ends: np.ndarray  # bool[n]

    @classmethod
    def from_nested(cls, nested: Mapping[int, Any] | Sequence[Any], n_actions: int | None) -> Lists:
        """From `P[s][a] = [(probability, next state, reward, terminated), …]`."""
        rows = _numbered("outcomes", nested)
        columns: tuple[list[Any], ...] = ([], [], [], [], [])
        widest = 0
        for s, given in rows.items():
            actions = _numbered(f"outcomes[{s}]", given)
            widest = max(widest, *(a + 1 for a in actions), 0) if actions else widest
            for a, outcomes in actions.items():
                for outcome in outcomes:
                    _check_outcome(outcome, f"outcomes[{s}][{a}]")
                    for column, value in zip(columns, ((s, a), *outcome), strict=True):
                        column.append(value)
        A = widest if n_actions is None else check_whole("n_actions", n_actions, 1)
        if widest > A:
            raise ValueError(f"n_actions must be at least {widest}, the number of actions in `outcomes`, got {A}")
        if not columns[0]:
            raise ValueError(f"outcomes must hold at least one outcome, got {nested!r}")
        return _checked_lists(max(rows) + 1, A, *columns)

    @classmethod
    def from_dense(cls, P: Any, R: Any, terminal: Any) -> Lists:
        """From P[S, A, S'], R in one of its shapes, and the terminal states."""
        P, R = _floats("P", P), _floats("R", R)
        if P.ndim != 3 or P.shape[0] != P.shape[2] or 0 in P.shape:
            raise ValueError(f"P must have the shape (S, A, S), got {P.shape}")
        S, A, _ = P.shape
        shapes = {(S, A, S): R, (S, A): R[..., None] if R.ndim == 2 else R, (S,): R}
        if R.ndim == 4 and R.shape[:3] == P.shape and R.shape[3] > 0:
            rewards = R
        elif R.shape in shapes:
            rewards = np.broadcast_to(shapes[R.shape], P.shape)[..., None]
        else:
            raise ValueError(f"R must have the shape {(S, A, S)}, {(S, A)}, {(S,)} or {(S, A, S, 'd')}, got {R.shape}")
        ended = flags("terminal", terminal, S, "state")
        s, a, target = np.nonzero(P != 0.0)  # NaN and negative numbers stay; the checks below raise for them
        if not s.size:
            raise ValueError("P must hold at least one probability above zero, got zeros only")
        going = ~ended[s]
        s, a, target = s[going], a[going], target[going]
        pairs = np.stack([s, a], axis=1)
        return _checked_lists(S, A, pairs, P[s, a, target], target, rewards[s, a, target], ended[target])


def _check_outcome(outcome: Any, name: str) -> None:
    if not isinstance(outcome, Sequence) or len(outcome) != 4:
        raise ValueError(f"{name} must list (probability, next state, reward, terminated), got {outcome!r}")


def _numbered(name: str, given: Any) -> dict[int, Any]:
    """{number: entry} from a dict or a list."""
    if isinstance(given, Mapping):
        entries = dict(given)
    elif isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, str):
        entries = dict(enumerate(given))
    else:
        raise TypeError(f"{name} must be a dict or a list, got {given!r}")
    for key in entries:
        if isinstance(key, bool) or not isinstance(key, (int, np.integer)) or key < 0:
            raise ValueError(f"{name} must have whole numbers from 0 as keys, got {key!r}")
    return {int(key): value for key, value in entries.items()}


def _floats(name: str, given: Any) -> np.ndarray:
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers, got {given!r}") from None


def _checked_lists(S: int, A: int, pairs: Any, chance: Any, target: Any, reward: Any, ends: Any) -> Lists:
    """Check every number, drop outcomes of probability 0, merge equal outcomes of a pair and sort."""
    pairs, chance = np.asarray(pairs, np.int64), _floats("probabilities", chance)
    if S * A > _MOST_STATES:
        raise ValueError(f"states × actions must be below 2³¹, got {S} × {A}")
    d = {np.size(r) for r in reward}
    if len(d) != 1 or 0 in d:
        raise ValueError(f"rewards must be numbers, or vectors of one length, got the lengths {sorted(d)}")
    rewards = _floats("rewards", reward).reshape(chance.size, -1)
    targets, ended = np.asarray(target), np.asarray(ends)
    whole = np.array([isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in target])
    good = whole & (targets >= 0) & (targets < S) if whole.all() else whole
    _refuse(~good, pairs, f"a next state must be a whole number in 0..{S - 1}", target)
    _refuse(~((chance >= 0) & (chance <= 1 + TOLERANCE)), pairs, "a probability must be in [0, 1]", chance)
    _refuse(~np.isfinite(rewards).all(axis=1), pairs, "a reward must be finite", reward)
    _refuse([e not in (True, False) for e in ended.tolist()], pairs, "`terminated` must be True or False", ends)
    keys = np.column_stack([pairs[:, 0] * A + pairs[:, 1], targets.astype(np.int64), ended.astype(bool)])
    keep = chance > 0
    _, some, same = np.unique(np.column_stack([keys, rewards])[keep], axis=0, return_index=True, return_inverse=True)
    merged = np.bincount(same.ravel(), chance[keep])
    pair, target_, ends_ = keys[keep][some].T
    first = np.searchsorted(pair, np.arange(S * A + 1)).astype(np.int64)
    listed = np.unique(keys[:, 0])
    total = np.bincount(pair, merged, minlength=S * A)[listed]
    wrong = np.abs(total - 1) > TOLERANCE
    if wrong.any():
        s, a = divmod(int(listed[wrong][0]), A)
        raise ValueError(
            f"probabilities must sum to 1 for every state and action (within {TOLERANCE:g}), "
            f"got {float(total[wrong][0])!r} in state {s} for action {a}"
        )
    rewards_ = np.ascontiguousarray(rewards[keep][some])
    return Lists(S, A, first, merged, np.ascontiguousarray(target_), rewards_, ends_.astype(bool))


def _refuse(wrong: Any, pairs: np.ndarray, accepted: str, given: Any) -> None:
    """Raise for the first outcome that is wrong."""
    found = np.flatnonzero(wrong)
    if found.size:
        s, a = pairs[found[0]].tolist()
        got = given[found[0]]
        got = got.tolist() if isinstance(got, (np.generic, np.ndarray)) else got
        raise ValueError(f"{accepted}, got {got!r} in state {s} for action {a}")


def check_nvec(nvec: Any, S: int) -> np.ndarray:
    """Check and return the sizes of the state components, int64[c]."""
    sizes = np.array([S] if nvec is None else [check_whole("nvec", n, 1) for n in nvec], np.int64)
    if not sizes.size or int(sizes.prod()) != S:
        raise ValueError(f"nvec must have the product {S}, the number of states, got {tuple(sizes.tolist())}")
    return sizes


def flags(name: str, given: Any, size: int, what: str) -> np.ndarray:
    """bool[size] from a list of indices, or from such an array."""
    array = np.asarray(given if isinstance(given, np.ndarray) else list(given))
    if array.dtype == bool and array.shape == (size,):
        return array.copy()
    if array.size and (array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= size):
        raise ValueError(f"{name} must hold numbers of {what}s in 0..{size - 1}, or bool[{size}], got {given!r}")
    marked = np.zeros(size, bool)
    marked[array.astype(np.int64)] = True
    return marked


def legal_sets(lists: Lists, legal: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sets of legal actions, the index of each state's set, and the only action of each set or −1."""
    S, A = lists.states, lists.actions
    offered = (np.diff(lists.first) > 0).reshape(S, A)
    if legal is None:
        mask = offered
    else:
        given = np.asarray(legal)
        if given.shape == (S,) and given.dtype.kind in "iu":
            mask = np.arange(A) < given[:, None]
            if ((given < 0) | (given > A)).any():
                raise ValueError(f"legal must be numbers of actions in 0..{A}, got {given}")
        elif given.shape == (S, A) and (given.dtype == bool or np.isin(given, (0, 1)).all()):
            mask = given.astype(bool)
        else:
            raise ValueError(f"legal must be int64[{S}] or bool[{S}, {A}], got {legal!r}")
        if (mask & ~offered).any():
            s, a = np.argwhere(mask & ~offered)[0].tolist()
            raise ValueError(f"legal must hold actions that have outcomes, got action {a} in state {s}, which has none")
    count = mask.sum(axis=1)
    leading = (mask == (np.arange(A) < count[:, None])).all(axis=1)
    others, which = np.unique(mask[~leading], axis=0, return_inverse=True)
    masks = np.concatenate([np.tril(np.ones((A + 1, A), bool), -1), others])
    choices = count.astype(np.int64)
    choices[~leading] = A + 1 + which.ravel()
    only = np.where(masks.sum(axis=1) == 1, masks.argmax(axis=1), -1).astype(np.int64)
    return masks, choices, only


def check_starts(starts: Any, S: int) -> tuple[np.ndarray, np.ndarray]:
    """Check and return the start states, sorted, and their probabilities above zero."""
    if isinstance(starts, Mapping):
        states, chance = np.array(list(starts)), _floats("starts", list(starts.values()))
    else:
        array = np.atleast_1d(np.asarray(starts))
        if array.dtype.kind == "f" and array.shape == (S,):
            states, chance = np.arange(S), array.astype(np.float64)
        else:
            states, chance = array, np.full(array.shape, 1 / max(array.size, 1))
    whole = states.ndim == 1 and states.size > 0 and states.dtype.kind in "iu"
    if not whole or states.min() < 0 or states.max() >= S or np.unique(states).size < states.size:
        raise ValueError(
            f"starts must be a state in 0..{S - 1}, different states, float64[{S}] or a dict from state to "
            f"probability, got {starts!r}"
        )
    if not ((chance >= 0) & (chance <= 1 + TOLERANCE)).all() or abs(chance.sum() - 1) > TOLERANCE:
        raise ValueError(f"starts must have probabilities that sum to 1, got {starts!r}")
    order = np.argsort(states)
    order = order[chance[order] > 0]
    return states[order].astype(np.int64), chance[order]


def check_horizon(lists: Lists, legal: np.ndarray, start: np.ndarray, horizon: Any) -> int:
    """`horizon`, by default the longest episode. Raises ValueError for reachable states without a legal action."""
    seen = np.zeros(lists.states, bool)
    seen[start] = True
    wave = start
    while wave.size:
        _, target = _edges(lists, legal, wave)
        found = np.unique(target)
        wave = found[~seen[found]]
        seen[wave] = True
    stuck = np.flatnonzero(seen & ~legal.any(axis=1))
    if stuck.size:
        raise ValueError(
            f"state {stuck[0]} is reachable and has no legal action; outcomes that lead to it must have "
            f"terminated=True, or it must have an action"
        )
    if horizon is not None:
        return check_whole("horizon", horizon, 1, 10_000_000)
    states = np.flatnonzero(seen)
    waves = longest_paths(states.size, *(np.searchsorted(states, ends) for ends in _edges(lists, legal, states)))
    if waves is None:
        raise ValueError(
            "horizon must be given if states can recur: the number of transitions after which an episode is "
            "truncated; got None"
        )
    return int(waves.max()) + 1


def _edges(lists: Lists, legal: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(state, next state) of every nonterminal outcome of a legal action in `states`."""
    s, a = np.nonzero(legal[states])
    pairs = states[s] * lists.actions + a
    counts = lists.first[pairs + 1] - lists.first[pairs]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    outcomes = np.repeat(lists.first[pairs], counts) + within
    going = ~lists.ends[outcomes]
    return np.repeat(states[s], counts)[going], lists.target[outcomes][going]


def longest_paths(count: int, source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Length of the longest path to each of `count` states along the edges source → target; None for cycles."""
    waiting = np.bincount(target, minlength=count)
    wave, length, settled, step = np.flatnonzero(waiting == 0), np.zeros(count, np.int64), 0, 0
    by_source = np.argsort(source, kind="stable")
    bounds = np.searchsorted(source[by_source], np.arange(count + 1))
    while wave.size:
        settled += wave.size
        length[wave] = step
        edges = np.concatenate([by_source[bounds[s] : bounds[s + 1]] for s in wave])
        waiting -= np.bincount(target[edges], minlength=count)
        reached = np.unique(target[edges])
        wave, step = reached[waiting[reached] == 0], step + 1
    return length if settled == count else None


def alias_tables(first: np.ndarray, chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's alias tables for every list of outcomes first[i]..first[i + 1] − 1."""
    accept, alias = np.ones(chance.size), np.arange(chance.size)
    longest = int(np.diff(first).max(initial=0))
    compiled(fill_alias_tables)(first.astype(np.int64), chance, accept, alias, np.zeros(longest, np.int64))
    return accept, alias


def fill_alias_tables(first, chance, accept, alias, stack):
    """Fill alias tables by Vose's method: top up small entries from large ones until all are full.

    Args:
      accept: float64[n], alias: int64[n], written. stack: int64[longest], small entries from the left, large ones from
        the right.
    """
    for i in range(first.size - 1):
        begin, count = first[i], first[i + 1] - first[i]
        total = 0.0
        for k in range(begin, begin + count):
            total += chance[k]
        small, large = 0, count
        for k in range(begin, begin + count):
            accept[k] = chance[k] * count / total
            alias[k] = k
            if accept[k] < 1.0:
                stack[small] = k
                small += 1
            else:
                large -= 1
                stack[large] = k
        while small > 0 and large < count:
            small -= 1
            poor, rich = stack[small], stack[large]
            alias[poor] = rich
            accept[rich] -= 1.0 - accept[poor]
            if accept[rich] < 1.0:
                large += 1
                stack[small] = rich
                small += 1
        while small > 0:  # entries left over by rounding
            small -= 1
            accept[stack[small]] = 1.0


# ---- from functions and dynamics


class Found(NamedTuple):
    """States that a function's outcomes lead to, in the order of discovery."""

    states: list[Any]
    number: dict[Any, int]
    outcomes: dict[int, dict[int, list[tuple[Any, ...]]]]
    starts: dict[int, float]


def enumerate_states(
    outcomes: Callable[[Any, int], Iterable[Sequence[Any]]], starts: Any, n_actions: int, most: int = 2_000_000
) -> Found:
    """All reachable states by breadth-first search; `outcomes` is not called for terminal states."""
    given = _start_states(starts)
    number = {state: i for i, state in enumerate(given)}
    states, listed = list(number), {}
    queue = list(states)
    queued = set(queue)
    for state in queue:  # grows during the loop
        listed[number[state]] = choices = {}
        for action in range(n_actions):
            for outcome in outcomes(state, action):
                _check_outcome(outcome, f"outcomes({state!r}, {action})")
                chance, successor, reward, ended = outcome
                if successor not in number:
                    if len(states) >= most:
                        raise ValueError(f"outcomes must lead to at most {most:,} states, got more")
                    number[successor] = len(states)
                    states.append(successor)
                if not ended and successor not in queued:
                    queued.add(successor)
                    queue.append(successor)
                choices.setdefault(action, []).append((chance, number[successor], reward, ended))
    for i in range(len(states)):
        listed.setdefault(i, {})
    return Found(states, number, listed, {number[state]: p for state, p in given.items()})


def _start_states(starts: Any) -> dict[Any, float]:
    """{state: probability}; states of a list are equally likely, anything else is one state."""
    if isinstance(starts, Mapping):
        return dict(starts)
    states = list(dict.fromkeys(starts)) if isinstance(starts, list) else [starts]
    return {state: 1 / len(states) for state in states}


def reachable_states(env: Dynamics, starts: Mapping[tuple[int, ...], float]) -> Found:
    """All states that episodes from these starts can reach, and the outcomes of their legal actions."""
    masks = legal_masks(env)

    def listed(state: tuple[int, ...], action: int) -> Sequence[Any]:
        return env.outcomes(state, action) if masks[env.legal(env, np.array(state, np.int64))][action] else ()

    return enumerate_states(listed, dict(starts), env.n_actions)


def from_dynamics(env: Dynamics, starts: Any) -> tuple[Lists, dict[int, float]]:
    """Outcomes and start states of other dynamics, by state id."""
    found = reachable_states(env, start_states(env) if starts is None else _start_states(starts))
    ids = np.ravel_multi_index(tuple(np.array(found.states).reshape(-1, len(env.nvec)).T), env.nvec).tolist()
    nested: dict[int, Any] = {int(np.prod(env.nvec)) - 1: {}}
    for i, actions in found.outcomes.items():
        nested[ids[i]] = {a: [(p, ids[j], r, e) for p, j, r, e in rows] for a, rows in actions.items()}
    return Lists.from_nested(nested, env.n_actions), {ids[i]: p for i, p in found.starts.items()}
