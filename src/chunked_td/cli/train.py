"""`chunked-td train`: train a learner on any Gymnasium environment."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from chunked_td import LEARNERS
from chunked_td.bootstraps import EXPECTED_SARSA, Q_LEARNING, SARSA, STATE
from chunked_td.cli._shared import check_counts, check_folder, command, flag, folder_name
from chunked_td.cli.problem import ENV, LEARNER, ProblemOptions

if TYPE_CHECKING:
    from chunked_td.lambdas.base import LambdaSource
    from chunked_td.learners.learner import Learner
    from chunked_td.learners.loop import History


DEFAULT = "ChunkedExpectedSarsa"
EVALUATION = 100
"""Episodes of the evaluation after training."""
_LEARNERS = f"The learner; default: {DEFAULT}. One of {', '.join(LEARNERS)}."
_FIXED = {SARSA: "SarsaLambda", EXPECTED_SARSA: "ExpectedSarsaLambda", Q_LEARNING: "QLambda", STATE: "TDLambda"}
"""Learner with a fixed λ, by bootstrap."""


@command
class Train(ProblemOptions):
    """Train a learner on a Gymnasium environment; saves agent, learning curve and its numbers.

    For example:
        chunked-td train Taxi-v4
        chunked-td train my_maze.py --learner SarsaLambda --lambda 0.9 --episodes 500
    """

    env: Annotated[tyro.conf.Positional[str], ENV]
    """A Gymnasium id (Taxi-v4), package:Id-v0, or a Python file with an environment class (maze.py)."""
    learner: Annotated[str | None, LEARNER, tyro.conf.arg(help=_LEARNERS)] = None
    episodes: int = 5_000
    """Episodes to train for."""
    step_size: float | None = None
    """α; default: 0.1."""
    discount: float | None = None
    """γ; default: 0.99."""
    lambda_: Annotated[float | None, tyro.conf.arg(name="lambda")] = None
    """λ of the fixed-λ learners (SarsaLambda, ExpectedSarsaLambda, QLambda, TDLambda); default: 0.9."""
    lambda_source: str | None = None
    """The λ source: an id such as expected or value, a number, or a Python file of yours (mine.py or
    mine.py:MyLambda); default: the learner's own. Followed by +lineage: lineage traces; by +expected-error: TD errors
    from a learned model."""
    seed: int | None = None
    """Seed of learner and environment; default: 0."""
    action_mask: bool = True
    """Take only the actions that the environment's action mask allows, if it has one."""
    out: Path | None = None
    """Folder for agent.ctd, curve.png and curve.parquet (and curve.csv); default: runs/train/ENV-LEARNER-SEED."""
    resume: bool = False
    """Resume the saved agent for --episodes more episodes. Other settings must match the saved ones."""
    overwrite: bool = False
    """Start again if the folder holds an agent."""

    def run(self) -> int:
        """Train, save, and print the returns."""
        check_counts(self, "episodes", "max_steps")
        parts = (self.env, *self.env_kwargs, self.learner or DEFAULT, self.seed or 0)
        out = self.out or Path("runs/train") / folder_name(*parts)
        check_folder(out)
        options = self.with_saved_environment(out) if self.resume else self
        env = options.make_env(self.env)
        agent = self._agent(env, out)
        print(described(agent))
        before = read_curve(out) if self.resume else None

        with stop_on_interrupt() as stopped:
            history = agent.learn(env, self.episodes, callback=lambda *_: bool(stopped))
        if history.diverged is not None:  # a warning has the reason
            raise ValueError(f"nothing saved: learning diverged in episode {history.diverged}")
        out.mkdir(parents=True, exist_ok=True)
        agent.save(out / "agent.ctd")
        options.write_environment(out)
        title = f"{type(agent).__name__} on {self.env}"
        files = write_curve(out, joined(before, history), title, csv=self.csv)
        last = history.returns[-100:]
        print(
            f"{title}: {agent.episode:,} episodes in all, mean return of the last "
            f"{last.size} {last.mean():.4g}, mean length {history.lengths[-100:].mean():.4g}"
        )
        print(f"saved: {', '.join(map(str, (out / 'agent.ctd', *files)))}", flush=True)
        if not stopped and agent.bootstrap != STATE:
            greedy = agent.evaluate(env, EVALUATION, seed=agent.seed + 1, max_steps=self.max_steps)
            print(f"greedy policy, {EVALUATION} episodes: mean return {mean_text(greedy.returns)}")
        if stopped:
            done = f"{history.returns.size:,} of {self.episodes:,} episodes"
            print(f"interrupted after {done}; --resume continues from here")
        return 130 if stopped else 0

    def write_environment(self, out: Path) -> None:
        """Write environment.json, the environment's settings, for `--resume`."""
        from chunked_td._files import write_atomically

        kept = {name: getattr(self, name) for name in _ENVIRONMENT}
        write_atomically(out / "environment.json", json.dumps({"env": self.env, **kept}, indent=1).encode())

    def with_saved_environment(self, out: Path) -> Train:
        """Return these options with the environment's settings of the saved run; others are refused."""
        path = out / "environment.json"
        if not path.exists():  # of an earlier version
            return self
        saved = json.loads(path.read_text())
        if saved.get("env", self.env) != self.env:
            raise ValueError(
                f"--resume: the agent in {out} was trained in {saved['env']}, got {self.env}; name that "
                f"environment, or another folder with --out"
            )
        found: dict[str, Any] = {}
        for name, default in _ENVIRONMENT.items():
            asked, theirs = getattr(self, name), saved.get(name, default)
            theirs = tuple(theirs) if isinstance(theirs, list) else theirs
            if asked not in (default, theirs):
                raise different(out, name, theirs, asked)
            found[name] = theirs
        return replace(self, **found)

    def rule(self) -> tuple[LambdaSource | None, dict[str, Any]]:
        """The λ source, or None for the learner's own, and further arguments of the learner."""
        from chunked_td.learners.rules import read_rule

        return (None, {}) if self.lambda_source is None else read_rule(self.lambda_source)

    def _agent(self, env: Any, out: Path) -> Any:
        """A new learner, or the one saved in the folder."""
        import chunked_td
        from chunked_td.learners.inputs import learner_by_name

        learner = learner_by_name(self.learner or DEFAULT)
        saved = out / "agent.ctd"
        if saved.exists() and not (self.resume or self.overwrite):
            ways = "--resume continues from it, --overwrite starts again, --out names another folder"
            raise ValueError(f"{out} holds an agent: {ways}")
        if not self.resume:
            return learner(env, **learner_settings(learner, self, env))
        if not saved.exists():
            raise ValueError(f"--resume: {out} does not hold an agent")
        agent = chunked_td.load(saved, lambda_source=self.rule()[0])
        check_same(agent, self, env, saved)
        return agent


_ENVIRONMENT: dict[str, Any] = {"max_steps": 1_000, "env_kwargs": (), "wrappers": ()}
"""Options that make the environment, with their defaults."""


def different(saved: Path, name: str, value: Any, asked: Any) -> ValueError:
    """The error for `--resume` with another setting than the agent's."""
    return ValueError(
        f"--resume: the agent in {saved} has {flag(name)} {value}, got {asked}; leave {flag(name)} out to continue "
        f"with it, or start again with --overwrite or another --out"
    )


def check_same(agent: Learner, settings: Train, env: Any, saved: Path) -> None:
    """Raise ValueError if other settings are given than the agent's."""
    from chunked_td.lambdas.constant import ConstantLambda
    from chunked_td.learners.schedule import scaled

    names = ("learner", "step_size", "discount", "lambda_", "seed", "action_mask", "initial_value")
    asked: dict[str, Any] = {name: getattr(settings, name) for name in names}
    asked["action_mask"] = None if settings.action_mask else False
    theirs: dict[str, Any] = {name: getattr(agent, name) for name in names if name not in ("learner", "lambda_")}
    source, factors = agent.lambda_source, settings.step_size_factors()
    theirs["learner"] = type(agent).__name__
    theirs["lambda_"] = source.value if isinstance(source, ConstantLambda) else repr(source)
    if factors is not None:
        asked["step_size"] = scaled(factors, 0.1 if settings.step_size is None else settings.step_size)
    asked["epsilon"], theirs["epsilon"] = settings.chosen_epsilon(), agent.epsilon
    if settings.bonus is not None:
        asked["exploration"] = settings.chosen_exploration() or "epsilon-greedy"
        theirs["exploration"] = agent.exploration or "epsilon-greedy"
    indexer = settings.make_indexer(env)
    if indexer is not None:
        asked["indexer"], theirs["indexer"] = _in_words(indexer), _in_words(agent.indexer)
    if settings.reward_weights:
        weights = agent.reward_weights
        asked["reward_weights"] = settings.reward_weights
        theirs["reward_weights"] = (1.0,) * agent.n_paid if weights is None else tuple(weights.tolist())
    for name, value in asked.items():
        if value is not None and value != theirs[name]:
            raise different(saved, name, theirs[name], value)


def _in_words(indexer: Any) -> str:
    return f"{type(indexer).__name__} of {indexer.nvec}" if indexer.fixed else type(indexer).__name__


def learner_settings(learner: type[Learner], settings: Train, env: Any) -> dict[str, Any]:
    """Arguments of this learner; ValueError for an option that it would ignore."""
    from chunked_td.learners.named import FixedLambda
    from chunked_td.learners.schedule import scaled
    from chunked_td.learners.sutton_singh import SuttonSingh

    chosen: dict[str, Any] = {
        "discount": 0.99 if settings.discount is None else settings.discount,
        "seed": settings.seed or 0,
        "action_mask": None if settings.action_mask else False,
        "reward_weights": settings.reward_weights or None,
        "indexer": settings.make_indexer(env),
    }
    factors, epsilon = settings.step_size_factors(), settings.chosen_epsilon()
    exploration = settings.chosen_exploration()
    if issubclass(learner, SuttonSingh):
        steps = {"step_size": settings.step_size, "step_size_schedule": factors}
        _refuse(steps, f"{learner.__name__} takes none; its step sizes are 1/n(s)")
        others = {"epsilon": epsilon, "bonus": settings.bonus, "initial_value": settings.initial_value}
        _refuse(others, f"{learner.__name__} takes none; it averages what the uniform policy earns")
    else:
        chosen["step_size"] = scaled(factors, 0.1 if settings.step_size is None else settings.step_size)
        chosen["initial_value"] = settings.initial_value or 0.0
        if learner.bootstrap == STATE:
            _refuse({"bonus": settings.bonus}, f"{learner.__name__} follows the uniform policy")
        chosen |= {"epsilon": epsilon, "exploration": exploration}
    if settings.lambda_ is not None:
        if not issubclass(learner, FixedLambda):
            raise ValueError(
                f"--lambda: {learner.__name__} takes its λ from a model. For λ = {settings.lambda_:g} at every step: "
                f"--learner {_FIXED[learner.bootstrap]} --lambda {settings.lambda_:g} (or SarsaLambda)"
            )
        chosen["lambda_"] = settings.lambda_
    source, others = settings.rule()
    return chosen if source is None else chosen | {"lambda_source": source, **others}


def described(agent: Learner) -> str:
    """The learner and its settings, in a line."""
    from chunked_td.learners.sutton_singh import SuttonSingh

    parts = [type(agent).__name__, f"γ = {agent.discount:g}"]
    if not isinstance(agent, SuttonSingh):
        explore = f"ε = {_short(agent.epsilon)}" if agent.exploration is None else repr(agent.exploration)
        parts += [f"λ: {agent.lambda_source!r}", f"α = {_short(agent.step_size)}", explore]
    if agent.features is not None:
        parts.append(f"values linear in {agent.features.count:,} features ({type(agent.features).__name__})")
    if agent.n_paid > 1:
        import numpy as np

        weights = np.ones(agent.n_paid) if agent.reward_weights is None else agent.reward_weights
        parts.append(f"{agent.n_paid} reward components with weights {' '.join(f'{w:g}' for w in weights)}")
    return ", ".join(parts)


def mean_text(values: Any) -> str:
    """A mean with its standard error."""
    return f"{values.mean():.4g} ± {values.std(ddof=1) / len(values) ** 0.5:.2g} (standard error)"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else repr(value)


@contextlib.contextmanager
def stop_on_interrupt() -> Iterator[list[bool]]:
    """Yield a list that Ctrl-C fills, so that training ends after its episode; a second one interrupts at once."""
    pressed: list[bool] = []

    def note(*_: Any) -> None:
        pressed.append(True)
        signal.signal(signal.SIGINT, before)

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: it gets no signals
        yield pressed
        return
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _refuse(given: dict[str, Any], reason: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{flag(name)}: {reason}")


def write_curve(out: Path, history: History, title: str, *, csv: bool = False) -> list[Path]:
    """Write curve.png, curve.parquet and, if `csv` or if it exists, curve.csv: return and length per episode."""
    import numpy as np
    import polars as pl

    from chunked_td._figures import BLUE, PAGE, as_png, house_style, new_figure
    from chunked_td._files import write_atomically, write_table

    frame = pl.DataFrame(
        {"episode": np.arange(1, history.returns.size + 1), "return": history.returns, "length": history.lengths}
    )
    write_table(out / "curve.parquet", frame)
    csv = csv or (out / "curve.csv").exists()
    if csv:
        write_atomically(out / "curve.csv", frame.write_csv().encode())
    window = max(1, min(100, history.returns.size // 10))
    ends = slice(window - 1, None)  # the first mean of a whole window, and all after it
    with house_style():
        figure = new_figure(PAGE, 4.0)
        axes = figure.subplots()
        axes.plot(frame["episode"], history.returns, ".", ms=1.5, color="0.75", label="episodes")
        mean = history.smoothed(window)[ends]
        axes.plot(frame["episode"][ends], mean, color=BLUE, label=f"mean of the last {window}")
        axes.set(xlabel="episode", ylabel="return", title=title)
        axes.legend()
    write_atomically(out / "curve.png", as_png(figure))
    return [out / name for name in ("curve.png", "curve.parquet", *(("curve.csv",) if csv else ()))]


def read_curve(out: Path) -> History | None:
    """Read curve.parquet; None if it is missing."""
    import polars as pl

    from chunked_td.learners.loop import History

    path = out / "curve.parquet"
    if not path.exists():
        return None
    frame = pl.read_parquet(path.read_bytes())  # by path, `[ ]` in it would be a pattern
    return History(frame["return"].to_numpy(), frame["length"].to_numpy())


def joined(first: History | None, second: History) -> History:
    """Two parts of a training as one; the first may be missing."""
    import numpy as np

    from chunked_td.learners.loop import History

    if first is None:
        return second
    return History(np.append(first.returns, second.returns), np.append(first.lengths, second.lengths))
