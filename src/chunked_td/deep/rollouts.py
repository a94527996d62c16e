"""λ [T, B] for anybody's rollouts: a source of this room behind `update(rollout) -> λ`, with calibration and histogram.

    source = RolloutLambda(DeepValueKernel(), env.observation_space, discount=0.99)     # percept models need bounds
    lambda_ = source.update(DeepRollout(...))                     # NumPy arrays [T, B, ...]
    advantages = chunked_td.gae(..., lambda_=lambda_)

It is also a `lambda_source` for the rollout buffers of `chunked_td.integrations.sb3`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td._checks import check_unit, check_whole
from chunked_td.deep.lambdas.base import DeepLambda, SourceSizes, Transitions, V
from chunked_td.envs.spaces import read_inputs, read_space

_SLACK = 0.01  # of sums of probabilities, which may come in 16 bits


class DeepRollout(NamedTuple):
    """One rollout, time first: arrays [T, B, ...]."""

    observations: Any
    """Of the states that steps leave."""
    actions: Any
    """int[T, B], discrete; not read where there is no `policy`."""
    rewards: Any
    next_observations: Any
    """Of the states that steps led to, also where an episode ended; not read where `seen` is False."""
    values: Any
    """V of the states that steps leave."""
    next_values: Any
    """V of the states that steps led to; not read where terminated."""
    terminated: Any
    truncated: Any
    policy: Any = None
    """float[T, B, A], π(·|x_t); None leaves actions out of percept models."""
    features: Any = None
    """float[T, B, K], the critic's last layer, for heads; None: heads read observations only."""
    valid: Any = None
    """bool[T, B], False where a step teaches nothing, such as padding; None: all steps teach."""
    seen: Any = None
    """bool[T, B], False where the next observation is not known: percept models do not learn from the step, sources
    that read values do. None: all are known."""
    starts: Any = None
    """bool[B], whether the first observations begin episodes; None: where the rollout before ended one, or in the first
    rollout."""


class RolloutLambda:
    """A λ source that learns from each rollout before it answers.

    Args:
      source: `DeepValueKernel`, `DeepPercepts`, `DeepRecurrent`, `DeepLambdaGreedy` or `DeepConstant`.
      space: of observations: one of `chunked_td.envs.spaces`, or a Gymnasium space that can be read as one. Percept
        models need finite bounds; for a Box without them give `Continuous(low, high)`.
      discount: γ. n_actions: needed where rollouts have a `policy`. passes: over each rollout. seed: of first weights.
    """

    def __init__(
        self,
        source: DeepLambda,
        space: Any,
        *,
        discount: float = 0.99,
        n_actions: int = 0,
        passes: int = 1,
        seed: int = 0,
    ):
        if not isinstance(source, DeepLambda):
            raise TypeError(f"source: got {source!r}, takes a λ source of chunked_td.deep, such as DeepValueKernel()")
        if source.streaming_only or source.needs_draws:
            raise ValueError(f"source: {type(source).__name__} cannot learn from rollouts alone")
        self.source, self.space = source, (read_space if source.needs_codes else read_inputs)(space)
        self.discount = check_unit("discount", discount)
        self.n_actions = check_whole("n_actions", n_actions, 0)
        self.passes = check_whole("passes", passes, 1)
        self._key = jax.random.key(check_whole("seed", seed, 0))
        self._state: Any = None
        self._sizes: SourceSizes | None = None
        self._starts, self._ended = None, None  # bool[B]: how the latest rollout began, and whether its end was one
        self._checked: tuple[np.ndarray, np.ndarray] | None = None
        self._lambdas: np.ndarray | None = None
        self._learn, self._ask, self._check = (jax.jit(f) for f in (source.learn, source.lambdas, source.check))

    def update(self, rollout: Any) -> np.ndarray:
        """Learn from a rollout, then λ of the states its steps leave: float32[T, B].

        What the model said *before* it learned from this rollout is kept for `calibration`.
        """
        read = self._read(rollout)
        starts = _starts(read, self._ended)
        transitions = self._transitions(read, starts)
        if self._sizes is None:
            self._sizes = self._sizes_of(transitions)
            self._state = self.source.init(self._key, self._sizes)
        else:
            checked = self._check(self._state, transitions)
            if checked is not None:
                masks = transitions.percept_known if self.source.needs_codes else transitions.valid
                known = np.asarray(masks) > 0
                self._checked = tuple(np.asarray(x)[known] for x in checked)  # type: ignore[assignment]
        before = self._state
        for number in range(self.passes):
            state = self.source.rewind(self._state, before) if number else before
            self._state = self._learn(state, transitions)
        self._starts, self._ended = starts, np.asarray(read.terminated)[-1] | np.asarray(read.truncated)[-1]
        return self._answer(transitions)

    def lambdas(self, rollout: Any) -> np.ndarray:
        """λ without learning. A recurrent model begins where the rollout that it learned from last began."""
        if self._state is None:
            raise ValueError("lambdas: the model has not learned from any rollout; call update first")
        read = self._read(rollout)
        return self._answer(self._transitions(read, _starts(read, self._starts)))

    def _answer(self, transitions: Transitions) -> np.ndarray:
        self._lambdas = np.asarray(self._ask(self._state, transitions))
        return self._lambdas

    def calibration(self, bins: int = 10) -> dict[str, np.ndarray]:
        """What was predicted of the latest rollout before learning from it, and what came true, in equal bins.

        For percept models: the expected probability and the probability of the percept that came. For the value kernel:
        the variance and the squared error. Equal means calibrated.
        """
        if self._checked is None or not self._checked[0].size:
            raise ValueError("calibration: needs a model and two rollouts, one to learn from and one to check on")
        predicted, true = self._checked
        parts = np.array_split(np.argsort(predicted, kind="stable"), min(check_whole("bins", bins, 1), predicted.size))
        means = [(predicted[p].mean(), true[p].mean(), p.size) for p in parts]
        return {
            name: np.array(column)
            for name, column in zip(("predicted", "true", "count"), zip(*means, strict=True), strict=True)
        }

    def histogram(self, bins: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """How often λ fell into each part of [0, 1] in the latest answer: (counts[bins], edges[bins + 1])."""
        if self._lambdas is None:
            raise ValueError("histogram: λ has not been asked for; call update first")
        return np.histogram(self._lambdas, check_whole("bins", bins, 1), (0.0, 1.0))

    def _read(self, rollout: Any) -> DeepRollout:
        """The rollout as checked NumPy arrays."""
        given = from_episode_starts(rollout) if hasattr(rollout, "episode_starts") else rollout
        missing = [name for name in DeepRollout._fields[:8] if not hasattr(given, name)]
        if missing:
            raise TypeError(
                f"rollout: got {type(rollout).__name__} without {missing[0]}, takes a DeepRollout or a rollout of "
                "chunked_td.integrations.sb3"
            )
        arrays = DeepRollout(*(getattr(given, name, None) for name in DeepRollout._fields))
        return _checked(arrays, self.space, self.n_actions)

    def _sizes_of(self, transitions: Transitions) -> SourceSizes:
        inputs, features = transitions.inputs.shape[-1], transitions.features.shape[-1]
        return SourceSizes(inputs, features, self.space.nvec, self.n_actions, V, transitions.reward.shape[1])

    def _transitions(self, r: DeepRollout, starts: np.ndarray) -> Transitions:
        over = r.terminated | r.truncated
        next_values = np.where(r.terminated, np.float32(0.0), r.next_values)
        valid, seen = r.valid.astype(np.float32), r.valid & r.seen
        if r.features.shape[-1] and not self.source.needs_codes:
            seen[:-1] &= ~over[:-1]  # features of the next state are those of the next row
            seen[-1] = False
        observations, following = jnp.asarray(r.observations), jnp.asarray(r.next_observations)
        transitions = Transitions(
            inputs=self.space.inputs(observations),
            next_inputs=self.space.inputs(following),
            features=jnp.asarray(r.features),
            next_features=jnp.concatenate([r.features[1:], r.features[-1:]]),
            codes=self.space.codes(observations),
            next_codes=self.space.codes(following),
            action=jnp.asarray(r.actions),
            policy=jnp.asarray(r.policy),
            reward=jnp.asarray(r.rewards),
            next_value=jnp.asarray(next_values),
            value=jnp.asarray(r.values),
            td_error=jnp.asarray(valid * (r.rewards + np.float32(self.discount) * next_values - r.values)),
            start=jnp.concatenate([starts[None], over[:-1]]),
            terminated=jnp.asarray(r.terminated),
            valid=jnp.asarray(valid),
            discount=jnp.asarray(self.discount, jnp.float32),
            seen=jnp.asarray(seen, jnp.float32),
        )
        if self._sizes is not None:
            self._check_sizes(self._sizes_of(transitions))
        return transitions

    def _check_sizes(self, now: SourceSizes) -> None:
        """Refuse a rollout that the state of the source has no room for."""
        first = self._sizes
        assert first is not None
        if now.features != first.features:
            raise ValueError(f"features: got {now.features} numbers per state, takes {first.features} as before")
        if now.batch != first.batch and self._shapes(now) != self._shapes(first):
            raise ValueError(
                f"rewards: got {now.batch} environments, takes {first.batch} as before, because "
                f"{type(self.source).__name__} follows each of them"
            )

    def _shapes(self, sizes: SourceSizes) -> list[tuple[int, ...]]:
        state = jax.eval_shape(lambda: self.source.init(self._key, sizes))
        return [leaf.shape for leaf in jax.tree.leaves(state)]


def _starts(rollout: DeepRollout, otherwise: np.ndarray | None) -> np.ndarray:
    """bool[B]: whether the first observations begin episodes."""
    batch = rollout.rewards.shape[1]
    if rollout.starts is not None:
        return rollout.starts
    return np.ones(batch, bool) if otherwise is None or len(otherwise) != batch else otherwise


def _checked(rollout: DeepRollout, space: Any, n_actions: int) -> DeepRollout:
    """A rollout as NumPy arrays of the right shapes and kinds, or an error that names what is wrong."""
    shape = _array("rewards", rollout.rewards).shape
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"rewards: got shape {shape}, takes [T, B] with at least one step and one environment")
    reals = {name: _real(name, getattr(rollout, name), shape) for name in ("rewards", "values")}
    flags = {name: _flag(name, getattr(rollout, name), shape) for name in ("terminated", "truncated")}
    known = {
        name: np.ones(shape, bool) if getattr(rollout, name) is None else _flag(name, getattr(rollout, name), shape)
        for name in ("valid", "seen")
    }
    next_values = _real("next_values", rollout.next_values, shape, ~flags["terminated"])
    observations = _observations("observations", rollout.observations, shape, space)
    space.check("observations", observations)
    following = _observations("next_observations", rollout.next_observations, shape, space)
    following = np.where(known["seen"].reshape(*shape, *(1,) * len(space.shape)), following, observations)
    space.check("next_observations", following)
    if (rollout.policy is None) != (n_actions == 0):
        raise ValueError(f"policy: got {'none' if rollout.policy is None else 'one'} with n_actions = {n_actions}")
    actions, policy = np.zeros(shape, np.int32), np.zeros((*shape, 0), np.float32)
    if n_actions:
        actions, policy = _actions(rollout.actions, shape, n_actions), _policy(rollout.policy, shape, n_actions)
    features = np.zeros((*shape, 0), np.float32)
    if rollout.features is not None:
        width = _array("features", rollout.features).shape[2:]
        features = _real("features", rollout.features, (*shape, *(width if len(width) == 1 else ("K",))))
    starts = None if rollout.starts is None else _flag("starts", rollout.starts, shape[1:])
    said = {"next_values": next_values, "policy": policy, "features": features, "starts": starts}
    return DeepRollout(observations, actions, next_observations=following, **said, **reals, **flags, **known)


def _array(name: str, value: Any, shape: tuple[Any, ...] | None = None) -> np.ndarray:
    """An argument as a NumPy array of numbers or bools, of this shape."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.name == "bfloat16":  # of JAX; no kind of number to NumPy
        array = array.astype(np.float32)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name}: got {type(value).__name__}, takes an array of numbers")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name}: got shape {array.shape}, takes {shape}".replace("'", ""))
    return array


def _refuse(name: str, array: np.ndarray, wrong: np.ndarray, takes: str) -> None:
    if wrong.any():
        raise ValueError(f"{name}: got {array[wrong][0]}, takes {takes}")


def _real(name: str, value: Any, shape: tuple[Any, ...], where: Any = True) -> np.ndarray:
    array = _array(name, value, shape).astype(np.float32)
    _refuse(name, array, ~np.isfinite(array) & where, "finite numbers")
    return array


def _flag(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = _array(name, value, shape)
    _refuse(name, array, (array != 0) & (array != 1), "bools, or the numbers 0 and 1")
    return array != 0


def _observations(name: str, value: Any, shape: tuple[int, ...], space: Any) -> np.ndarray:
    """Observations [T, B, ...]; a last axis of 1 may be in excess, axes are joined where the space has one."""
    if isinstance(value, dict):
        raise TypeError(f"{name}: got a dict of {', '.join(map(str, value))}, takes one array [T, B, ...]")
    array, takes = _array(name, value), (*shape, *space.shape)
    flat = len(space.shape) == 1 and array.shape[:2] == shape and math.prod(array.shape[2:]) == space.shape[0]
    if array.shape not in (takes, (*takes, 1)) and not flat:
        raise ValueError(f"{name}: got shape {array.shape}, takes {takes} = [T, B, ...]")
    return array.reshape(takes)


def _actions(value: Any, shape: tuple[int, ...], n_actions: int) -> np.ndarray:
    array = _array("actions", value)
    array = _array("actions", array.reshape(shape) if array.shape == (*shape, 1) else array, shape)
    wrong = ~((array == np.floor(array)) & (array >= 0) & (array < n_actions))
    _refuse("actions", array, wrong, f"whole numbers in 0..{n_actions - 1}")
    return array.astype(np.int32)


def _policy(value: Any, shape: tuple[int, ...], n_actions: int) -> np.ndarray:
    array = _array("policy", value, (*shape, n_actions)).astype(np.float32)
    _refuse("policy", array, ~((array >= 0) & (array <= 1 + _SLACK)), "probabilities")
    total = array.sum(-1)
    if (wrong := np.abs(total - 1) > _SLACK).any():
        raise ValueError(f"policy: got probabilities that add up to {total[wrong][0]}, takes 1")
    return array


def from_episode_starts(rollout: Any) -> DeepRollout:
    """A rollout as Stable-Baselines3's buffer has it: what follows a row is the next row.

    Where an episode ended, and after the last row, the next observation is not known: `seen` is False there. The next
    value is: 0 at an end, that of `last_values` after the last row. Cuts look like terminations, with γ V of the state
    that was cut in added to the reward, so TD errors are right there too, and the next value that a source sees is 0.
    Actions are left out: there is no policy.
    """
    if isinstance(rollout.observations, dict):
        raise TypeError(f"observations: got a dict of {', '.join(map(str, rollout.observations))}, takes one array")
    starts, ended = np.asarray(rollout.episode_starts) != 0, np.asarray(rollout.last_dones) != 0
    shape = _array("rewards", rollout.rewards).shape
    if len(shape) != 2 or 0 in shape or starts.shape != shape:
        raise ValueError(f"episode_starts: got shape {starts.shape} with rewards {shape}, takes [T, B], T and B from 1")
    terminated = np.concatenate([starts[1:], ended.reshape(1, -1)])
    observations, values = np.asarray(rollout.observations), np.asarray(rollout.values)
    seen = ~terminated
    seen[-1] = False
    following = np.concatenate([observations[1:], observations[-1:]])
    next_values = np.concatenate([values[1:], np.asarray(rollout.last_values).reshape(1, -1)])
    steps = (observations, None, rollout.rewards, following, values, next_values, terminated, np.zeros_like(terminated))
    return DeepRollout(*steps, seen=seen, starts=starts[0])
