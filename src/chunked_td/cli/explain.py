"""`chunked-td explain`: the reach of credit in one episode, and the causes of its cuts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from chunked_td.cli._shared import check_counts, check_folder, command, flag, folder_name, show
from chunked_td.cli.problem import ENV, LEARNER, EnvironmentOptions

if TYPE_CHECKING:
    from chunked_td.analysis.training import LambdaHistory
    from chunked_td.learners.learner import Learner


DEFAULT = "ChunkedExpectedSarsa"
EPISODES = 20
"""Most episodes that are searched for a reward."""
_DEFAULTS = {"step_size": 0.1, "discount": 0.99, "epsilon": 0.1}


@command
class Explain(EnvironmentOptions):
    """Where does credit go, and where does it stop? Trains, then shows one episode step by step.

    For example:
        chunked-td explain FrozenLake-v1 --against 0.9
        chunked-td explain Taxi-v4 --agent runs/train/Taxi-v4-ChunkedExpectedSarsa-0/agent.ctd
    """

    env: Annotated[tyro.conf.Positional[str], ENV]
    """A Gymnasium id (Taxi-v4), package:Id-v0, or a Python file with an environment class (maze.py)."""
    learner: Annotated[str | None, LEARNER] = None
    """The learner that plays the episode; default: ChunkedExpectedSarsa. `chunked-td train --help` lists them all."""
    lambda_source: str | None = None
    """Its λ source: an id such as expected, a number, or a Python file of yours (mine.py or mine.py:MyLambda);
    default: the learner's own. With --agent: the file of the source that the agent was trained with."""
    against: tuple[str, ...] = ()
    """Shown next to it on the same episode: learners (SarsaLambda) or values of --lambda-source (expected, 0.9,
    mine.py), each trained on its own with the same seed; λ sources go into the learner, with --agent into a copy of
    it."""
    agent: Path | None = None
    """A saved agent (agent.ctd) to explain instead of training one."""
    episodes: int = 500
    """Episodes of training before the episode that is shown."""
    step_size: float | None = None
    """α; default: 0.1, with --agent the agent's."""
    discount: float | None = None
    """γ; default: 0.99, with --agent the agent's."""
    epsilon: float | None = None
    """Exploration; default: 0.1, with --agent the agent's."""
    seed: int = 0
    """Seed of learners and environment."""
    episode_seed: int | None = None
    """Seed of the environment in the episode that is shown; default: the first from 0 whose episode has a reward."""
    out: Path | None = None
    """Folder for explain.html, explain.svg, explain.png and the tables; default: runs/explain/ENV."""
    open: bool = False
    """Open the page in a browser."""

    def run(self) -> int:
        """Train, explain, write, and print how far credit reaches."""
        from chunked_td.analysis.credit import explain

        check_counts(self, "episodes", "max_steps")
        out = self.out or Path("runs/explain") / folder_name(self.env, *self.env_kwargs)
        check_folder(out)
        env = self.make_env(self.env)
        agents = self._agents(env)
        histories = [None if trained else self._train(agent) for agent, trained in agents]
        (agent, _), *others = agents
        seed = self._episode(agent, env) if self.episode_seed is None else self.episode_seed
        explanation = explain(
            agent, env, seed, against=[other for other, _ in others], max_steps=self.max_steps
        ).with_training(*histories)
        files = explanation.save(out)
        print(explanation)
        print(f"saved: {', '.join(map(str, files))}")
        if self.open:
            show(next(path for path in files if path.suffix == ".html"))
        return 0

    def _episode(self, agent: Learner, env: Any) -> int:
        """The seed of the first episode with a reward; 0 if none has one."""
        from chunked_td.analysis.credit import explain

        episodes = (
            seed for seed in range(EPISODES) if explain(agent, env, seed, max_steps=self.max_steps).rewards.any()
        )
        return next(episodes, 0)

    def _agents(self, env: Any) -> list[tuple[Any, bool]]:
        """The learners, and whether each is trained already. Wrong names fail here, before anything is trained."""
        from chunked_td.learners.rules import read_rule
        from chunked_td.learners.saving import load

        own, others = (None, {}) if self.lambda_source is None else read_rule(self.lambda_source)
        if self.agent is None:
            first = self._make(self.learner or DEFAULT, env, lambda_source=own, **others)
            return [(first, False), *((self._make(text, env, action_mask=True), False) for text in self.against)]
        for name in ("learner", "step_size", "discount", "epsilon"):
            if getattr(self, name) is not None:
                raise ValueError(f"{flag(name)} is a setting of training, and --agent is trained; leave one out")
        if not self.agent.exists():
            raise ValueError(f"--agent: there is no file {self.agent}")
        agent = load(self.agent, lambda_source=own)
        found: list[tuple[Any, bool]] = [(agent, True)]
        for text in self.against:
            source = _source(text)
            if source is not None and not source[1]:  # it goes into a copy of the agent
                found.append((source[0], True))
            else:
                found.append((self._make(text, env, agent, action_mask=True), False))
        return found

    def _make(self, text: str, env: Any, like: Learner | None = None, **more: Any) -> Learner:
        """A learner from the name of a learner or of a λ source, or from a number.

        Args:
          like: a learner whose step size, discount and exploration it takes.
        """
        from chunked_td.lambdas import SOURCES
        from chunked_td.learners.inputs import learner_by_name

        settings: dict[str, Any] = {}
        for name, default in _DEFAULTS.items():
            given = getattr(self, name)
            settings[name] = getattr(like, name) if like is not None else default if given is None else given
        source = _source(text)
        if source is not None:
            text, settings["lambda_source"] = self.learner or DEFAULT, source[0]
            settings |= source[1]
        try:
            learner = learner_by_name(text)
        except ValueError as problem:
            raise ValueError(f"{problem}; or a λ source ({', '.join(SOURCES)}), a number or a Python file") from None
        return learner(env, seed=self.seed, indexer=self.make_indexer(env), **{**more, **settings})

    def _train(self, agent: Learner) -> LambdaHistory | None:
        """Train; return λ over training if it changes."""
        from chunked_td.analysis.training import watch_training
        from chunked_td.lambdas.constant import ConstantLambda

        history = watch_training(agent, self.make_env(self.env), self.episodes)
        return None if isinstance(agent.lambda_source, ConstantLambda) else history


def _source(text: str) -> Any:
    """The λ source that a text names, and further arguments of the learner; None if it names no λ source."""
    from chunked_td.lambdas import SOURCES
    from chunked_td.lambdas.names import current_id
    from chunked_td.learners.rules import PARTS, read_rule

    name = text.partition("+")[0]
    named = ".py" in text or current_id(name) in SOURCES or name in PARTS or name.replace(".", "", 1).isdigit()
    return read_rule(text, "--against") if named else None
