"""`chunked-td explain`: where the credit of one episode goes, as tables, a picture and a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from chunked_td.cli.problem import EnvironmentOptions

if TYPE_CHECKING:
    from chunked_td.analysis.credit import LambdaHistory
    from chunked_td.learners.learner import Learner


@dataclass(frozen=True)
class Explain(EnvironmentOptions):
    """Where does credit go, and where does it stop? Trains, then shows one episode step by step."""

    env: tyro.conf.Positional[str]
    """Environment id, such as FrozenLake-v1 or package:Id-v0."""
    learner: str = "ChunkedExpectedSarsa"
    """The learner that plays the episode."""
    against: tuple[str, ...] = ()
    """Shown beside it on the same episode: learners (SarsaLambda), λ sources (ExpectedLambda) or numbers (0.9), each
    trained by itself with the same seed; λ sources and numbers go into the learner."""
    agent: Path | None = None
    """A saved agent (agent.ctd) to explain instead of training one."""
    episodes: int = 500
    """Episodes of training before the episode that is shown."""
    step_size: float = 0.1
    """α."""
    discount: float = 0.99
    """γ."""
    epsilon: float = 0.1
    """Exploration."""
    seed: int = 0
    """Seed of learners and environment."""
    episode_seed: int = 0
    """Seed of the environment in the episode that is shown."""
    out: Path | None = None
    """Folder for explain.html, explain.png and the tables; default: runs/explain/ENV."""
    open: bool = False
    """Open the page in a browser."""

    def run(self) -> int:
        """Train, explain, write, and print how far credit reaches."""
        from chunked_td.analysis.credit import explain
        from chunked_td.cli._shared import check_at_least_one, folder_name

        for name in ("episodes", "max_steps"):
            check_at_least_one(name, getattr(self, name))
        env = self.make_env(self.env)
        agents = self._agents(env)
        watched = [None if trained else self._train(agent) for agent, trained in agents]
        (agent, _), *others = agents
        told = explain(
            agent, env, self.episode_seed, against=[other for other, _ in others], max_steps=self.max_steps
        ).with_training(*watched)
        files = told.save(self.out or Path("runs/explain") / folder_name(self.env, *self.env_kwargs))
        print(told)
        print(f"saved: {', '.join(map(str, files))}")
        if self.open:
            import webbrowser

            page = next(path for path in files if path.suffix == ".html")
            webbrowser.open(page.resolve().as_uri())
        return 0

    def _agents(self, env: Any) -> list[tuple[Learner, bool]]:
        """The learners, and whether each is trained already. Wrong names fail here, before anything is trained."""
        from chunked_td.learners.saving import load

        first = (load(self.agent), True) if self.agent is not None else (self._make(self.learner, env), False)
        return [first, *((self._make(text, env, action_mask=True), False) for text in self.against)]

    def _make(self, text: str, env: Any, **more: Any) -> Learner:
        """A learner from the name of a learner or of a λ source, or from a number."""
        from chunked_td.lambdas import SOURCES
        from chunked_td.learners.inputs import learner_by_name

        settings: dict[str, Any] = {"step_size": self.step_size, "discount": self.discount, "epsilon": self.epsilon}
        name = text
        if text in SOURCES:
            name, settings["lambda_source"] = self.learner, SOURCES[text]()
        elif text.replace(".", "", 1).isdigit():
            name, settings["lambda_source"] = self.learner, float(text)
        return learner_by_name(name)(env, seed=self.seed, indexer=self.make_indexer(env), **settings, **more)

    def _train(self, agent: Learner) -> LambdaHistory | None:
        """Train; λ over training is kept where it changes."""
        from chunked_td.analysis.credit import watch_training
        from chunked_td.lambdas.constant import ConstantLambda

        watched = watch_training(agent, self.make_env(self.env), self.episodes)
        return None if isinstance(agent.lambda_source, ConstantLambda) else watched
