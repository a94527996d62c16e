"""`chunked-td train` and `chunked-td compare`: try learners on any Gymnasium environment from the shell."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

import chunked_td
from chunked_td.learners.base import Learner
from chunked_td.learners.setup import learner_by_name
from chunked_td.learners.training import History

CHUNKED = (
    ("Chunked SARSA", "ChunkedSarsa", {}),
    ("Chunked Expected-SARSA", "ChunkedExpectedSarsa", {}),
    ("Expected-λ Expected-SARSA", "ChunkedExpectedSarsa", {"lambda_source": "ExpectedLambda"}),
)
"""What `compare` sets against the fixed λs: label, learner, settings."""


def make_environment(name: str, max_steps: int) -> Any:
    """`gymnasium.make`, with an error that says what to do, and with an end to episodes that have none.

    Args:
      max_steps: steps after which an episode is truncated where the environment sets no limit of its own.
    """
    import gymnasium as gym

    module = name.partition(":")[0] if ":" in name else ""
    try:
        env = gym.make(name)
    except gym.error.Error as problem:
        hint = "" if module else "; for an environment of another package write package:Id-v0"
        raise ValueError(f"env: {problem}{hint}") from problem
    except ModuleNotFoundError as problem:
        raise ValueError(f"env: {name} needs a package that is not installed ({problem})") from problem
    limited = env.spec is not None and env.spec.max_episode_steps is not None
    return env if limited else gym.wrappers.TimeLimit(env, max_steps)


def check_at_least_one(name: str, value: int) -> None:
    """Refuse a count of nothing before anything is begun."""
    if value < 1:
        raise ValueError(f"--{name.replace('_', '-')} must be a whole number from 1, got {value}")


def folder_name(*parts: Any) -> str:
    """Parts joined into a name that is safe for a folder."""
    text = "-".join(str(part) for part in parts)
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in text)


def train_command(settings: Any) -> int:
    """`chunked-td train`: see `chunked_td.cli.Train`."""
    for name in ("episodes", "max_steps"):
        check_at_least_one(name, getattr(settings, name))
    env = make_environment(settings.env, settings.max_steps)
    learner = learner_by_name(settings.learner)
    out = settings.out or Path("runs/train") / folder_name(settings.env, settings.learner, settings.seed)
    saved = out / "agent.ctd"
    if saved.exists() and not (settings.resume or settings.overwrite):
        raise ValueError(
            f"{out} holds an agent: --resume goes on with it, --overwrite starts again, --out names a folder"
        )
    if settings.resume:
        if not saved.exists():
            raise ValueError(f"--resume: there is no agent in {out}")
        agent = chunked_td.load(saved)
    else:
        agent = learner(env, **_learner_settings(learner, settings))
    before = _read_curve(out) if settings.resume else None
    history = agent.learn(env, settings.episodes)
    out.mkdir(parents=True, exist_ok=True)
    agent.save(saved)
    whole = history if before is None else _joined(before, history)
    _write_curve(out, whole, f"{type(agent).__name__} on {settings.env}")
    last = history.returns[-100:]
    print(
        f"{type(agent).__name__} on {settings.env}: {agent.episode:,} episodes in all, mean return of the last "
        f"{last.size} {last.mean():.4g}, mean length {history.lengths[-100:].mean():.4g}"
    )
    print(f"saved: {saved}, {out / 'curve.png'}, {out / 'curve.parquet'}")
    return 0


def _learner_settings(learner: type[Learner], settings: Any) -> dict[str, Any]:
    """The settings that this learner takes; an error for one that it would ignore."""
    from chunked_td.learners.named import _FixedLambda
    from chunked_td.learners.sutton_singh import _SuttonSingh

    chosen: dict[str, Any] = {"discount": settings.discount, "seed": settings.seed}
    given = {"step_size": settings.step_size, "epsilon": settings.epsilon}
    if issubclass(learner, _SuttonSingh):
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"--{name.replace('_', '-')}: {learner.__name__} takes none; its step sizes are 1/n(s)"
                )
    else:
        chosen |= {name: 0.1 if value is None else value for name, value in given.items()}
    if settings.lambda_ is not None:
        if not issubclass(learner, _FixedLambda):
            raise ValueError(f"--lambda goes with fixed-λ learners; {learner.__name__} finds its own")
        chosen["lambda_"] = settings.lambda_
    return chosen


def _write_curve(out: Path, history: History, title: str) -> None:
    import polars as pl

    frame = pl.DataFrame(
        {"episode": np.arange(1, history.returns.size + 1), "return": history.returns, "length": history.lengths}
    )
    temporary = out / ".curve.parquet"
    frame.write_parquet(temporary)
    os.replace(temporary, out / "curve.parquet")
    figure, axes = _figure()
    axes.plot(frame["episode"], history.returns, ".", ms=1.5, color="0.75", rasterized=True, label="episodes")
    axes.plot(frame["episode"], history.smoothed(100), color="#0072B2", label="mean of the last 100")
    axes.set(xlabel="episode", ylabel="return", title=title)
    axes.legend(frameon=False)
    figure.savefig(out / "curve.png", dpi=150)


def _read_curve(out: Path) -> History | None:
    path = out / "curve.parquet"
    if not path.exists():
        return None
    import polars as pl

    frame = pl.read_parquet(path)
    return History(frame["return"].to_numpy(), frame["length"].to_numpy())


def _joined(first: History, second: History) -> History:
    return History(np.append(first.returns, second.returns), np.append(first.lengths, second.lengths))


def _figure() -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


# ---- compare


def compare_command(settings: Any) -> int:
    """`chunked-td compare`: see `chunked_td.cli.Compare`."""
    for name in ("episodes", "seeds", "max_steps"):
        check_at_least_one(name, getattr(settings, name))
    out = settings.out or Path("runs/compare") / folder_name(settings.env)
    arms = [(f"SARSA({value:g})", "SarsaLambda", {"lambda_": value}) for value in settings.lambdas]
    arms += [(label, name, dict(more)) for label, name, more in CHUNKED]
    jobs = [
        (
            settings.env,
            name,
            more | {"step_size": size, "discount": settings.discount, "epsilon": settings.epsilon},
            seed,
        )
        for _, name, more in arms
        for size in settings.step_sizes
        for seed in range(settings.seeds)
    ]
    for job in jobs[:: settings.seeds]:  # what is wrong fails here, once, with a clear message
        _make_run(*job, settings.max_steps)[0].close()
    print(
        f"{len(arms)} arms × {len(settings.step_sizes)} step sizes × {settings.seeds} seeds, "
        f"{settings.episodes:,} episodes each"
    )
    returns = _run_jobs([(*job, settings.episodes, settings.max_steps) for job in jobs])
    shape = (len(arms), len(settings.step_sizes), settings.seeds)
    scores = np.array([r.mean() for r in returns]).reshape(shape)
    curves = np.array(returns).reshape(*shape, settings.episodes)
    labels = [label for label, _, _ in arms]
    ranking = rank(labels, settings.step_sizes, scores)
    print_ranking(settings.env, ranking, settings.seeds)
    out.mkdir(parents=True, exist_ok=True)
    _write_compare(out, settings, labels, scores, curves, ranking)
    print(f"saved: {out / 'compare.png'}, {out / 'compare.parquet'}")
    return 0


def _run_jobs(jobs: list[tuple[Any, ...]]) -> list[np.ndarray]:
    """Each job in one of as many processes as there are cores; results in order."""
    from rich.console import Console
    from rich.progress import track

    fresh = multiprocessing.get_context("spawn")  # a fork would inherit the threads of JAX or BLAS half-alive
    with fresh.Pool(os.cpu_count(), initializer=_leave_interrupts) as pool:  # whose end is the workers' end
        found = pool.imap(_one_run, jobs)
        show = sys.stderr.isatty()
        return list(
            track(found, "runs", total=len(jobs), console=Console(stderr=True), disable=not show, transient=True)
        )


def _leave_interrupts() -> None:
    """Ctrl-C reaches every process; the first one sees to the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _make_run(env_name: str, learner: str, settings: dict[str, Any], seed: int, max_steps: int) -> tuple[Any, Any]:
    """Environment and agent."""
    env = make_environment(env_name, max_steps)
    settings = dict(settings)
    if isinstance(settings.get("lambda_source"), str):
        settings["lambda_source"] = getattr(chunked_td, settings["lambda_source"])()
    return env, learner_by_name(learner)(env, seed=seed, **settings)


def _one_run(job: tuple[Any, ...]) -> np.ndarray:
    env_name, learner, settings, seed, episodes, max_steps = job
    env, agent = _make_run(env_name, learner, settings, seed, max_steps)
    return agent.learn(env, episodes, progress=False).returns


def rank(labels: list[str], step_sizes: Any, scores: np.ndarray) -> list[dict[str, Any]]:
    """Arms by mean return over all episodes at their best step size, with 95 % bootstrap intervals over seeds.

    Args:
      scores: float[arms, step sizes, seeds].
    """
    from chunked_td.lab.statistics import bootstrap_interval

    best = scores.mean(axis=2).argmax(axis=1)
    rows = []
    for i, label in enumerate(labels):
        seeds = scores[i, best[i]]
        interval = bootstrap_interval(seeds, rng=np.random.default_rng(0))
        rows.append(
            {
                "arm": label,
                "step_size": float(step_sizes[best[i]]),
                "mean": float(seeds.mean()),
                "low": float(interval.low),
                "high": float(interval.high),
                "index": i,
                "best": int(best[i]),
            }
        )
    return sorted(rows, key=lambda row: -row["mean"])


def print_ranking(env: str, ranking: list[dict[str, Any]], seeds: int) -> None:
    """The table that answers "which λ should I use on my problem?"."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{env}: mean return per episode, {seeds} seeds, each arm at its best step size")
    for name, justify in (
        ("", "right"),
        ("learner", "left"),
        ("α", "right"),
        ("mean return", "right"),
        ("95 % interval", "right"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    top = ranking[0]
    for place, row in enumerate(ranking, 1):
        tied = " ≈ best" if place > 1 and row["high"] >= top["low"] else ""
        table.add_row(
            str(place),
            row["arm"] + tied,
            f"{row['step_size']:g}",
            f"{row['mean']:.4g}",
            f"{row['low']:.4g} … {row['high']:.4g}",
        )
    Console().print(table)
    print(
        "≈ best: its interval reaches the winner's. Step sizes were chosen on the same runs, which flatters every arm."
    )


def _write_compare(
    out: Path, settings: Any, labels: list[str], scores: np.ndarray, curves: np.ndarray, ranking: Any
) -> None:
    import polars as pl

    grid = np.indices(scores.shape).reshape(3, -1)
    frame = pl.DataFrame(
        {
            "arm": [labels[i] for i in grid[0]],
            "step_size": [float(settings.step_sizes[j]) for j in grid[1]],
            "seed": grid[2],
            "mean_return": scores.ravel(),
            "mean_return_last_tenth": curves[..., -max(1, settings.episodes // 10) :].mean(axis=-1).ravel(),
        }
    )
    temporary = out / ".compare.parquet"
    frame.write_parquet(temporary)
    os.replace(temporary, out / "compare.parquet")
    figure, axes = _figure()
    rows = ranking[::-1]
    middle = np.array([row["mean"] for row in rows])
    reach = np.array([[row["mean"] - row["low"] for row in rows], [row["high"] - row["mean"] for row in rows]])
    chunked = {label for label, _, _ in CHUNKED}
    for k, row in enumerate(rows):
        color = "#D55E00" if row["arm"] in chunked else "#0072B2"
        seeds = scores[row["index"], row["best"]]
        axes.plot(seeds, np.full(seeds.size, k), "o", ms=3, color=color, alpha=0.35, mec="none")
        axes.errorbar(middle[k], k, xerr=reach[:, k : k + 1], fmt="o", color=color, capsize=3)
    axes.set_yticks(range(len(rows)), [f"{row['arm']}, α = {row['step_size']:g}" for row in rows])
    axes.set(xlabel="mean return (bar: 95 %, dots: seeds)", title=settings.env)
    figure.savefig(out / "compare.png", dpi=150)
