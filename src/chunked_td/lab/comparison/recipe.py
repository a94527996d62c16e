"""How to train an arm by oneself: as Python, and as a line for the shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chunked_td.lab.comparison.arms import ComparisonSettings, scaled
from chunked_td.lab.comparison.sweep import ArmOutcome
from chunked_td.lab.gym_environments import class_in_file, has_features, is_file, make_environment, one_or_all
from chunked_td.lab.study import Arm
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.maturity import Mature
from chunked_td.learners.exploration import EPSILON, EXPLORATIONS, CountBonus, Softmax
from chunked_td.learners.rules import split_rule
from chunked_td.learners.schedule import Schedule

_FIXED = {"sarsa": "SarsaLambda", "expected_sarsa": "ExpectedSarsaLambda", "q_learning": "QLambda"}
_CHUNKED = {"sarsa": "ChunkedSarsa", "expected_sarsa": "ChunkedExpectedSarsa", "q_learning": "QLambda"}


def recipe(arm: Arm) -> tuple[str, dict[str, str]]:
    """The shortest way to make an arm: a class of the package, and the settings that are not its own, as Python."""
    fixed, chunked = _FIXED[arm.learner], _CHUNKED[arm.learner]
    if arm.group in ("fixed", "watkins"):
        cuts = arm.group == "watkins" or fixed != "QLambda" or arm.lambda_source.value == 0.0  # else Q(λ) without cuts
        return fixed, {"lambda_" if cuts else "lambda_source": f"{arm.lambda_source.value:g}"}
    if arm.group == "dyna":
        plans = {"lambda_": "0", "planner": "ctd.Dyna()"}
        return ("DynaQ", {}) if arm.learner == "expected_sarsa" else (fixed, plans)
    if arm.group == "forward" and chunked != "QLambda":
        return chunked, {}
    others = {name: f"ctd.{value!r}" for name, value in split_rule(arm.group)[1].items()}
    return chunked, {"lambda_source": _source(arm.lambda_source, ".py" in arm.group), **others}


def _source(source: LambdaSource, own: bool) -> str:
    """A λ source as Python; `own` where it is in a file of the user's."""
    if isinstance(source, ConstantLambda):
        return f"{source.value:g}"
    if isinstance(source, Mature):
        return f"ctd.Mature({_source(source.source, own)})"
    return f"{'' if own else 'ctd.'}{type(source).__name__}()"


def agent_line(one: ArmOutcome, settings: ComparisonSettings) -> str:
    """The learner with all its settings, as one line of Python."""
    learner, own = recipe(one.arm)
    step_size = scaled(settings.step_size_schedule, float(f"{one.best_step_size:.6g}"))
    parts = [*own.items(), ("step_size", _python(step_size)), ("discount", f"{settings.discount:g}")]
    if settings.exploration is None or settings.exploration.uses_epsilon:
        parts.append(("epsilon", _python(EPSILON if settings.epsilon is None else settings.epsilon)))
    if settings.exploration is not None:
        parts.append(("exploration", _python(settings.exploration)))
    if settings.initial_value:
        parts.append(("initial_value", f"{settings.initial_value:g}"))
    if settings.reward_weights:
        parts.append(("reward_weights", repr(settings.reward_weights)))
    if not settings.action_mask:
        parts.append(("action_mask", "False"))
    if indexer := _indexer(settings):
        parts.append(("indexer", indexer))
    return f"agent = ctd.{learner}(env, {', '.join(f'{name}={value}' for name, value in parts)}, seed=0)"


def script(one: ArmOutcome, settings: ComparisonSettings) -> str:
    """A whole script: environment, learner, training."""
    names = (*settings.wrappers, *(name for name in [settings.indexer] if name and ":" in name))
    imports = [f"from {module} import {name}" for module, _, name in (text.partition(":") for text in names)]
    given = [f"{name}={value!r}" for name, value in settings.env_settings.items()]
    if is_file(settings.env):
        kind = class_in_file(settings.env)
        imports.append(f"from {Path(settings.env.partition('.py')[0]).name} import {kind.__name__}")
        made = f"gym.wrappers.TimeLimit({kind.__name__}({', '.join(given)}), {settings.max_steps})"
    else:
        limit = [f"max_episode_steps={settings.max_steps}"] if _unlimited(settings) else []
        made = f"gym.make({', '.join([repr(settings.env), *given, *limit])})"
    if is_file(one.arm.group):
        path, _, name = one.arm.group.partition(".py:")
        imports.append(f"from {Path(path).name} import {name.partition('+')[0]}")
    lines = ["import gymnasium as gym", "import chunked_td as ctd", *imports, "", f"env = {made}"]
    lines += [f"env = {text.partition(':')[2]}(env)" for text in settings.wrappers]
    return "\n".join([*lines, agent_line(one, settings), f"agent.learn(env, episodes={settings.episodes})"])


def command(one: ArmOutcome, settings: ComparisonSettings) -> str | None:
    """The same as a line for the shell; None where `chunked-td train` has no option for the planner."""
    learner, own = recipe(one.arm)
    words = _words(learner, own, one, settings)
    return None if "planner" in own else " ".join(map(shlex.quote, words))


def _words(learner: str, own: Mapping[str, str], one: ArmOutcome, settings: ComparisonSettings) -> Iterator[str]:
    yield from ("chunked-td", "train", settings.env, "--learner", learner)
    for name, value in own.items():
        if name == "lambda_" or one.arm.group == "fixed":
            yield from ("--lambda" if name == "lambda_" else "--lambda-source", value)
        elif name == "lambda_source":  # the view and the reward source are part of its text
            yield from ("--lambda-source", one.arm.group)
    yield from ("--step-size", f"{one.best_step_size:.6g}", "--discount", f"{settings.discount:g}")
    yield from _exploration_words(settings)
    yield from ("--episodes", str(settings.episodes))
    if settings.step_size_schedule is not None:
        yield from ("--step-size-schedule", *_points(settings.step_size_schedule))
    if settings.initial_value:
        yield from ("--initial-value", f"{settings.initial_value:g}")
    if settings.reward_weights:
        yield from ("--reward-weights", *(f"{weight:g}" for weight in settings.reward_weights))
    if not settings.action_mask:
        yield "--no-action-mask"
    if settings.max_steps != ComparisonSettings.max_steps:
        yield from ("--max-steps", str(settings.max_steps))
    if settings.env_settings:
        yield from ("--env-kwargs", *(f"{name}={value}" for name, value in settings.env_settings.items()))
    for name in ("wrappers", "bins", "low", "high"):
        if given := getattr(settings, name):
            yield from (f"--{name}", *map(str, given))
    if settings.indexer is not None:
        yield from ("--indexer", settings.indexer)


def _exploration_words(settings: ComparisonSettings) -> Iterator[str]:
    exploration = settings.exploration
    if isinstance(exploration, Softmax):
        yield from ("--exploration", "softmax", *_number_words("temperature", exploration.temperature))
        return
    if isinstance(exploration, CountBonus):
        yield from ("--exploration", "count-bonus", "--bonus", f"{exploration.scale:g}")
    yield from _number_words("epsilon", EPSILON if settings.epsilon is None else settings.epsilon)


def _number_words(name: str, value: float | Schedule) -> Iterator[str]:
    if isinstance(value, Schedule):
        yield from (f"--{name}-schedule", *_points(value))
    else:
        yield from (f"--{name}", f"{value:g}")


def _points(schedule: Schedule) -> Iterator[str]:
    return (f"{episode}={value:g}" for episode, value in schedule.points)


def _python(value: Any) -> str:
    """A number, a schedule or a way to explore, as Python."""
    if isinstance(value, float | int):
        return f"{value:g}"
    text = repr(value).replace("Schedule(points=", "ctd.Schedule(").replace(", hold=False", "")
    return f"ctd.{text}" if type(value).__name__ in EXPLORATIONS else text


def _indexer(settings: ComparisonSettings) -> str:
    """How observations are indexed, as Python, the same as `make_indexer_for` makes; "" leaves it to the learner."""
    bounds = ((name, one_or_all(getattr(settings, name))) for name in ("low", "high"))
    given = "".join(f", {name}={value}" for name, value in bounds if value is not None)
    bins, name = one_or_all(settings.bins), settings.indexer
    if name == "fourier":
        return f"ctd.FourierBasis(env, order={bins or 3}{given})"
    if name == "tiles" or (name is None and not bins and _has_features(settings)):
        return f"ctd.TileCoding(env, bins={bins or 8}{given})"
    if bins:
        return f"ctd.Discretise(env, bins={bins}{given})"
    if name in (None, "hash"):
        return "ctd.make_indexer()" if name else ""
    return f"{name.partition(':')[2]}(env)"


def _has_features(settings: ComparisonSettings) -> bool:
    """Whether values are linear in features unless told otherwise."""
    env = make_environment(settings.env, settings.max_steps, settings.env_settings, settings.wrappers)
    try:
        return has_features(env)
    finally:
        env.close()


def _unlimited(settings: ComparisonSettings) -> bool:
    """Whether the environment sets no limit to its episodes, so that one has to be given."""
    import gymnasium as gym

    env = gym.make(settings.env, **settings.env_settings)
    try:
        return env.spec is None or env.spec.max_episode_steps is None
    finally:
        env.close()
