"""Gymnasium interface of compiled dynamics.

`DynamicsEnv` makes a Gymnasium environment of any `Dynamics`; the package's own environments are thin subclasses with
documentation. It calls the same kernels as the compiled simulation with the same random numbers: the uniforms of the
Generator of `reset(seed=...)`, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import error, spaces

from chunked_td._link import Packed, Program, Stream, slot
from chunked_td.envs import rendering
from chunked_td.envs.protocol import (
    Dynamics,
    env_legal,
    env_prepare,
    env_reset,
    env_step,
    independent_copy,
    legal_masks,
)
from chunked_td.seeding import set_words, state_of_words

if TYPE_CHECKING:
    from chunked_td.analysis.exact import ExactModel


class Shown(NamedTuple):
    """Arrays of an environment, as kernels read them."""

    env: Any
    rng: Stream
    state: Annotated[np.ndarray, "int64[c]"]
    reward: Annotated[np.ndarray, "float64[d]"]


read = slot("arrays", "read")


def prepare_env(address):
    """Sample the parameters that the seed determines."""
    here = read(address)
    env_prepare(here.env, here.rng)
    return 0


def reset_env(address):
    """Begin an episode."""
    here = read(address)
    env_reset(here.env, here.rng, here.state)
    return 0


def step_env(address, action):
    """Take an action; return whether the episode has ended."""
    here = read(address)
    return env_step(here.env, here.rng, here.state, action, here.reward)


def legal_env(address):
    """Return the row of the legal actions."""
    here = read(address)
    return env_legal(here.env, here.state)


class LegalActions(spaces.Discrete):
    """Actions 0..n−1, with the legal actions of the current state in `legal`.

    A `Discrete` space whose `sample()` draws a legal action by default, so random play needs no mask.
    """

    def __init__(self, n: int):
        super().__init__(n)
        self.legal = np.ones(n, bool)

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """Draw a legal action, or an action by `mask` or `probability`."""
        if mask is None and probability is None:
            offered = np.flatnonzero(self.legal)
            return np.int64(offered[self.np_random.integers(offered.size, dtype=np.int64)])
        return super().sample(mask, probability)


class DynamicsEnv(gym.Env[Any, Any]):
    """A Gymnasium environment over compiled dynamics of this package or of a user.

    Observations are the state: `Discrete` if it has one component, else `MultiDiscrete`. Rewards are a float, or
    float64[d] with a `reward_space` if the dynamics have a reward vector (mo-gymnasium's convention).
    `info["action_mask"]`, int8[n], is 1 for legal actions. Illegal actions and steps outside an episode are errors.

    Args:
      dynamics: an instance of `chunked_td.envs.dynamics.Dynamics`. Its arrays are copied.
      render_mode: "ansi" for text, "rgb_array" for a picture, None for neither.
    """

    hidden = False
    """Whether observations hide the state."""
    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 8}  # noqa: RUF012 (as gym.Env has it)

    def __init__(self, dynamics: Dynamics, *, render_mode: str | None = None):
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise ValueError(f"render_mode must be one of {modes} or None, got {render_mode!r}")
        self.dynamics = independent_copy(dynamics)
        self.render_mode = render_mode
        nvec, d = dynamics.nvec, dynamics.n_rewards
        self.observation_space = spaces.Discrete(nvec[0]) if len(nvec) == 1 else spaces.MultiDiscrete(list(nvec))
        self.action_space = self._actions = LegalActions(dynamics.n_actions)
        if d > 1:
            self.reward_space = spaces.Box(-np.inf, np.inf, (d,), dtype=np.float64)
        self._state = np.zeros(len(nvec), dtype=np.int64)
        self._reward = np.zeros(d)
        self._rng = Stream(np.zeros(5, np.uint64))
        self._taken: np.random.Generator | None = None  # the Generator that `_rng` continues
        self._prepared: np.random.Generator | None = None  # the Generator of the latest `prepare`
        self._packed: Packed | None = None
        self._program: Program | None = None
        self._exact: ExactModel | None = None
        self._running = False
        self._masks, self._steps, self._limit = legal_masks(self.dynamics), 0, -1
        if hasattr(self.dynamics, "time_limit"):
            self._limit = int(self.dynamics.time_limit(self.dynamics))  # type: ignore[attr-defined]
        self._view: rendering.EpisodeView | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. A seed also samples the parameters that the environment fixes per seed."""
        super().reset(seed=seed)
        if self._prepared is None or self._prepared is not self._np_random:
            self._call(prepare_env)
            self._prepared, self._exact = self._np_random, None
        self._call(reset_env)
        self._running, self._steps = True, 0
        if self.render_mode is not None:
            self._view = rendering.EpisodeView(self.dynamics, self._state)
        return self._observation(), self._info()

    @property
    def np_random(self) -> np.random.Generator:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The environment's Generator, positioned after the last number used."""
        generator = super().np_random
        if self._taken is generator:
            bits, drawn = generator.bit_generator, state_of_words(self._rng.words)
            if drawn["state"] != bits.state["state"]:
                bits.state = drawn
        self._taken = None  # the caller may draw from it
        return generator

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._np_random = value
        self._np_random_seed = -1  # unknown, as Gymnasium has it

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a legal action. Episodes are truncated only if the dynamics have a `time_limit`."""
        if not self._running:
            when = "before the first reset()" if self._prepared is None else "after the end of the episode"
            raise error.ResetNeeded(f"step() was called {when}: call reset() to begin an episode")
        legal = self._actions.legal
        if not (self.action_space.contains(action) and legal[action]):
            offered = np.flatnonzero(legal).tolist()
            accepted = f"in 0..{offered[-1]}" if offered == [*range(len(offered))] else f"of {offered}"
            where = f'in state {self._state.tolist()} (see info["action_mask"])'
            raise error.InvalidAction(f"action must be an integer {accepted} {where}, got {action!r}")
        terminated = bool(self._call(step_env, int(action)))
        self._steps += 1
        truncated = not terminated and self._steps == self._limit
        self._running = not (terminated or truncated)
        if self._view is not None:
            self._view.add(int(action), self._state, self._reward, terminated)
        reward = float(self._reward[0]) if self._reward.size == 1 else self._reward.copy()
        return self._observation(), reward, terminated, truncated, self._info()

    def render(self) -> Any:
        """Return the state and the latest step as text or as uint8[height, width, 3], by `render_mode`."""
        if self.render_mode is None:
            gym.logger.warn('render() was called without a render_mode; use make(..., render_mode="rgb_array")')
            return None
        if self._view is None:
            raise error.ResetNeeded("render() was called before the first reset(): call reset() to begin an episode")
        return rendering.text(self._view) if self.render_mode == "ansi" else rendering.picture(self._view)

    def exact(self) -> ExactModel:
        """Return the true model; its `optimal()`, `evaluate(policy)` and `epsilon_optimal(epsilon)` give exact values.

        The parameters that a seed determines are part of the model, so `reset` must be called first.
        """
        if self._prepared is None:
            raise error.ResetNeeded(
                "exact() was called before the first reset(): call reset(), as the model may depend on the seed"
            )
        if self._exact is None:
            from chunked_td.analysis.exact import ExactModel

            self._exact = ExactModel(self.dynamics)
        return self._exact

    @property
    def P(self) -> dict[int, dict[int, list[tuple[float, int, Any, bool]]]]:
        """The true model in toy-text form: `P[id][action] = [(probability, id, reward, terminated)]`."""
        return self.exact().P

    def _call(self, entry: Any, *arguments: int) -> Any:
        """Call a kernel of the dynamics with the environment's own random numbers."""
        if self._packed is None:
            shown = Shown(self.dynamics, self._rng, self._state, self._reward)
            self._program = self._program or Program(shown, {"dynamics": type(self.dynamics)})
            self._packed = Packed(shown)
        if self._taken is None or self._taken is not self._np_random:
            self._taken = super().np_random
            set_words(self._rng.words, self._taken.bit_generator.state)  # type: ignore[arg-type]
        return self._program(entry, len(arguments))(self._packed.address, *arguments)  # type: ignore[misc]

    def __getstate__(self) -> dict[str, Any]:
        """State for copies, without addresses of this process."""
        return self.__dict__ | {"_packed": None, "_program": None}

    def _observation(self) -> Any:
        return int(self._state[0]) if self._state.size == 1 else self._state.copy()

    def _info(self) -> dict[str, Any]:
        mask = self._masks[self._call(legal_env)]
        self._actions.legal = mask if mask.any() else np.ones_like(mask)  # allows `sample()` after the end
        return {"action_mask": mask.astype(np.int8)}
