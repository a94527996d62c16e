"""`chunked-td train ENV --network …`: networks on a Gymnasium environment, saved after every tenth of the steps."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chunked_td.cli._shared import check_counts, check_saved, flag, folder_name

if TYPE_CHECKING:
    from chunked_td.cli.train import Train

STEPS, COPIES, BLOCKS, EVALUATION = 50_000, 8, 10, 20
_TAKEN = {
    "env", "network", "steps", "copies", "normalise", "step_size", "discount", "lambda_", "lambda_source", "seed",
    "epsilon", "out", "resume", "overwrite", "max_steps", "env_kwargs", "wrappers", "csv", "log",
}  # fmt: skip


def train_networks(options: Train) -> int:
    """Train, save, and print how it went."""
    from chunked_td.cli.train import after_episode, joined, mean_text, read_curve, stop_on_interrupt, write_curve
    from chunked_td.deep.training import plan_blocks
    from chunked_td.lab.running.live_logging import listeners

    _check(options)
    out = options.out or Path("runs/train") / folder_name(
        options.env, *options.env_kwargs, options.network, options.seed or 0
    )
    agent, env, options = _agent(options, out)
    out.mkdir(parents=True, exist_ok=True)
    options.write_environment(out)
    history, logs = read_curve(out) if options.resume else None, listeners(options.log, out)
    blocks, before = plan_blocks(options.steps or STEPS, BLOCKS, agent.agent.unit), agent.steps
    saved, title, files = out / "agent.npz", f"{options.network} on {options.env}", []
    print(f"{title}, λ: {agent.agent.source!r}, γ = {agent.agent.settings.discount:g}, step size {agent.step_size:g}")
    with stop_on_interrupt() as stopped:
        for block in blocks:
            done = 0 if history is None else history.returns.size
            found = agent.learn(env, block, callback=partial(after_episode, logs, stopped, done))
            if found.diverged is not None:  # a warning has said why
                raise ValueError(f"not saved: learning diverged before step {agent.steps:,}; {saved} is from before")
            history = joined(history, found)
            agent.save(saved)
            files = write_curve(out, history, title, csv=options.csv)
            last = history.returns[-100:]
            said = (
                f"mean return of the last {last.size} episodes {last.mean():.4g}" if last.size else "no episode ended"
            )
            print(f"step {agent.steps:>9,}   λ {agent.mean_lambda:.3f}   {said}", flush=True)
            if stopped:
                break
    for log in logs:
        log.close()
    print(f"saved: {', '.join(map(str, (saved, *files)))}", flush=True)
    left = sum(blocks) - (agent.steps - before)
    if stopped:
        print(f"interrupted after {agent.steps - before:,} of {sum(blocks):,} steps; --resume --steps {left} goes on")
        return 130
    greedy = agent.evaluate(options.make_env(options.env), EVALUATION, seed=agent.seed + 1, max_steps=options.max_steps)
    print(f"greedy policy, {EVALUATION} episodes: mean return {mean_text(greedy.returns)}")
    return 0


def _check(options: Train) -> None:
    """Refuse options that networks would ignore."""
    check_counts(options, "steps", "copies", "max_steps")
    for field in fields(options):  # type: ignore[arg-type]
        if field.name not in _TAKEN and getattr(options, field.name) != field.default:
            instead = "; networks take --steps" if field.name == "episodes" else ""
            raise ValueError(f"{flag(field.name)} goes with learners that have a table, not with --network{instead}")
    if options.lambda_ is not None and options.lambda_source is not None:
        raise ValueError("--lambda and --lambda-source both say what λ is; give one of them")
    if options.epsilon is not None and options.network in ("ppo", "actor-critic"):
        raise ValueError(f"--epsilon goes with sarsa and q; {options.network} draws its actions from a policy")


def _agent(options: Train, out: Path) -> tuple[Any, Any, Train]:
    """The learner, fresh or as it was saved, its environment, and the options with those of the saved environment."""
    from gymnasium.vector import SyncVectorEnv

    from chunked_td.deep import DeepLearner

    saved = out / "agent.npz"
    check_saved(saved, options)
    options = options.with_saved_environment(out) if options.resume else options
    copies = options.copies or (COPIES if options.network == "ppo" else 1)

    def make() -> Any:
        return options.make_env(options.env)

    env = make() if copies == 1 else SyncVectorEnv([make] * copies)
    agent = DeepLearner(
        env,
        options.network or "ppo",
        lambda_=options.lambda_source if options.lambda_ is None else options.lambda_,
        step_size=options.step_size,
        discount=0.99 if options.discount is None else options.discount,
        seed=options.seed or 0,
        normalise=options.normalise,
        **({} if options.epsilon is None else {"epsilon": options.epsilon}),
    )
    if options.resume:
        agent.resume(saved)
    return agent, env, options
