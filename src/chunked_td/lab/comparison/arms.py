"""What is compared: every λ source with every bootstrap, so that neither is taken for the other; as a protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunked_td import lambdas
from chunked_td._checks import check_choice, did_you_mean
from chunked_td.lab.gym_environments import make_indexer_for
from chunked_td.lab.study import Arm, Environment, Protocol, Size
from chunked_td.lambdas.base import MODEL
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.names import current_id
from chunked_td.lambdas.reading import read_sources, required_settings
from chunked_td.lambdas.watkins import WatkinsLambda
from chunked_td.learners.exploration import EPSILON, Exploration
from chunked_td.learners.planning.dyna import Dyna
from chunked_td.learners.rules import PARTS, read_rule
from chunked_td.learners.schedule import Schedule

BOOTSTRAPS = {"sarsa": "SARSA", "expected_sarsa": "Expected-SARSA", "q_learning": "Q-learning"}
"""Bootstraps and what tables call them."""

CLASSES = {"sarsa": "ChunkedSarsa", "expected_sarsa": "ChunkedExpectedSarsa", "q_learning": "QLambda"}

DYNA = "dyna"
"""The rival that plans instead of choosing λ."""

SOURCES = {
    cls.id: cls.label
    for cls in lambdas.SOURCES.values()
    if cls.id == "watkins" or not (required_settings(cls) or cls.per_component)
}
SOURCES[DYNA] = "Dyna (λ = 0)"
"""λ sources besides the fixed λs, and Dyna: their labels by id. Watkins' cuts are for Q-learning, with the λs of the
grid."""

BY_DEFAULT = tuple(id for id in SOURCES if id == DYNA or lambdas.SOURCES[id].by_default)
"""Sources compared by default; each further one has to be compiled for every bootstrap."""

FOR_VALUES = (*BY_DEFAULT, "lineage+luck")
"""The same for the question of values, with the rule that had better values than fixed λs on held-out problems."""

WITH_FEATURES = tuple(id for id in BY_DEFAULT if id != DYNA)
"""The same where values are linear in features, without those that plan; and the sources that need features."""
WITH_FEATURES += tuple(id for id, cls in lambdas.FEATURE_SOURCES.items() if cls.by_default)

PLANS = {DYNA: "with ten more updates a step, from a learned model"}
"""Sources that plan, and what that costs."""

RETURNS, VALUES = "returns", "values"
SCORES = {
    RETURNS: "mean return of all training episodes, exploration included",
    VALUES: "negated root mean square error of the values of acting at random (0 is exact), mean over training",
}
"""Questions, and what arms are ranked by."""

_CHECKPOINTS = 50
LARGEST = 1.0
"""Grids of step sizes do not extend beyond it."""
RANDOM = "random"
"""Source of the arm that acts at random, which is not ranked."""

_PROBLEM = (
    "env", "max_steps", "env_settings", "wrappers", "bins", "low", "high", "indexer", "action_mask", "reward_weights",
)  # fmt: skip


@dataclass(frozen=True)
class ComparisonSettings:
    """What to compare.

    Args:
      env: id of a Gymnasium environment.
      episodes: episodes per run.
      max_steps: steps after which an episode is cut off, where the environment sets no limit.
      seeds: runs per arm and step size; None is 20 where runs are compiled, 10 elsewhere.
      lambdas: the grid of fixed λs.
      step_sizes: step sizes to begin with.
      bootstraps: keys of `BOOTSTRAPS`.
      sources: ids of `SOURCES`, by default those of `BY_DEFAULT`; or Python files, as `read_sources` takes them; with
        "+mature", "+lineage" and "+luck" behind them, see `learners.rules`.
      discount: γ. epsilon: exploration; None is 0.1, or nothing where `exploration` has no ε.
      exploration: how to explore where it is not ε-greedily.
      extend: how often the grid of step sizes may grow at either end.
      step_size_schedule: factors that multiply every step size over the episodes.
      initial_value: of all rows of the table.
      reward_weights: a factor for every component of the reward; () is 1 each.
      env_settings: keyword arguments for `gymnasium.make`. wrappers: "module:Class", innermost first.
      bins: bins per dimension of a Box; low, high: its bounds, see `chunked_td.Discretise`.
      indexer: "hash", or "module:function" from an environment to an indexer; see `gym_environments.make_indexer_for`.
      action_mask: obey `info["action_mask"]` where there is one.
      compiled: run compiled where that is possible.
      question: "returns", or "values": every arm evaluates the policy that acts at random, from the same episodes for
        a seed, and is scored by its distance to the exact values; the environment's table must be known.
    """

    env: str
    episodes: int
    max_steps: int = 1_000
    seeds: int | None = None
    lambdas: tuple[float, ...] = (0.0, 0.5, 0.8, 0.9, 0.95, 1.0)
    step_sizes: tuple[float, ...] = (0.05, 0.2, 0.8)
    bootstraps: tuple[str, ...] = ("sarsa", "expected_sarsa")
    sources: tuple[str, ...] = BY_DEFAULT
    discount: float = 0.99
    epsilon: float | Schedule | None = None
    exploration: Exploration | None = None
    extend: int = 3
    step_size_schedule: Schedule | None = None
    initial_value: float = 0.0
    reward_weights: tuple[float, ...] = ()
    env_settings: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[str, ...] = ()
    bins: tuple[int, ...] = ()
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    indexer: str | None = None
    action_mask: bool = True
    compiled: bool = True
    question: str = RETURNS

    @property
    def score(self) -> str:
        """What arms are ranked by."""
        return SCORES[self.question]

    @property
    def score_axis(self) -> str:
        """The same for axes and columns."""
        return "mean return" if self.question == RETURNS else "negated error of values"

    @property
    def every(self) -> int:
        """Episodes between checkpoints."""
        return -(-self.episodes // _CHECKPOINTS)

    @property
    def marks(self) -> np.ndarray:
        """Numbers of finished episodes at which the mean return since the last one is kept."""
        return np.unique([*range(self.every, self.episodes, self.every), self.episodes])

    @property
    def ladder(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Every step size that may be tried, in order, and the indices of those to begin with.

        The grid's first and last factors go on, `extend` times and not beyond 1; a single size goes on by factors of 2.
        """
        grid = sorted(dict.fromkeys(map(float, self.step_sizes)))
        below, above = (grid[1] / grid[0], grid[-1] / grid[-2]) if len(grid) > 1 else (2.0, 2.0)
        low, high = grid[:1], grid[-1:]
        for _ in range(self.extend):
            low.insert(0, low[0] / below)
            if high[-1] < LARGEST:
                high.append(min(high[-1] * above, LARGEST))
        return (*low[:-1], *grid, *high[1:]), tuple(range(len(low) - 1, len(low) - 1 + len(grid)))


def why_not_compiled(settings: ComparisonSettings) -> str:
    """Why runs cannot be compiled, before the environment is asked; "" where nothing speaks against it."""
    if not settings.compiled:
        return "asked for by --no-compiled"
    if settings.wrappers or settings.bins or settings.indexer:
        return "wrappers, bins and indexers are not part of the compiled dynamics"
    if settings.reward_weights:
        return "compiled runs take no weights of reward components"
    return "" if settings.step_size_schedule is None else "compiled runs take no schedule of step sizes"


def problem_arguments(settings: ComparisonSettings) -> dict[str, Any]:
    """What makes the environment and its states, as plain values."""
    found = {name: getattr(settings, name) for name in _PROBLEM} | {"compiled": not why_not_compiled(settings)}
    return found if settings.question == RETURNS else found | {"question": settings.question}


def make_arm(bootstrap: str, source: str, value: float = 0.0, settings: ComparisonSettings | None = None) -> Arm:
    """A learner to compare, without step sizes; its `group` is `source`.

    Args:
      bootstrap: a key of `BOOTSTRAPS`.
      source: an id of `SOURCES`, "fixed", `RANDOM`, "mine.py:MyLambda", or a rule such as "value+lineage".
      value: λ where it is fixed, or cut as Watkins' is.
      settings: how to explore.
    """
    options: dict[str, Any] = {}
    if source in ("fixed", DYNA, RANDOM):
        found = ConstantLambda(value)
    elif source == "watkins":
        found = WatkinsLambda(value)
    else:
        found, options = read_rule(source, "sources")
    parts = [part for part in PARTS if part in source.split("+")]
    plain = f"λ = {found.value:g}" if isinstance(found, ConstantLambda) else found.label
    special = {"fixed": f"lambda-{value:g}", "watkins": f"watkins-{value:g}", DYNA: DYNA, RANDOM: RANDOM}
    name = special.get(source, found.id)
    if "+" in source or parts:  # of a file, the class
        name = source.rpartition(":")[2].replace("+", "-")
    ends = {DYNA: SOURCES[DYNA], "watkins": f"{plain} (λ = {value:g})"}
    label = f"{BOOTSTRAPS[bootstrap]}, {ends.get(source) or ', '.join([plain, *parts])}"
    if settings is not None and source != RANDOM and settings.question != VALUES:
        options = _exploration(settings) | options
    elif settings is not None:
        options = {"epsilon": 1.0} | options
    return Arm(
        f"{bootstrap}-{name}",
        "random policy" if source == RANDOM else label,
        bootstrap,
        found,
        "counts" if found.needs & MODEL else None,
        in_paper=False,
        options=options | ({"planner": Dyna()} if source == DYNA else {}),
        group=source,
    )


def source_label(arm: Arm) -> str:
    """What tables call the λ source of an arm."""
    return arm.label.partition(", ")[2]


def color_of(arm: Arm) -> str:
    """The colour of its λ source; for fixed λs a blue that is darker where λ is larger; grey for planning."""
    if arm.group == "fixed":
        shade = 0.35 + 0.65 * arm.lambda_source.value
        return "#" + "".join(f"{round(255 - (255 - channel) * shade):02x}" for channel in (0, 114, 178))
    return "#666666" if arm.group in (DYNA, RANDOM) else arm.lambda_source.color


def _exploration(settings: ComparisonSettings) -> dict[str, Any]:
    """Arguments of `running.play` beside the problem, where they are not the default; ε always."""
    names = ("exploration", "step_size_schedule")
    found = {name: getattr(settings, name) for name in names if getattr(settings, name) is not None}
    first = {"initial_value": settings.initial_value} if settings.initial_value else {}
    return {"epsilon": settings.epsilon} | found | first


def learner_for(
    env: Any,
    settings: ComparisonSettings,
    *,
    learner: str,
    step_size: float,
    step_size_schedule: Schedule | None = None,
    **arm: Any,
) -> Any:
    """A learner for the Gymnasium loop."""
    from chunked_td.learners.inputs import learner_by_name

    return learner_by_name(CLASSES[learner])(
        env,
        step_size=scaled(step_size_schedule, step_size),
        action_mask=settings.action_mask,
        reward_weights=settings.reward_weights or None,
        indexer=make_indexer_for(env, settings.bins, settings.low, settings.high, settings.indexer),
        **arm,
    )


def scaled(schedule: Schedule | None, step_size: float) -> float | Schedule:
    """A step size that follows a schedule of factors."""
    if schedule is None:
        return step_size
    return Schedule(tuple((episode, factor * step_size) for episode, factor in schedule.points), schedule.hold)


def protocol_of(settings: ComparisonSettings, arms: Sequence[Arm], seeds: int) -> Protocol:
    """The comparison as a protocol of the lab: so it is planned, stored, resumed and certified as any other."""
    sizes, grid = settings.ladder
    return Protocol(
        id="compare",
        title=f"{settings.env}: which λ?",
        environment=Environment("chunked_td.lab.comparison.running:ComparisonProblem", problem_arguments(settings)),
        arms=tuple(arms),
        exponents=tuple(-place for place in grid),
        episodes=settings.episodes,
        scoring="chunked_td.lab.comparison.running:returns_and_lambda",
        score_label="mean return of all episodes" if settings.question == RETURNS else settings.score_axis,
        smoke=Size(seeds=2, episodes=min(settings.episodes, 10), exponents=(-grid[0],)),
        record=((settings.episodes, settings.every),),
        exploration=EPSILON if settings.epsilon is None else settings.epsilon,
        discount=settings.discount,
        seeds=seeds,
        runner="chunked_td.lab.comparison.running:play",
        step_sizes=sizes,
    )


def arms_of(settings: ComparisonSettings) -> tuple[Arm, ...]:
    """Every λ source with every bootstrap."""
    for name in settings.bootstraps:
        if name not in BOOTSTRAPS:
            raise ValueError(f"bootstraps must be among {', '.join(BOOTSTRAPS)}, got {name!r}")
    check_choice("question", settings.question, tuple(SCORES))
    explores = settings.exploration is not None or settings.epsilon is not None
    if settings.question == VALUES and ("q_learning" in settings.bootstraps or explores):
        raise ValueError(
            "question: values are those of acting at random, so it goes with the bootstraps sarsa and expected_sarsa "
            f"and no exploration; got {', '.join(settings.bootstraps)}{' and exploration' if explores else ''}"
        )
    sources = _sources_of(settings)
    arms = tuple(arm for name in dict.fromkeys(settings.bootstraps) for arm in _arms_with(name, settings, sources))
    if "watkins" in sources and not any(arm.group == "watkins" for arm in arms):
        raise ValueError(
            "sources: watkins cuts λ where Q-learning would have acted otherwise, so it goes with the bootstrap "
            f"q_learning and a λ above 0; got bootstraps {', '.join(settings.bootstraps)} and λs "
            f"{', '.join(f'{value:g}' for value in settings.lambdas) or 'none'}"
        )
    if len(arms) < 2:
        raise ValueError(f"there must be two arms to compare at least, got {[arm.label for arm in arms]}")
    return arms


def _sources_of(settings: ComparisonSettings) -> list[str]:
    """The sources by id, or as "mine.py:MyLambda"."""
    found: dict[str, str] = {}  # by id: two sources of one name could not be told apart in tables
    for text in settings.sources:
        known = current_id(text)
        if (known in SOURCES or known in lambdas.FEATURE_SOURCES) and ".py" not in text:
            found[known] = known
            continue
        if "+" in text or text in PARTS:
            read_rule(text, "sources")
            found[text] = text
            continue
        if ".py" not in text:
            raise ValueError(
                f"sources must be among {', '.join(SOURCES)}, or Python files (mine.py or mine.py:MyLambda), "
                f"got {text!r}{did_you_mean(text, SOURCES)}"
            )
        for source in read_sources(text, "sources"):
            name = f"{text.partition('.py')[0]}.py:{type(source).__name__}"
            if found.setdefault(source.id, name) != name:
                raise ValueError(f"sources: {name} has the id {source.id!r} of another source; give it one of its own")
    return list(found.values())


def _arms_with(bootstrap: str, settings: ComparisonSettings, sources: Sequence[str]) -> Iterator[Arm]:
    values = [float(value) for value in dict.fromkeys(settings.lambdas)]
    for source in ("fixed", *sources):
        if source == "fixed" or (source == "watkins" and bootstrap == "q_learning"):
            yield from (make_arm(bootstrap, source, v, settings) for v in values if source == "fixed" or v > 0.0)
        elif source != "watkins":
            yield make_arm(bootstrap, source, settings=settings)
