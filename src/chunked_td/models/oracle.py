"""True model of compiled dynamics, for the simulation.

`Dynamics.probability` writes the probability of each component's next value; components are independent given state and
action. `Oracle` calls it once per transition and provides the predictions that λ sources require.

`TableOracle` is the true model of a transition table, whose components may depend on each other.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import kernel, slot, static
from chunked_td.models.predictions import Predictions, listed_after

env_probability = slot("dynamics", "probability")


class TrueTransition(NamedTuple):
    """Environment and states of a transition of the simulation."""

    env: Any
    before: Annotated[np.ndarray, "int64[c]"]  # the state that the transition left
    after: Annotated[np.ndarray, "int64[c]"]


class Oracle(NamedTuple):
    """True probabilities; `marginals` is filled only if a source needs all outcomes."""

    every: Any  # static: 1 to compute all actions that the policy may take, 0 for only the action taken
    chances: Annotated[np.ndarray, "float64[A, c]"]  # P(x'^j|x,a) of the sampled next state
    marginals: Annotated[np.ndarray, "float64[A, m]"]  # P(x'^j = v|x,a), components side by side; m is 0 if not needed
    start: Annotated[np.ndarray, "int64[k]"]  # index of component j's first value; k = c + 1
    imagined: Annotated[np.ndarray, "int64[c]"]  # scratch: a next state
    scratch: Annotated[np.ndarray, "float64[c]"]

    chance = staticmethod(Predictions.chance)

    @classmethod
    def empty(cls, nvec: np.ndarray, n_actions: int, *, all_actions: bool, all_outcomes: bool) -> Oracle:
        """Arrays of zeros, before the first transition."""
        c = nvec.size
        start = np.concatenate([[0], np.cumsum(nvec)]).astype(np.int64)
        width = int(start[-1]) if all_outcomes else 0
        chances, marginals = np.zeros((n_actions, c)), np.zeros((n_actions, width))
        return cls(static(int(all_actions)), chances, marginals, start, np.zeros(c, np.int64), np.zeros(c))

    @kernel
    def leave(model, state, before):
        """Store the state that the next transition leaves."""
        for j in range(state.size):
            before[j] = state[j]

    @kernel
    def truth(model, env, before, after):
        """Inputs that this model requires for a transition."""
        return TrueTransition(env, before, after)

    @kernel
    def observe(model, step, counting):
        """Compute the probabilities of the transition, for the actions that the source may use."""
        if model.every:
            for b in range(step.n_actions):
                if step.policy[b] > 0.0 or b == step.action:
                    ask(model, step.truth, b)
        else:
            ask(model, step.truth, step.action)

    @kernel
    def overlap(step, a, b, part):
        """Σ_{x'} P(x'|x,a) P(x'|x,b): a product over independent components."""
        model, product = step.model, 1.0
        for j in range(model.imagined.size):
            if part < 0 or step.tables.parts[part, j]:
                total = 0.0
                for k in range(model.start[j], model.start[j + 1]):
                    total += model.marginals[a, k] * model.marginals[b, k]
                product *= total
        return product

    @kernel
    def following(step, action, outcome):
        """Next state after `outcome`, in the order of ids, that is possible for `action`; −1 if there is none.

        `outcome` is −1 for the first. It counts like an odometer over the values with a probability above zero.
        """
        model, c = step.model, step.model.imagined.size
        left = outcome
        for j in range(c - 1, -1, -1):
            size = step.tables.nvec[j]
            if outcome < 0:
                model.imagined[j] = next_value(model, action, j, -1)
            else:
                model.imagined[j] = left % size
                left //= size
        carry = outcome >= 0
        for j in range(c - 1, -1, -1):
            if carry:
                value = next_value(model, action, j, model.imagined[j])
                carry = value < 0
                model.imagined[j] = next_value(model, action, j, -1) if carry else value
        if carry:
            return -1
        found = 0
        for j in range(c):
            if model.imagined[j] < 0:
                return -1
            found = found * step.tables.nvec[j] + model.imagined[j]
        return found

    @kernel
    def target(step, action, outcome):
        """The next state of an outcome: the number of an outcome is its state id."""
        return outcome

    @kernel
    def weight(step, action, outcome):
        """P of an outcome."""
        model, product = step.model, 1.0
        left = outcome
        for j in range(model.imagined.size - 1, -1, -1):
            size = step.tables.nvec[j]
            product *= model.marginals[action, model.start[j] + left % size]
            left //= size
        return product


class TableOracle(NamedTuple):
    """Probabilities of a transition table; the percept is the next state, without the reward.

    The outcomes k of (x, a) are start[x·A + a] .. start[x·A + a + 1] − 1, sorted by their next state `targets[k]`.
    """

    start: Annotated[np.ndarray, "int64[pairs]"]
    targets: Annotated[np.ndarray, "int64[n]"]
    weights: Annotated[np.ndarray, "float64[n]"]

    target, weight = staticmethod(Predictions.target), staticmethod(Predictions.weight)

    @classmethod
    def make(cls, first: np.ndarray, target: np.ndarray, chance: np.ndarray) -> TableOracle:
        """Merge outcomes of a pair that lead to the same state, from the arrays of a table sorted by pair and state."""
        pair = np.repeat(np.arange(first.size - 1), np.diff(first))
        new = np.append(True, (np.diff(pair) != 0) | (np.diff(target) != 0))
        chances = np.bincount(np.cumsum(new) - 1, chance)
        starts = np.searchsorted(pair[new], np.arange(first.size)).astype(np.int64)
        return cls(starts, target[new], np.minimum(chances, 1.0))

    @kernel
    def chance(step, action, part):
        """P(x'|x, action) of the sampled next state, or of a part of it."""
        model, pair = step.model, step.state * step.n_actions + action
        total = 0.0
        for k in range(model.start[pair], model.start[pair + 1]):
            if part_agrees(step.tables, model.targets[k], step.next_state, part):
                total += model.weights[k]
        return min(total, 1.0)

    @kernel
    def overlap(step, a, b, part):
        """Σ_{x'} P(x'|x,a) P(x'|x,b), or of a part of x'."""
        first, second = step.state * step.n_actions + a, step.state * step.n_actions + b
        model, total = step.model, 0.0
        if part < 0:
            m, end = model.start[second], model.start[second + 1]
            for k in range(model.start[first], model.start[first + 1]):
                while m < end and model.targets[m] < model.targets[k]:
                    m += 1
                if m < end and model.targets[m] == model.targets[k]:
                    total += model.weights[k] * model.weights[m]
            return total
        for k in range(model.start[first], model.start[first + 1]):
            for m in range(model.start[second], model.start[second + 1]):
                if part_agrees(step.tables, model.targets[k], model.targets[m], part):
                    total += model.weights[k] * model.weights[m]
        return total

    @kernel
    def following(step, action, outcome):
        """The outcome after `outcome`, the first after −1; −1 if there is none."""
        return listed_after(step.model.start, step.state * step.n_actions + action, outcome)


def part_agrees(tables, x, y, part):
    """Whether two states, by id, agree in the components of a part; `part` is WHOLE for all components."""
    if part < 0:
        return x == y
    for j in range(tables.nvec.size - 1, -1, -1):
        size = tables.nvec[j]
        if tables.parts[part, j] and x % size != y % size:
            return False
        x //= size
        y //= size
    return True


def ask(model, truth, action):
    """Write the probability of the sampled next state and, if needed, of all possible ones."""
    env_probability(truth.env, truth.before, action, truth.after, model.chances[action])
    if model.marginals.shape[1] > 0:
        fill_marginals(model, truth, action)


def fill_marginals(model, truth, action):
    """Write P(x'^j = v|x, action) for every component j and value v."""
    c = model.imagined.size
    for j in range(c):
        for i in range(c):
            model.imagined[i] = truth.after[i]
        for k in range(model.start[j], model.start[j + 1]):
            model.imagined[j] = k - model.start[j]
            env_probability(truth.env, truth.before, action, model.imagined, model.scratch)
            model.marginals[action, k] = model.scratch[j]


def next_value(model, action, j, value):
    """The next value of component j with a probability above zero, or −1."""
    for k in range(model.start[j] + value + 1, model.start[j + 1]):
        if model.marginals[action, k] > 0.0:
            return k - model.start[j]
    return -1
