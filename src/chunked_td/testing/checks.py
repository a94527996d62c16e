"""The checks: every case, at several γ and λ, against the definitions; and relations that need no right answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chunked_td._checks import check_whole
from chunked_td.testing import definitions
from chunked_td.testing.cases import GARBAGE, ROLLOUT_CASES, TOKEN_CASES, Arguments, Case
from chunked_td.testing.report import CheckReport, Example, NotSupported

Array = Callable[[np.ndarray], Any]
OPTIONAL = ("last_values", "lambda_value")
"""Keywords that only some functions have."""


def check_gae(f: Callable[..., Any], *, array: Array = np.asarray, draws: int = 3) -> CheckReport:
    """Check advantages of rollouts.

    Args:
      f: f(rewards, values, next_values, terminated, truncated, discount, lambda_) returns advantages; arrays are
        [T, B], `discount` and `lambda_` numbers or arrays. `next_values` is the value of the state that a step really
        led to. An adapter of a few lines; it raises `NotSupported` for what the function cannot take.
      array: makes its arrays of NumPy's: `jax.numpy.asarray`, `torch.as_tensor`.
      draws: random examples behind the small one of each case.
    """
    return _run(f, ROLLOUT_CASES, _rollout_answer, array, draws)


def check_token_gae(
    f: Callable[..., Any], *, array: Array = np.asarray, whitened: bool = False, draws: int = 3
) -> CheckReport:
    """Check advantages of batches of tokens.

    Args:
      f: f(rewards, values, mask, discount, lambda_) returns advantages; arrays are [B, T]. Only numbers at tokens
        that are not masked are compared. With keywords `last_values` ([B, 1], of answers that were cut) and
        `lambda_value` (then f returns advantages and targets) two more cases can be expressed.
      whitened: whether f whitens over the tokens that are not masked.
      array, draws: as in `check_gae`.
    """
    cases = dict(TOKEN_CASES)
    if whitened:
        cases = {name: case for name, case in cases.items() if name not in ("two λ", "16 bits")}
    report = _run(f, cases, _whitened_answer if whitened else _token_answer, array, draws)
    report.about |= WIDER
    _wider(f, report, array, whitened)
    return report


def check_relations(
    step: Callable[[Any, Any, Any], Any], *, array: Array = np.asarray, batch: int = 4, steps: int = 8
) -> CheckReport:
    """Check a whole training step for what must not change its result; no right answer is needed.

    Args:
      step: step(rewards, values, mask) returns what is to stay: advantages [B, T], or a loss, gradients or weights as
        one array. Arrays are [B, T]; draw nothing at random inside, or from a fixed seed.
      array: as in `check_gae`. batch, steps: of the batch that is tried.
    """
    check_whole("batch", batch, 2)
    check_whole("steps", steps, 4)
    rng = np.random.default_rng(0)
    mask = np.arange(steps) < rng.integers(2, steps - 1, size=(batch, 1))
    rewards, values = np.where(mask, rng.normal(size=(2, batch, steps)), 0.0)
    report = CheckReport()
    base, problem = _called(step, {"rewards": rewards, "values": values, "mask": mask}, array)
    for name, (about, change, back) in RELATIONS.items():
        report.about[name] = about
        changed = {key: change(key, x) for key, x in {"rewards": rewards, "values": values, "mask": mask}.items()}
        found, error = (None, problem) if problem is not None else _called(step, changed, array)
        if isinstance(error, NotSupported):
            report.not_expressible.append(name)
            continue
        expected = base
        if error is None and base is not None and found is not None and base.shape == mask.shape:
            expected = np.where(mask, base, 0.0)
            found = np.where(mask, back(found), 0.0) if found.shape == changed["mask"].shape else found
        if error is None and _close(found, expected, 1e-4):
            report.passed.append(name)
        else:
            report.failed[name] = Example(changed, found if error is None else error, expected)
    return report


def _garbage(key: str, x: np.ndarray) -> np.ndarray:
    mask = np.arange(x.shape[1]) < np.random.default_rng(0).integers(2, x.shape[1] - 1, size=(len(x), 1))
    return np.where(mask, x, GARBAGE) if key == "values" else x


def _widened(left: bool) -> Callable[[str, np.ndarray], np.ndarray]:
    def change(key: str, x: np.ndarray) -> np.ndarray:
        pad = np.zeros((len(x), 3), x.dtype)
        return np.concatenate([pad, x] if left else [x, pad], axis=1)

    return change


WIDER = {"wider batch": "the same rows give the same numbers among other rows and with more padding"}
RELATIONS: dict[str, tuple[str, Callable[..., np.ndarray], Callable[..., np.ndarray]]] = {
    "values under the mask": ("values at masked tokens do not matter", _garbage, lambda x: x),
    "more padding on the right": ("three more masked tokens behind", _widened(False), lambda x: x[:, :-3]),
    "more padding on the left": ("three more masked tokens before", _widened(True), lambda x: x[:, 3:]),
    "order of rows": ("answers in another order", lambda key, x: x[::-1].copy(), lambda x: x[::-1]),
    "integer mask": (
        "a mask of 0 and 1",
        lambda key, x: x.astype(np.int64) if key == "mask" else x,
        lambda x: x,
    ),
}


def _run(
    f: Callable[..., Any], cases: Mapping[str, Case], answer: Callable[..., Any], array: Array, draws: int
) -> CheckReport:
    if not callable(f):
        raise TypeError(f"f: got {f!r}, takes a function")
    check_whole("draws", draws, 0)
    report = CheckReport(about={name: case.about for name, case in cases.items()})
    for name, case in cases.items():
        found = _check(f, case, answer, array, draws)
        if found is None:
            report.passed.append(name)
        elif isinstance(found, NotSupported):
            report.not_expressible.append(name)
        else:
            report.failed[name] = found
    if array is np.asarray and report.one_exception():
        report.note = _OTHER_ARRAYS
    return report


_OTHER_ARRAYS = "The arrays were NumPy's. If f takes others, pass array=torch.as_tensor or array=jax.numpy.asarray."


def _check(f: Any, case: Case, answer: Any, array: Array, draws: int) -> Example | NotSupported | None:
    """The smallest example that fails, with the γ and λ at which it does; None if all is right."""
    first: Example | None = None
    wrong: list[tuple[float, float]] = []
    fine: list[tuple[float, float]] = []
    for setting in case.settings:
        example = None  # the smallest that fails
        for arguments in sorted(case.examples(*setting, draws), key=lambda x: x["rewards"].size):
            found, problem = _called(f, arguments, _half(array) if case.half else array)
            if isinstance(problem, NotSupported):
                return problem
            expected = answer(arguments)
            if found is not None and "mask" in arguments and found.shape == expected[0].shape:
                found = np.where(arguments["mask"] != 0, found, 0.0)
            if problem is not None or not any(_close(found, each, case.tolerance) for each in expected):
                example = Example(arguments, found if problem is None else problem, expected[0])
                break
        (fine if example is None else wrong).append(setting)
        first = first or example
    return first and Example(first.arguments, first.got, first.expected, tuple(wrong), tuple(fine))


def _called(f: Any, arguments: Arguments, array: Array) -> tuple[Any, BaseException | None]:
    """The result of f as NumPy arrays, and the exception if it raises one."""
    given = dict(arguments)
    optional = {name: given.pop(name) for name in OPTIONAL if name in given}
    if optional and not _takes(f, optional):
        return None, NotSupported(", ".join(optional))
    made = {
        name: array(x.astype(np.float32 if x.dtype.kind == "f" else x.dtype)) if isinstance(x, np.ndarray) else x
        for name, x in (given | optional).items()
    }
    try:
        found = f(*(made[name] for name in given), **{name: made[name] for name in optional})
        if "lambda_value" in optional:
            return np.stack([_as_numpy(x) for x in found]), None
        return _as_numpy(found), None
    except Exception as problem:  # any exception of a user's function is a finding
        return None, problem


def _takes(f: Any, optional: Mapping[str, Any]) -> bool:
    """Whether f has these keywords."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return True
    names = {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY)}
    return any(p.kind is p.VAR_KEYWORD for p in parameters) or optional.keys() <= names


def _as_numpy(found: Any) -> np.ndarray:
    found = found.detach() if hasattr(found, "detach") else found
    return np.asarray(found.tolist() if hasattr(found, "tolist") else found, np.float64)


def _half(array: Array) -> Array:
    """Arrays of 16 bits: bfloat16, and float16 for NumPy."""

    def make(x: np.ndarray) -> Any:
        made = array(x.astype(np.float32) if x.dtype.kind == "f" else x)
        if x.dtype.kind != "f":
            return made
        if hasattr(made, "bfloat16"):
            return made.bfloat16()
        return made.astype(np.float16) if isinstance(made, np.ndarray) else made.astype("bfloat16")

    return make


def _close(found: Any, expected: Any, tolerance: float) -> bool:
    if found is None or expected is None or np.shape(found) != np.shape(expected):
        return False
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0))) if tolerance < 0.01 else 1.0
    return bool(np.all(np.abs(found - expected) <= tolerance * scale)) and not np.isnan(found).any()


def _rollout_answer(arguments: Arguments) -> list[np.ndarray]:
    return [definitions.gae(**arguments)]


def _token_answer(arguments: Arguments) -> list[np.ndarray]:
    given, value = {k: v for k, v in arguments.items() if k != "lambda_value"}, arguments.get("lambda_value")
    advantages = definitions.token_gae(**given)
    if value is None:
        return [advantages]
    targets = definitions.token_gae(**{**given, "lambda_": value}) + np.where(given["mask"], given["values"], 0.0)
    return [np.stack([advantages, targets])]


def _whitened_answer(arguments: Arguments) -> list[np.ndarray]:
    (advantages,) = _token_answer(arguments)
    return [definitions.whitened(advantages, arguments["mask"], ddof) for ddof in (1, 0)]


def _wider(f: Any, report: CheckReport, array: Array, whitened: bool) -> None:
    """The relation "wider batch" of `check_token_gae`: a small example, and a random one behind it."""
    (name,) = WIDER
    rng = np.random.default_rng(0)
    small = np.array([[0.0, 0.0, 1.0]]), np.array([[0.1, 0.2, 0.3]])
    for rewards, values in (small, rng.normal(size=(2, 2, 5))):
        rows, steps = rewards.shape
        alone = {"rewards": rewards, "values": values, "mask": np.ones(rewards.shape, bool)}
        among = {}
        for key, x in alone.items():
            among[key] = np.zeros((rows + 1, steps + 1), x.dtype)
            among[key][:rows, :steps] = x
            among[key][rows:] = 0 if whitened else x[:1, -1:]
        settings = {"discount": 0.9, "lambda_": 0.5}
        expected, first = _called(f, alone | settings, array)
        found, second = _called(f, among | settings, array)
        problem = first or second
        if isinstance(problem, NotSupported):
            report.not_expressible.append(name)
            return
        if problem is None and found.shape == among["mask"].shape:
            found = found[:rows, :steps]
        if problem is not None or not _close(found, expected, 1e-4):
            report.failed[name] = Example(among | settings, problem or found, expected)
            return
    report.passed.append(name)
