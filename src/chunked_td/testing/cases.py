"""The cases: small, readable numbers first, random ones of the same kind behind them.

A case is a function of a random generator and of γ and λ that returns the arguments of one call. Without a generator it
returns the small example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Arguments = dict[str, Any]
GARBAGE = 77.0
"""The number at places that must not be read."""


@dataclass(frozen=True)
class Case:
    """One kind of input.

    Args:
      about: one line. build: (generator or None, γ, λ) → arguments. settings: the (γ, λ) that are tried.
      tolerance: of the comparison, relative to the largest number expected. half: whether arrays have 16 bits.
    """

    about: str
    build: Callable[[np.random.Generator | None, float, float], Arguments]
    settings: tuple[tuple[float, float], ...] = ((0.9, 0.5), (0.99, 0.95), (1.0, 0.95), (1.0, 1.0))
    tolerance: float = 1e-4
    half: bool = False

    def examples(self, discount: float, lambda_: float, draws: int) -> Iterator[Arguments]:
        """The small example, then random ones; the one of 16 bits is not random."""
        yield self.build(None, discount, lambda_)
        for seed in range(0 if self.half else draws):
            yield self.build(np.random.default_rng(seed), discount, lambda_)


# ---- rollouts, [T, B]


def _rollout(rng: np.random.Generator | None, steps: int = 3, batch: int = 1) -> Arguments:
    """A rollout without ends: rewards 1, 2, 3 and values 1, 1, 1, …, or random ones."""
    if rng is None:
        rewards = np.arange(1.0, 1.0 + steps * batch).reshape(batch, steps).T
        values = np.ones((steps, batch)) * np.arange(1.0, batch + 1)
        after = np.full((1, batch), 4.0)
    else:
        steps, batch = (int(x) for x in rng.integers(2, 6, size=2)) if batch == 1 else (steps, batch)
        rewards, values = rng.normal(size=(2, steps, batch))
        after = rng.normal(size=(1, batch))
    none = np.zeros(rewards.shape, bool)
    given = {
        "rewards": np.ascontiguousarray(rewards),
        "values": values,
        "next_values": np.concatenate([values[1:], after]),
    }
    return {**given, "terminated": none, "truncated": none.copy()}


def _with(arguments: Arguments, discount: Any, lambda_: Any) -> Arguments:
    return {**arguments, "discount": discount, "lambda_": lambda_}


def _plain(rng: Any, discount: float, lambda_: float) -> Arguments:
    return _with(_rollout(rng), discount, lambda_)


def _ended(flags: tuple[str, ...], other_value: float) -> Callable[..., Arguments]:
    """Episodes that end in the middle; `next_values` there is that of the state they ended in."""

    def build(rng: Any, discount: float, lambda_: float) -> Arguments:
        given = _rollout(rng, 4)
        shape = given["rewards"].shape
        where = np.zeros(shape, bool) if rng is None else rng.random(shape) < 0.3
        where[1 if rng is None else 0, 0] = True
        where[-1] = False
        for flag in flags:
            given[flag] = where.copy()
        given["next_values"] = np.where(where, other_value, given["next_values"])
        return _with(given, discount, lambda_)

    return build


def _ended_last(flag: str) -> Callable[..., Arguments]:
    """The last step of the rollout ends its episode."""

    def build(rng: Any, discount: float, lambda_: float) -> Arguments:
        given = _rollout(rng)
        given[flag] = given[flag].copy()
        given[flag][-1] = True
        if flag == "terminated":
            given["next_values"] = np.where(given[flag], GARBAGE, given["next_values"])
        return _with(given, discount, lambda_)

    return build


def _lambda_per_step(rng: Any, discount: float, lambda_: float) -> Arguments:
    given = _rollout(rng)
    shape = given["rewards"].shape
    per_step = np.array([[0.1], [0.5], [0.9]]) if rng is None else rng.random(shape)
    return _with(given, discount, np.ascontiguousarray(np.broadcast_to(per_step, shape)))


def _lambda_per_row(rng: Any, discount: float, lambda_: float) -> Arguments:
    given = _rollout(rng, 3, 2)
    return _with(given, discount, np.array([[0.2, 0.8]]) if rng is None else rng.random((1, 2)))


def _discount_per_step(rng: Any, discount: float, lambda_: float) -> Arguments:
    given = _rollout(rng)
    shape = given["rewards"].shape
    per_step = np.array([[0.5], [0.8], [1.0]]) if rng is None else rng.random(shape)
    return _with(given, np.ascontiguousarray(np.broadcast_to(per_step, shape)), lambda_)


def _square(rng: Any, discount: float, lambda_: float) -> Arguments:
    given = _rollout(rng, 3, 3)
    return _with(given, discount, lambda_)


def _turned(rng: Any, discount: float, lambda_: float) -> Arguments:
    """The same numbers as views of transposed arrays."""
    given = _rollout(rng, 3, 2)
    views = {name: np.ascontiguousarray(x.T).T for name, x in given.items()}
    return _with(views, discount, lambda_)


def _long_half(rng: Any, discount: float, lambda_: float) -> Arguments:
    """A reward at the end of 1,000 steps, credited through λ = 0.999."""
    rewards, zeros = np.zeros((1_000, 1)), np.zeros((1_000, 1))
    rewards[-1] = 1.0
    none = np.zeros(rewards.shape, bool)
    flags = {"terminated": none, "truncated": none.copy()}
    return _with({"rewards": rewards, "values": zeros, "next_values": zeros.copy(), **flags}, discount, lambda_)


def _one_step(rng: Any, discount: float, lambda_: float) -> Arguments:
    return _with({name: x[:1] for name, x in _rollout(rng).items()}, discount, lambda_)


EDGES = ((0.9, 0.0), (0.0, 0.9), (1.0, 1.0))
ROLLOUT_CASES = {
    "plain": Case("no episode ends; after the last step comes the value of the state it led to", _plain),
    "terminated": Case(
        "nothing is to come after a termination, and no value is read there", _ended(("terminated",), GARBAGE)
    ),
    "terminated at the end": Case("the last step of the rollout terminates", _ended_last("terminated")),
    "truncated": Case(
        "a cut episode bootstraps from the value of the state it was cut in; nothing of the next episode passes",
        _ended(("truncated",), 5.0),
    ),
    "truncated at the end": Case("the last step of the rollout is cut", _ended_last("truncated")),
    "both flags": Case(
        "a step that is terminated and truncated is terminated", _ended(("terminated", "truncated"), GARBAGE)
    ),
    "λ per step": Case("λ of the state that the next step leaves weighs what a step takes from it", _lambda_per_step),
    "λ per row": Case("λ of shape [1, B]", _lambda_per_row),
    "γ per step": Case("a discount of its own for each step", _discount_per_step),
    "batch as long as time": Case("T = B: axes are not mistaken for each other", _square),
    "not contiguous": Case("views of transposed arrays", _turned),
    "16 bits": Case(
        "a λ or γ near 1 is not rounded to the arrays' 16 bits", _long_half, ((1.0, 0.999), (0.999, 1.0)), 0.02, True
    ),
    "edges": Case("λ = 0, γ = 0, and γ = λ = 1", _plain, EDGES),
    "one step": Case("T = 1", _one_step),
}


# ---- tokens, [B, T]


def _tokens(rng: np.random.Generator | None, batch: int = 1, steps: int = 4) -> Arguments:
    """Complete answers: rewards 0, …, 0, 1 and values 0.1, 0.2, …, or random ones."""
    if rng is None:
        rewards = np.zeros((batch, steps))
        rewards[:, -1] = np.arange(1.0, batch + 1)
        values = 0.1 * np.arange(1.0, 1.0 + batch * steps).reshape(batch, steps)
    else:
        if batch == 1:
            batch, steps = int(rng.integers(1, 5)), int(rng.integers(2, 9))
        rewards, values = rng.normal(size=(2, batch, steps))
    return {"rewards": rewards, "values": values, "mask": np.ones(rewards.shape, bool)}


def _all_tokens(rng: Any, discount: float, lambda_: float) -> Arguments:
    return _with(_tokens(rng), discount, lambda_)


def _beside(arguments: Arguments, right: bool, garbage: float) -> Arguments:
    """Two masked tokens before or behind, with values that are garbage and rewards of 0."""
    found = {}
    for name, x in arguments.items():
        fill = {"values": garbage, "rewards": 0.0, "mask": False}[name]
        pad = np.full((len(x), 2), fill, x.dtype)
        found[name] = np.concatenate([x, pad] if right else [pad, x], axis=1)
    return found


def _padded(right: bool, garbage: float = GARBAGE) -> Callable[..., Arguments]:
    def build(rng: Any, discount: float, lambda_: float) -> Arguments:
        return _with(_beside(_tokens(rng), right, garbage), discount, lambda_)

    return build


def _tool(garbage: float) -> Callable[..., Arguments]:
    """A tool's output in the middle: masked tokens between two turns of an answer."""

    def build(rng: Any, discount: float, lambda_: float) -> Arguments:
        given = _tokens(rng, *((1, 6) if rng is None else (3, 9)))
        mask = given["mask"].copy()
        mask[:, 2:4] = False
        values = np.where(mask, given["values"], garbage)
        return _with(
            {"rewards": np.where(mask, given["rewards"], 0.0), "values": values, "mask": mask}, discount, lambda_
        )

    return build


def _nan(rng: Any, discount: float, lambda_: float) -> Arguments:
    given = _beside(_tokens(rng), True, np.nan)
    given["rewards"] = np.where(given["mask"], given["rewards"], np.nan)
    return _with(given, discount, lambda_)


def _integer_mask(rng: Any, discount: float, lambda_: float) -> Arguments:
    given = _beside(_tokens(rng), True, GARBAGE)
    return _with({**given, "mask": given["mask"].astype(np.int64)}, discount, lambda_)


def _masked_reward(rng: Any, discount: float, lambda_: float) -> Arguments:
    """The reward is at the masked token behind the last one of the answer."""
    given = _beside(_tokens(rng), True, GARBAGE)
    rewards = given["rewards"].copy()
    first = rewards.shape[1] - 2
    rewards[:, first] = 1.0 if rng is None else rng.normal(size=len(rewards))
    if rng is None:
        rewards[:, :first] = 0.0
    return _with({**given, "rewards": rewards}, discount, lambda_)


def _ragged(rng: Any, discount: float, lambda_: float) -> Arguments:
    """Answers of several lengths, one of them empty."""
    given = _tokens(rng, *((3, 4) if rng is None else (4, 7)))
    batch, steps = given["rewards"].shape
    lengths = np.array(
        [steps, 2, 0, *(int(x) for x in (rng.integers(1, steps, size=batch - 3) if rng is not None else []))]
    )
    mask = np.arange(steps) < lengths[:, None]
    rewards = np.where(mask, given["rewards"], 0.0)
    return _with(
        {"rewards": rewards, "values": np.where(mask, given["values"], GARBAGE), "mask": mask}, discount, lambda_
    )


def _token_lambdas(per_row: bool) -> Callable[..., Arguments]:
    def build(rng: Any, discount: float, lambda_: float) -> Arguments:
        given = _tokens(rng, 2, 4)
        shape = (2, 1) if per_row else (2, 4)
        small = np.linspace(0.2, 0.9, shape[0] * shape[1]).reshape(shape)
        return _with(given, discount, small if rng is None else rng.random(shape))

    return build


def _square_tokens(rng: Any, discount: float, lambda_: float) -> Arguments:
    return _with(_tokens(rng, 3, 3), discount, lambda_)


def _turned_tokens(rng: Any, discount: float, lambda_: float) -> Arguments:
    given = _tokens(rng, 2, 3)
    return _with({name: np.ascontiguousarray(x.T).T for name, x in given.items()}, discount, lambda_)


def _half_tokens(rng: Any, discount: float, lambda_: float) -> Arguments:
    rewards = np.zeros((1, 1_000))
    rewards[:, -1] = 1.0
    given = {"rewards": rewards, "values": np.zeros((1, 1_000)), "mask": np.ones((1, 1_000), bool)}
    return _with(given, discount, lambda_)


def _cut(rng: Any, discount: float, lambda_: float) -> Arguments:
    given = _tokens(rng, 2, 4)
    return {
        **_with(given, discount, lambda_),
        "last_values": np.array([[5.0], [6.0]]) if rng is None else rng.normal(size=(2, 1)),
    }


def _two_lambdas(rng: Any, discount: float, lambda_: float) -> Arguments:
    return {**_with(_tokens(rng, 2, 4), discount, lambda_), "lambda_value": 1.0 if lambda_ < 1.0 else 0.5}


TOKEN_CASES = {
    "plain": Case("complete answers, no padding", _all_tokens),
    "padding on the right": Case("tokens behind an answer do not matter", _padded(True)),
    "padding on the left": Case("tokens before an answer do not matter", _padded(False)),
    "tool tokens": Case(
        "masked tokens in the middle do not decay credit, and their values are not read", _tool(GARBAGE)
    ),
    "NaN under the mask": Case("numbers that are no numbers at masked tokens do not matter", _nan),
    "integer mask": Case("a mask of 0 and 1 is that of False and True", _integer_mask),
    "ragged": Case("answers of several lengths, one of them empty", _ragged),
    "reward at a masked token": Case("it belongs to the last token before it that is not masked", _masked_reward),
    "λ per token": Case("λ of shape [B, T]", _token_lambdas(False)),
    "λ per row": Case("λ of shape [B, 1]", _token_lambdas(True)),
    "two λ": Case("targets with a λ of their own: f(…, lambda_value=) returns (advantages, targets)", _two_lambdas),
    "cut answers": Case("f(…, last_values=) bootstraps after the last token", _cut),
    "batch as long as time": Case("B = T: axes are not mistaken for each other", _square_tokens),
    "not contiguous": Case("views of transposed arrays", _turned_tokens),
    "16 bits": Case(
        "a λ or γ near 1 is not rounded to the arrays' 16 bits", _half_tokens, ((1.0, 0.999), (0.999, 1.0)), 0.02, True
    ),
    "edges": Case("λ = 0, γ = 0, and γ = λ = 1", _all_tokens, EDGES),
}
