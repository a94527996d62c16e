"""`chunked-td train`: train a learner on any Gymnasium environment."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from chunked_td.learners.learner import Learner
    from chunked_td.learners.loop import History


DEFAULT = "ChunkedSarsa"


@dataclass(frozen=True)
class Train:
    """Train a learner on a Gymnasium environment; saves agent, learning curve and its numbers."""

    env: tyro.conf.Positional[str]
    """Environment id, such as FrozenLake-v1 or package:Id-v0."""
    learner: str | None = None
    """Any learner of the package, such as ChunkedSarsa (the default) or SarsaLambda."""
    episodes: int = 5_000
    """Episodes to train for."""
    max_steps: int = 1_000
    """Steps after which an episode is cut off, where the environment sets no limit."""
    step_size: float | None = None
    """α; default: 0.1."""
    discount: float | None = None
    """γ; default: 0.99."""
    epsilon: float | None = None
    """Exploration; default: 0.1."""
    lambda_: Annotated[float | None, tyro.conf.arg(name="lambda")] = None
    """λ of the fixed-λ learners."""
    seed: int | None = None
    """Seed of learner and environment; default: 0."""
    action_mask: bool | None = None
    """Take only the actions that the environment's action mask allows; default: yes, and say so."""
    out: Path | None = None
    """Folder for agent.ctd, curve.png and curve.parquet; default: runs/train/ENV-LEARNER-SEED."""
    resume: bool = False
    """Go on from the agent in the folder, for so many episodes more. Settings are the agent's; others are refused."""
    overwrite: bool = False
    """Start again where the folder holds an agent."""

    def run(self) -> int:
        """Train, save, and print how it went."""
        from chunked_td.cli._shared import check_at_least_one, folder_name
        from chunked_td.lab.gym_environments import make_environment

        for name in ("episodes", "max_steps"):
            check_at_least_one(name, getattr(self, name))
        env = make_environment(self.env, self.max_steps)
        out = self.out or Path("runs/train") / folder_name(self.env, self.learner or DEFAULT, self.seed or 0)
        agent = self._agent(env, out)
        before = read_curve(out) if self.resume else None
        history = agent.learn(env, self.episodes)
        if history.diverged is not None:  # a warning has said why
            raise ValueError(f"nothing saved: learning diverged in episode {history.diverged}")
        out.mkdir(parents=True, exist_ok=True)
        agent.save(out / "agent.ctd")
        write_curve(
            out, history if before is None else joined(before, history), f"{type(agent).__name__} on {self.env}"
        )
        last = history.returns[-100:]
        print(
            f"{type(agent).__name__} on {self.env}: {agent.episode:,} episodes in all, mean return of the last "
            f"{last.size} {last.mean():.4g}, mean length {history.lengths[-100:].mean():.4g}"
        )
        print(f"saved: {out / 'agent.ctd'}, {out / 'curve.png'}, {out / 'curve.parquet'}")
        return 0

    def _agent(self, env: Any, out: Path) -> Any:
        """A new learner, or the one saved in the folder."""
        import chunked_td
        from chunked_td.learners.inputs import learner_by_name

        learner = learner_by_name(self.learner or DEFAULT)
        saved = out / "agent.ctd"
        if saved.exists() and not (self.resume or self.overwrite):
            raise ValueError(
                f"{out} holds an agent: --resume goes on with it, --overwrite starts again, --out names a folder"
            )
        if not self.resume:
            return learner(env, **learner_settings(learner, self))
        if not saved.exists():
            raise ValueError(f"--resume: there is no agent in {out}")
        agent = chunked_td.load(saved)
        check_same(agent, self, saved)
        return agent


def check_same(agent: Learner, settings: Train, saved: Path) -> None:
    """Refuse to go on with an agent where other settings are asked for."""
    from chunked_td.lambdas.constant import ConstantLambda

    source = agent.lambda_source
    theirs = {
        "learner": type(agent).__name__,
        "step_size": agent.step_size,
        "discount": agent.discount,
        "epsilon": agent.epsilon,
        "lambda_": source.value if isinstance(source, ConstantLambda) else repr(source),
        "seed": agent.seed,
        "action_mask": agent.action_mask,
    }
    for name, value in theirs.items():
        asked = getattr(settings, name)
        if asked is not None and asked != value:
            flag = "--" + name.rstrip("_").replace("_", "-")
            raise ValueError(
                f"--resume: the agent in {saved} has {flag} {value}, got {asked}; leave {flag} out to go on with it, "
                f"or start again with --overwrite or another --out"
            )


def learner_settings(learner: type[Learner], settings: Train) -> dict[str, Any]:
    """The settings that this learner takes; an error for one that it would ignore."""
    from chunked_td.learners.named import FixedLambda
    from chunked_td.learners.sutton_singh import SuttonSingh

    chosen: dict[str, Any] = {
        "discount": 0.99 if settings.discount is None else settings.discount,
        "seed": settings.seed or 0,
        "action_mask": settings.action_mask,
    }
    given = {"step_size": settings.step_size, "epsilon": settings.epsilon}
    if issubclass(learner, SuttonSingh):
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"--{name.replace('_', '-')}: {learner.__name__} takes none; its step sizes are 1/n(s)"
                )
    else:
        chosen |= {name: 0.1 if value is None else value for name, value in given.items()}
    if settings.lambda_ is not None:
        if not issubclass(learner, FixedLambda):
            raise ValueError(f"--lambda goes with fixed-λ learners; {learner.__name__} finds its own")
        chosen["lambda_"] = settings.lambda_
    return chosen


def write_curve(out: Path, history: History, title: str) -> None:
    """Write curve.parquet and curve.png: return and length per episode."""
    import numpy as np
    import polars as pl

    from chunked_td._files import write_atomically
    from chunked_td.cli._shared import new_axes

    frame = pl.DataFrame(
        {"episode": np.arange(1, history.returns.size + 1), "return": history.returns, "length": history.lengths}
    )
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    write_atomically(out / "curve.parquet", buffer.getvalue())
    figure, axes = new_axes()
    axes.plot(frame["episode"], history.returns, ".", ms=1.5, color="0.75", rasterized=True, label="episodes")
    axes.plot(frame["episode"], history.smoothed(100), color="#0072B2", label="mean of the last 100")
    axes.set(xlabel="episode", ylabel="return", title=title)
    axes.legend(frameon=False)
    figure.savefig(out / "curve.png", dpi=150)


def read_curve(out: Path) -> History | None:
    """What `write_curve` wrote, if it is there."""
    import polars as pl

    from chunked_td.learners.loop import History

    path = out / "curve.parquet"
    if not path.exists():
        return None
    frame = pl.read_parquet(path.read_bytes())  # by path, `[ ]` in it would be a pattern
    return History(frame["return"].to_numpy(), frame["length"].to_numpy())


def joined(first: History, second: History) -> History:
    """Two stretches of training as one."""
    import numpy as np

    from chunked_td.learners.loop import History

    return History(np.append(first.returns, second.returns), np.append(first.lengths, second.lengths))
