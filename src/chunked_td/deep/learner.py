"""Networks on a Gymnasium environment: the agents of this room, fed from Python.

    agent = DeepLearner(env, "ppo", lambda_=0.95)
    history = agent.learn(env, steps=100_000)

The environment is stepped in Python; what is learned from a transition or a rollout is the compiled function that
learns on JAX tasks. Streaming learners on several copies keep a trace, a λ source and an episode per copy; after every
step all copies have the mean of their weights. One copy is the learner of a single environment.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td._checks import check_positive, check_whole
from chunked_td.deep.agents.base import new_tally
from chunked_td.deep.agents.ppo import PpoAgent, step_keys
from chunked_td.deep.agents.streaming import StreamingAgent, StreamState
from chunked_td.deep.gym import ActionScale, Environments, Normaliser, Round, read_observations, read_task
from chunked_td.deep.lambdas import DeepLambda, read_source
from chunked_td.deep.networks import apply_mlp
from chunked_td.deep.training import MOST_SEED, Agent, diverged_runs, load_states, make_agent, save_states
from chunked_td.envs.jax_task import TaskStep
from chunked_td.envs.spaces import Categories, Grid
from chunked_td.learners.inputs import check_reward, refuse_vector_environment
from chunked_td.learners.loop import History, check_amount, progress_bar, reset, step
from chunked_td.learners.state import DivergenceWarning

_ROLLOUT = 1_024  # transitions of a rollout of PPO, where nobody says how many
DEFAULT_LAMBDA = {"ppo": 0.95}
"""λ by agent; 0.8 for others."""


class DeepLearner:
    """SARSA(λ), Q(λ), actor-critic(λ) or PPO with networks, on a Gymnasium environment.

    Args:
      env: says what observations and actions are: a single or a vector environment. Observations are a Box of one
        dimension, Discrete, MultiDiscrete, MultiBinary or a Box of symbols. Actions are Discrete, or with
        "actor-critic" and "ppo" a Box (a Gaussian policy; −1 and 1 are the bounds).
      agent: "sarsa", "q", "actor-critic" or "ppo".
      lambda_: a number, the id of a source ("value"), or a `DeepLambda`; default: 0.95 for "ppo", else 0.8.
      step_size: default: 0.001 for "ppo", else 0.3. discount: γ. seed: of networks, actions and environment.
      normalise: observations by their running mean and deviation, rewards by the size of discounted returns. Default:
        with "ppo" rewards, and observations of real numbers unless the λ source predicts them.
      space: of observations, instead of the environment's; percept models need bounds (`Continuous(low, high)`).
      settings: of `PpoSettings` or `StreamingSettings`.
    """

    def __init__(
        self,
        env: Any,
        agent: str = "ppo",
        *,
        lambda_: float | str | DeepLambda | None = None,
        step_size: float | None = None,
        discount: float = 0.99,
        seed: int = 0,
        normalise: bool | None = None,
        space: Any = None,
        **settings: Any,
    ):
        self.kind, self.seed = agent, check_whole("seed", seed, 0, MOST_SEED)
        lambda_ = DEFAULT_LAMBDA.get(agent, 0.8) if lambda_ is None else lambda_
        source = lambda_ if isinstance(lambda_, DeepLambda) else read_source(str(lambda_))
        if source.needs_draws:
            raise ValueError(f"lambda_: {source.id} draws next states from the task, which takes a task written in JAX")
        if settings.get("memory") is not None:
            raise ValueError("memory: got one; agents with a memory take tasks written in JAX")
        if settings.get("luck", 1) != 1:
            raise ValueError(f"luck: got {settings['luck']}, takes 1; only tasks written in JAX can be stepped again")
        scaled = agent == "ppo" if normalise is None else normalise
        task = read_task(env, codes=source.needs_codes, space=space, normalise=normalise if scaled else False)
        if task.n_reals and agent in ("sarsa", "q"):
            raise ValueError(f"agent: {agent} takes Discrete actions, got {env.action_space}; ppo and actor-critic do")
        self._scale = ActionScale(env)
        self.copies = int(getattr(env, "num_envs", 1))
        if agent == "ppo":
            settings = {"steps": max(8, _ROLLOUT // self.copies // 8 * 8)} | settings | {"environments": self.copies}
        self.agent = make_agent(agent, task, source, discount=discount, **settings)
        default = 1e-3 if agent == "ppo" else 0.3
        self.step_size = check_positive("step_size", default if step_size is None else step_size)
        size = task.space.shape[0] if task.normalised else 0
        self.normaliser = Normaliser(size, self.copies, discount) if scaled else None
        self.steps = 0
        self.states: Any = None
        self._environments: Environments | None = None
        self._left: dict[str, Any] | None = None  # where a saved run left its environment
        self._shown = np.zeros(0)  # the observations that copies show, as they came
        self._lambdas, self._counted = 0.0, 0

    @property
    def mean_lambda(self) -> float:
        """Mean λ of the transitions of the latest `learn`."""
        return self._lambdas / max(self._counted, 1)

    def learn(
        self,
        env: Any,
        steps: int,
        *,
        progress: bool = True,
        callback: Callable[[int, float, int], Any] | None = None,
    ) -> History:
        """Play and learn so many transitions more; PPO whole rollouts. Returns and lengths of episodes that ended.

        Episodes go on from call to call in the same environment. `callback(episode, return, length)` is called after
        each; training stops where it returns True, PPO's after the rollout.
        """
        rounds = -(-check_amount("steps", steps) // self.copies)
        if rounds == 0:
            return History(np.zeros(0), np.zeros(0, np.int64))
        environments = self._begin(env)
        play = _Play(environments, self.normaliser, callback)
        self._lambdas, self._counted = 0.0, 0
        with progress_bar(rounds * self.copies, progress, "steps") as advance:
            play.advance = advance
            if isinstance(self.agent, PpoAgent):
                self._learn_rollouts(self.agent, play, rounds)
            else:
                self._learn_steps(self.agent, play, rounds)
        self._shown = play.shown if play.shown is not None else self._shown
        one_run = isinstance(self.agent, PpoAgent)
        lost = bool(diverged_runs(jax.tree.map(lambda x: x[None], self.states) if one_run else self.states).any())
        if lost:
            text = "weights or λ are not finite: learning has diverged; try a smaller step_size, or normalise=True"
            warnings.warn(text, DivergenceWarning, stacklevel=2)
        last = max(0, len(play.returns) - 1) if lost else None
        return History(np.array(play.returns, np.float64), np.array(play.lengths, np.int64), last)

    def _learn_steps(self, agent: StreamingAgent, play: _Play, rounds: int) -> None:
        self.states = self.states._replace(tally=jax.vmap(lambda _: new_tally())(jnp.arange(self.copies)))
        for _ in range(rounds):
            given = play(np.asarray(self.states.action))
            self.states = stream_round(agent, self.step_size, self.states, given)
            self.steps += self.copies
            if play.stopped:
                break
        tally = self.states.tally
        self._lambdas, self._counted = float(tally.lambda_.sum()), int(tally.steps.sum())

    def _learn_rollouts(self, agent: PpoAgent, play: _Play, rounds: int) -> None:
        length = agent.settings.steps
        for _ in range(-(-rounds // length)):
            chosen, moments = first_choice(agent, self.states), []
            for number in range(length):
                given = play(np.asarray(chosen[1]))
                self.states, moment, chosen = ppo_round(agent, self.states, number, chosen, given)
                moments.append(moment)
            rollout = jax.tree.map(lambda *parts: np.stack(parts), *moments)
            self.states, total = ppo_learn(agent, self.step_size, self.states, rollout)
            self._lambdas += float(total)
            self._counted += length * self.copies
            self.steps += length * self.copies
            if play.stopped:
                break

    def _begin(self, env: Any) -> Environments:
        """The episodes under way in this environment, those of a saved run, or new ones."""
        if self._environments is not None and self._environments.env is env:
            return self._environments
        self._check_fits(env)
        found = Environments(env, self.agent.task.space)
        if self._left is None or not self._brought_back(found, self._left):
            found = Environments(env, self.agent.task.space)
            shown = self._shown = found.start(self.seed + self.steps)
            if self.states is None:
                first = shown if self.normaliser is None else self.normaliser.first(shown)
                self.states = start_learning(self.agent, self.seed, first)
            else:
                first = shown if self.normaliser is None else self.normaliser.apply(shown)
                self.states = begin_again(self.agent, self.states, first)
        self._environments, self._left = found, None
        return found

    def _brought_back(self, found: Environments, left: dict[str, Any]) -> bool:
        """Whether the environment is where the saved run left it."""
        if left["position"] is not None and found.singles is not None:
            self._shown = found.return_to(left["position"], self.seed)
            if self._shown.tolist() == left["shown"]:
                return True
        warnings.warn(
            "env: its episodes cannot be brought back to where the saved run left them; new ones begin", stacklevel=4
        )
        return False

    def _check_fits(self, env: Any) -> None:
        theirs = read_task(env, codes=False)
        mine, copies = self.agent.task, int(getattr(env, "num_envs", 1))
        if (theirs.n_actions, theirs.n_reals) != (mine.n_actions, mine.n_reals) or copies != self.copies:
            raise ValueError(
                f"env: it has {copies} copies and actions {env.action_space}, the learner was made for {self.copies} "
                f"copies and {mine.n_actions or mine.n_reals} {'actions' if mine.n_actions else 'numbers per action'}"
            )
        if theirs.space.shape != mine.space.shape:
            raise ValueError(f"env: observations must have shape {mine.space.shape}, got {theirs.space.shape}")

    def act(self, observation: Any) -> Any:
        """The greedy action, as the environment takes it."""
        if self.states is None:
            raise ValueError("act: nothing has been learned; call learn first")
        read = read_observations([observation], self.agent.task.space)
        read = read if self.normaliser is None else self.normaliser.apply(read)
        return self._scale(np.asarray(_act(self.agent, self.states, read[0])))

    def evaluate(self, env: Any, episodes: int, *, seed: int = 0, max_steps: int | None = None) -> History:
        """Play so many episodes greedily, without learning. In the environment of training, new episodes begin then."""
        refuse_vector_environment(env)
        if self._environments is not None and env in (self._environments.env, *(self._environments.singles or ())):
            self._environments = None
        returns, lengths = np.zeros(check_whole("episodes", episodes, 1)), np.zeros(episodes, np.int64)
        for k in range(episodes):
            observation, ended = reset(env, seed if k == 0 else None)[0], False
            while not ended and lengths[k] != max_steps:
                observation, reward, terminated, truncated, _ = step(env, self.act(observation))
                ended = terminated or truncated
                returns[k] += check_reward(reward)
                lengths[k] += 1
        return History(returns, lengths)

    def save(self, path: str | Path) -> None:
        """Write everything to one .npz file: networks, traces, λ source, and where the environment is."""
        if self.states is None:
            raise ValueError("save: nothing has been learned; call learn first")
        position = None if self._environments is None else self._environments.position()
        left = {"position": position, "shown": self._shown.tolist()} if self._left is None else self._left
        kept = {"steps": self.steps, "environment": left, "log": []}
        if self.normaliser is not None:
            kept["normaliser"] = self.normaliser.state()
        save_states(path, {**self._about(), **kept}, self.states)

    def resume(self, path: str | Path) -> None:
        """Take up a file that `save` wrote for the same settings.

        Learning then goes on as if it had not been interrupted, where the environment's random numbers are all in
        `np_random` and its state follows from them and the actions of the episode: the episode under way is played
        again, unseen. Where that is not so, and in vector environments other than SyncVectorEnv, a warning says that
        new episodes begin.
        """
        space = self.agent.task.space
        blank = np.zeros((self.copies, *space.shape), np.int32 if isinstance(space, Categories | Grid) else np.float32)
        like = start_learning(self.agent, self.seed, blank + np.asarray(getattr(space, "start", 0), blank.dtype))
        about, states = load_states(path, self._about(), like)
        try:
            steps, left = int(about["steps"]), about["environment"]
            if self.normaliser is not None:
                self.normaliser.restore(about["normaliser"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{path}: is damaged, or was not written by DeepLearner.save") from None
        self.states, self.steps, self._left, self._environments = states, steps, left, None

    def _about(self) -> dict[str, Any]:
        """What must be the same where learning is resumed."""
        return {
            "agent": self.kind,
            "task": repr(self.agent.task),
            "settings": asdict(self.agent.settings),
            "source": repr(self.agent.source),
            "step_size": self.step_size,
            "seed": self.seed,
            "copies": self.copies,
            "normalise": self.normaliser is not None,
        }


class _Play:
    """Rounds of an environment, and the episodes that ended in them."""

    def __init__(self, environments: Environments, normaliser: Normaliser | None, callback: Any):
        self.environments, self.normaliser, self.callback = environments, normaliser, callback
        self.totals = environments.totals
        self.returns: list[float] = []
        self.lengths: list[int] = []
        self.stopped, self.shown = False, None
        self.advance: Callable[[float, int], None] = lambda value, amount: None

    def __call__(self, actions: np.ndarray) -> Round:
        if not np.isfinite(actions).all():
            raise ValueError("actions are not finite: learning has diverged; try a smaller step_size or normalise=True")
        given = self.environments.step(actions)
        ended = given.terminated | given.truncated
        self.shown = np.where(ended.reshape(-1, *(1,) * (given.fresh.ndim - 1)), given.fresh, given.observation)
        valid = np.ones(len(ended), bool) if given.valid is None else given.valid
        self.totals += np.stack([np.where(valid, given.reward, 0.0), valid])
        for k in np.flatnonzero(ended & valid).tolist():
            total, length = float(self.totals[0, k]), int(self.totals[1, k])
            self.returns.append(total)
            self.lengths.append(length)
            self.totals[:, k] = 0.0
            self.advance(total, length)
            if self.callback is not None and self.callback(len(self.returns) - 1, total, length) is True:
                self.stopped = True
        return given if self.normaliser is None else self.normaliser.follow(given)


@functools.partial(jax.jit, static_argnums=0)
def start_learning(agent: Agent, seed: Any, observations: Any) -> Any:
    """States before the first transition, from first observations [B, ...]."""
    if isinstance(agent, PpoAgent):
        return agent.start(seed, ((), observations))
    seeds = seed + jnp.arange(len(observations))
    states = jax.vmap(lambda s, x: agent.start(s, ((), x)))(seeds, observations)
    return states._replace(learned=jax.tree.map(lambda x: jnp.broadcast_to(x[0], x.shape), states.learned))


@functools.partial(jax.jit, static_argnums=0)
def stream_round(agent: StreamingAgent, step_size: float, states: StreamState, given: Round) -> StreamState:
    """Every copy learns from its transition; then all have the mean of their weights."""

    def one(now: StreamState, r: Any) -> StreamState:
        done = TaskStep((), r.observation, r.reward, r.terminated, r.truncated, jnp.zeros(()))
        after, _ = agent.learn_from(step_size, now, done, ((), r.fresh))
        if r.valid is None:
            return after
        empty = {name: jax.tree.map(jnp.zeros_like, getattr(now.learned, name)) for name in ("trace", "actor_trace")}
        kept = after._replace(learned=now.learned._replace(**empty), source=now.source, tally=now.tally)
        return jax.tree.map(lambda new, old: jax.lax.select(r.valid, new, old), after, kept)

    states = jax.vmap(one)(states, given)
    both = {"critic": states.learned.critic, "actor": states.learned.actor}
    shared = jax.tree.map(lambda w: jnp.broadcast_to(jnp.mean(w, 0), w.shape), both)
    return states._replace(learned=states.learned._replace(**shared))


@functools.partial(jax.jit, static_argnums=0)
def first_choice(agent: PpoAgent, state: Any) -> Any:
    """The actions of a rollout's first step."""
    return agent.choose(state, step_keys(state, jnp.zeros((), jnp.int32))[0])


@functools.partial(jax.jit, static_argnums=0)
def ppo_round(agent: PpoAgent, state: Any, number: Any, chosen: Any, given: Any) -> tuple[Any, Any, Any]:
    """Note a step of all copies, and choose the actions of the next."""
    score = jnp.zeros(given.reward.shape)
    done = TaskStep((), given.observation, given.reward, given.terminated, given.truncated, score)
    state, moment = agent.record(state, chosen, done, ((), given.fresh), None, given.valid)
    return state, moment, agent.choose(state, step_keys(state, number + 1)[0])


@functools.partial(jax.jit, static_argnums=0)
def ppo_learn(agent: PpoAgent, step_size: float, state: Any, rollout: Any) -> tuple[Any, jax.Array]:
    """The updates after a rollout, and the sum of λ."""
    state, lambdas, _ = agent.update(step_size, state, rollout)
    return state, jnp.sum(lambdas)


def begin_again(agent: Agent, states: Any, observations: np.ndarray) -> Any:
    """States at the beginning of new episodes: what is learned stays, traces are empty."""
    n = len(observations)
    nothing, yes = np.zeros(n, bool), np.ones(n, bool)
    given = Round(observations, np.zeros(n, np.float32), nothing, yes, observations, nothing)
    if isinstance(agent, PpoAgent):
        return ppo_round(agent, states, 0, first_choice(agent, states), given)[0]
    return stream_round(agent, 1.0, states, given)


@functools.partial(jax.jit, static_argnums=0)
def _act(agent: Agent, states: Any, observation: jax.Array) -> jax.Array:
    if isinstance(agent, PpoAgent):
        network = states.networks.actor
    else:
        learned = jax.tree.map(lambda x: x[0], states.learned)
        network = learned.critic if learned.actor is None else learned.actor
    return agent.policy.mode(apply_mlp(network, agent.task.space.inputs(observation))[0])
