"""How to train an arm by oneself: as Python, and as a line for the shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chunked_td.lab.comparison.arms import CLASSES, ComparisonSettings, scaled
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


def recipe(arm: Arm) -> tuple[str, dict[str, str]]:
    """The shortest way to make an arm: a class of the package, and the settings that are not its own, as Python."""
    fixed, chunked = _FIXED[arm.learner], CLASSES[arm.learner]
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
    given = {name: value for name, value, _ in _settings(one, settings) if name}
    return (
        f"agent = ctd.{learner}(env, {', '.join(f'{name}={value}' for name, value in (own | given).items())}, seed=0)"
    )


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
    if "planner" in own:
        return None
    words = ["chunked-td", "train", settings.env, "--learner", learner]
    if "lambda_" in own:
        words += ["--lambda", own["lambda_"]]
    elif "lambda_source" in own:  # of others, the view and the reward source are part of the group's text
        words += ["--lambda-source", own["lambda_source"] if one.arm.group == "fixed" else one.arm.group]
    return " ".join(map(shlex.quote, [*words, *(word for *_, more in _settings(one, settings) for word in more)]))


def _settings(one: ArmOutcome, settings: ComparisonSettings) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Every setting but the learner's own: keyword and value in Python, and words for the shell; empty for none."""
    size, schedule, exploration = f"{one.best_step_size:.6g}", settings.step_size_schedule, settings.exploration
    yield "step_size", _python(scaled(schedule, float(size))), ("--step-size", size)
    yield "discount", _python(settings.discount), ("--discount", _python(settings.discount))
    if isinstance(exploration, Softmax):
        more = _number_words("temperature", exploration.temperature)
        yield "exploration", _python(exploration), ("--exploration", "softmax", *more)
    elif isinstance(exploration, CountBonus):
        words = ("--exploration", "count-bonus", "--bonus", f"{exploration.scale:g}")
        yield "exploration", _python(exploration), words
    elif exploration is not None:
        yield "exploration", _python(exploration), ()
    if exploration is None or exploration.uses_epsilon:
        epsilon = EPSILON if settings.epsilon is None else settings.epsilon
        yield "epsilon", _python(epsilon), _number_words("epsilon", epsilon)
    yield "", "", ("--episodes", str(settings.episodes))
    if schedule is not None:
        yield "", "", ("--step-size-schedule", *_points(schedule))
    if settings.initial_value:
        yield "initial_value", _python(settings.initial_value), ("--initial-value", _python(settings.initial_value))
    if weights := settings.reward_weights:
        yield "reward_weights", repr(weights), ("--reward-weights", *map(_python, weights))
    if not settings.action_mask:
        yield "action_mask", "False", ("--no-action-mask",)
    if settings.max_steps != ComparisonSettings.max_steps:
        yield "", "", ("--max-steps", str(settings.max_steps))
    if settings.env_settings:
        yield "", "", ("--env-kwargs", *(f"{name}={value}" for name, value in settings.env_settings.items()))
    for name in ("wrappers", "bins", "low", "high"):
        if given := getattr(settings, name):
            yield "", "", (f"--{name}", *map(str, given))
    if indexer := _indexer(settings):
        yield "indexer", indexer, () if settings.indexer is None else ("--indexer", settings.indexer)


def _number_words(name: str, value: float | Schedule) -> tuple[str, ...]:
    return (f"--{name}-schedule", *_points(value)) if isinstance(value, Schedule) else (f"--{name}", _python(value))


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
