"""Recipes: a Python script and a shell line that train an arm; the line that compares again with another wrapper."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from chunked_td.comparison.arms import DYNA, FIXED, Candidate
from chunked_td.comparison.results import Outcome
from chunked_td.comparison.running import CLASSES, problem_of
from chunked_td.comparison.settings import Settings, short
from chunked_td.envs.by_name import class_in_file, is_file, one_or_all
from chunked_td.learners.schedule import Schedule, scaled

_FIXED = {"sarsa": "SarsaLambda", "expected_sarsa": "ExpectedSarsaLambda", "q_learning": "QLambda"}
_ONLY_COMPARE = ("seeds", "lambdas", "bootstraps", "sources", "lambda_source", "step_sizes", "extend", "compiled")
"""Settings without an option of `chunked-td train`."""


def learner_of(arm: Candidate) -> tuple[str, dict[str, str]]:
    """A learner's class in this package, and the arguments that differ from its defaults, as Python."""
    if arm.kind == FIXED:
        return _FIXED[arm.bootstrap], {"lambda_": short(arm.value)}
    if arm.rule == DYNA:
        plain = arm.bootstrap == "expected_sarsa"
        return ("DynaQ", {}) if plain else (_FIXED[arm.bootstrap], {"lambda_": "0", "planner": "ctd.Dyna()"})
    source, options = arm.made
    value = getattr(source, "value", None)
    own = "" if is_file(arm.rule) else "ctd."
    found = {"lambda_source": f"{own}{type(source).__name__}()" if value is None else short(value)}
    found |= {name: f"ctd.{value!r}" for name, value in options.items()}
    return CLASSES[arm.bootstrap], {} if arm.rule == "forward" and arm.bootstrap != "q_learning" else found


def agent_line(one: Outcome, settings: Settings) -> str:
    """The learner with all its settings, as one line of Python."""
    learner, own = learner_of(one.arm)
    given = {
        "step_size": _python(scaled(settings.step_size_schedule, float(f"{one.best_step_size:.6g}"))),
        "discount": _python(settings.discount),
        "epsilon": _python(settings.exploring),
        "exploration": "" if settings.bonus is None else f"ctd.CountBonus({short(settings.bonus)})",
        "initial_value": _python(settings.initial_value) if settings.initial_value else "",
        "reward_weights": repr(settings.reward_weights) if settings.reward_weights else "",
        "action_mask": "" if settings.action_mask else "False",
        "indexer": _indexer(settings),
    }
    texts = ", ".join(f"{name}={value}" for name, value in (own | given).items() if value)
    return f"agent = ctd.{learner}(env, {texts}, seed=0)"


def script(one: Outcome, settings: Settings) -> str:
    """A script: environment, learner, training."""
    named = [*settings.wrappers, *([settings.indexer] if ":" in (settings.indexer or "") else [])]
    imports = [f"from {module} import {name}" for module, _, name in (text.partition(":") for text in named)]
    given = [f"{name}={value!r}" for name, value in settings.env_settings.items()]
    if is_file(settings.env):
        kind = class_in_file(settings.env).__name__
        imports.append(f"from {Path(settings.env.partition('.py')[0]).name} import {kind}")
        made = f"gym.wrappers.TimeLimit({kind}({', '.join(given)}), {settings.max_steps})"
    else:
        limit = [f"max_episode_steps={settings.max_steps}"] if _unlimited(settings) else []
        made = f"gym.make({', '.join([repr(settings.env), *given, *limit])})"
    if is_file(one.arm.rule):
        path, _, name = one.arm.rule.partition(".py:")
        imports.append(f"from {Path(path).name} import {name.partition('+')[0]}")
    lines = ["import gymnasium as gym", "import chunked_td as ctd", *imports, "", f"env = {made}"]
    lines += [f"env = {text.partition(':')[2]}(env)" for text in settings.wrappers]
    lines += [agent_line(one, settings), f"history = agent.learn(env, episodes={settings.episodes})"]
    return "\n".join(lines)


def _unlimited(settings: Settings) -> bool:
    """Whether the environment sets no limit to its episodes, so that one has to be given."""
    import gymnasium as gym

    env = gym.make(settings.env, **settings.env_settings)
    env.close()
    return env.spec is None or env.spec.max_episode_steps is None


def command(one: Outcome, settings: Settings) -> str | None:
    """The `chunked-td train` line; None if it has no option for the planner."""
    learner, own = learner_of(one.arm)
    if "planner" in own:
        return None
    words = ["chunked-td", "train", settings.env, "--learner", learner]
    if "lambda_" in own:
        words += ["--lambda", own["lambda_"]]
    elif own:  # the trace and the TD error are part of the rule's text
        words += ["--lambda-source", one.arm.rule]
    words += ["--step-size", f"{one.best_step_size:.6g}"]
    words += ["--discount", short(settings.discount), *_words("epsilon", settings.exploring)]
    return shlex.join([*words, *_options(settings, (*_ONLY_COMPARE, "discount", "epsilon"))])


def compare_again(settings: Settings, wrapper: str) -> str:
    """The `chunked-td compare` line with one more wrapper and every option that was given."""
    more = replace(settings, wrappers=(*settings.wrappers, wrapper))
    return shlex.join(["chunked-td", "compare", settings.env, *_options(more, ())])


def _options(settings: Settings, without: Sequence[str]) -> Iterator[str]:
    """Words for the settings that differ from their defaults."""
    usual = Settings("")
    for name in (field.name for field in fields(Settings) if field.name not in ("env", *without)):
        if (value := getattr(settings, name)) != getattr(usual, name):
            yield from _words({"env_settings": "env-kwargs"}.get(name, name.replace("_", "-")), value)


def _words(name: str, value: Any) -> list[str]:
    """An option with its value."""
    if isinstance(value, bool):
        return [f"--{'' if value else 'no-'}{name}"]
    if isinstance(value, Schedule):
        option = name if name.endswith("schedule") else f"{name}-schedule"
        return [f"--{option}", *(f"{episode}={number:g}" for episode, number in value.points)]
    if isinstance(value, dict):
        return [f"--{name}", *(f"{key}={item}" for key, item in value.items())]
    if name == "lambda-source":
        return [word for text in value for word in ("--lambda-source", text)]
    return [f"--{name}", *map(_plain, value if isinstance(value, tuple) else (value,))]


def _plain(value: Any) -> str:
    return short(value) if isinstance(value, float) else str(value)


def _python(value: float | Schedule) -> str:
    """A number or a schedule, as Python."""
    return f"ctd.Schedule({value.points!r}, hold={value.hold})" if isinstance(value, Schedule) else short(value)


def _indexer(settings: Settings) -> str:
    """The mapping from observations to states, as Python; "" leaves it to the learner."""
    bounds = ((name, one_or_all(getattr(settings, name))) for name in ("low", "high"))
    given = "".join(f", {name}={value}" for name, value in bounds if value is not None)
    bins, name = one_or_all(settings.bins), settings.indexer
    if name == "tiles" or (name is None and not bins and problem_of(settings.problem()).features):
        return f"ctd.TileCoding(env, bins={bins or 8}{given})"
    if bins:
        return f"ctd.Discretise(env, bins={bins}{given})"
    if name in (None, "hash"):
        return "ctd.make_indexer()" if name else ""
    return f"{name.partition(':')[2]}(env)"
