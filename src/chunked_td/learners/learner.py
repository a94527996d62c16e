"""A learner: settings, tables, and one update per call.

`start` and `step` are for a user's own training loop; `learn` is that loop for Gymnasium environments, `learn_from` for
recorded episodes.

A step is one call of a compiled entry (`learners.core`). Parts in Python run before or between entries: a model object
predicts before the step, since its predictions depend on neither a_{t+1} nor δ_t; a λ source in plain Python runs
between `step_before_lambda` and `step_after_lambda`.
"""

from __future__ import annotations

import copy
import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

import numpy as np

from chunked_td._checks import check_choice, check_finite, check_flag, check_not_negative, check_seed, check_unit
from chunked_td._link import Packed, Program, link, reader
from chunked_td._settings import new_array
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.lambdas.base import MODEL, LambdaSource, as_lambda_source
from chunked_td.lambdas.forward import ForwardLambda
from chunked_td.lambdas.plain import PlainStep, checked_lambda
from chunked_td.learners import core
from chunked_td.learners.copies import one_copy
from chunked_td.learners.core import CUT, FREE, ONGOING, TERMINATED, TRUNCATED, Work
from chunked_td.learners.exploration import Exploration, check_exploration
from chunked_td.learners.inputs import (
    check_action,
    check_end,
    check_id,
    check_indexer,
    check_policy_table,
    check_reward,
    check_reward_vector,
    check_reward_weights,
    count_rewards,
    legal_actions,
    policy_row,
    refuse_unknown_settings,
)
from chunked_td.learners.linear_values import VIEWS
from chunked_td.learners.logged import learn_from
from chunked_td.learners.loop import History, evaluate, train
from chunked_td.learners.model_objects import ask_model, check_model
from chunked_td.learners.planning.base import Planner, RewardSource, check_planner, check_reward_source
from chunked_td.learners.schedule import Schedule, at_episode, check_schedule
from chunked_td.learners.state import (
    AgentState,
    Diverged,
    Memory,
    Rule,
    Tables,
    build_state,
    divergence_text,
    parts_of,
    reward_components,
    table_sizes,
    with_room,
    with_states,
)
from chunked_td.learners.views import check_view
from chunked_td.models import KernelModel
from chunked_td.models.counts import Counts
from chunked_td.models.errors import ModelError
from chunked_td.models.predictions import Predictions
from chunked_td.observations import Indexer, make_indexer
from chunked_td.observations.features import Features
from chunked_td.policies import GIVEN, policy_at
from chunked_td.seeding import Draws, split_seed
from chunked_td.traces import View

if TYPE_CHECKING:
    from chunked_td.analysis.credit import Explanation

Policy = str | np.ndarray | Callable[[Any], Any]

LOG = logging.getLogger("chunked_td")
"""Warnings of learners. Python prints them to standard error unless `logging` is configured."""

_ROOM = 64  # transitions to make room for at a time


class LearnerSettings(TypedDict, total=False):
    """The keyword arguments of every learner; see `Learner`."""

    step_size: float | Schedule
    discount: float
    epsilon: float | Schedule | None
    exploration: Exploration | None
    seed: int
    lambda_source: LambdaSource | float | None
    model: Any
    planner: Planner | None
    reward_source: RewardSource | None
    policy: Policy | None
    view: str | View | None
    percept: str
    prior: float
    replacing: bool | None
    cutoff: float
    indexer: Indexer | None
    action_mask: bool | None
    reward_weights: Sequence[float] | np.ndarray | None
    initial_value: float


class Learner:
    """Base of all learners.

    Only `env` is required. Most learners change `step_size`, `discount`, `epsilon` and perhaps `lambda_source`.

    Args:
      env: a Gymnasium environment, or a vector of them (or anything with `observation_space` and `action_space`).

      step_size: α, a number or a `Schedule` over episodes.
      discount: γ.
      initial_value: initial value of every table entry, in every reward component. A value above the largest return
        makes learners try every action (optimistic initial values).
      reward_weights: float[d], a factor for every reward component; all 1 by default. Values are then those of the
        weighted components, and the policy acts on their sum.

      lambda_source: λ of every step: a source from `chunked_td.lambdas`, one of your own, or a number.
      view: "traces", "lineage" or "true_online" (online; see `chunked_td.learners.views`), "offline"
        (λ-return at the end of an episode) or "sampled" (§3.1).
      replacing: replacing instead of accumulating traces. None is True for tile coding, where accumulating traces add
        up while an observation stays in a tile, and False elsewhere.
      cutoff: traces at or below it are dropped. 0 is exact.

      model: None for counts, an object that follows `chunked_td.models.Model`, a compiled `KernelModel`, or a model
        error that is applied to the counts (`chunked_td.models.errors`).
      percept: what the count model predicts: "state" or "reward-state".
      prior: Dirichlet pseudo-count per outcome of the count model.
      planner: extra updates from the count model, such as `Dyna`; None for the learner's default.
      reward_source: `ExpectedError` for expected TD errors under the planner's model, `LearnedComponents` to divide a
        scalar reward among the state components; None for rewards as received.

      epsilon: ε of the ε-greedy policy, a number or a `Schedule`; 0.1 by default. Not used by state-value learners.
      exploration: other exploration on action values: `CountBonus(scale)`, `GivenPolicy(table)` or one of your own
        (`chunked_td.learners.exploration`). The learner estimates the values of the policy that acts.
      policy: state-value learners only: "uniform", probabilities float[S, A], or a function from observation to
        float[A].
      action_mask: whether to take only the actions that `info["action_mask"]` allows, if an environment provides it.
        None also applies it, and logs this once, when an action is first forbidden.
      seed: of the policy, the model, and the environment in `learn`.

      indexer: maps observations to ids; by default chosen from `env.observation_space`. Or features, for linear values:
        `TileCoding`, `OwnFeatures`.
    """

    def __new__(cls, *arguments: Any, **settings: Any) -> Self:
        """Create a learner; the error for an unknown keyword suggests the nearest one."""
        refuse_unknown_settings(cls, settings)
        return super().__new__(cls)

    bootstrap: ClassVar[int] = SARSA
    default_source: ClassVar[LambdaSource] = ForwardLambda()
    default_view: ClassVar[str] = "traces"
    default_planner: ClassVar[Planner | None] = None
    default_reward_source: ClassVar[RewardSource | None] = None
    takes_features: ClassVar[bool] = True

    def __init__(
        self,
        env: Any,
        *,
        step_size: float | Schedule = 0.1,
        discount: float = 0.99,
        epsilon: float | Schedule | None = None,
        exploration: Exploration | None = None,
        seed: int = 0,
        lambda_source: LambdaSource | float | None = None,
        model: Any = None,
        planner: Planner | None = None,
        reward_source: RewardSource | None = None,
        policy: Policy | None = None,
        view: str | View | None = None,
        percept: str = "state",
        prior: float = 0.0,
        replacing: bool | None = None,
        cutoff: float = 0.0,
        indexer: Indexer | None = None,
        action_mask: bool | None = None,
        reward_weights: Sequence[float] | np.ndarray | None = None,
        initial_value: float = 0.0,
    ):
        env = one_copy(env)
        self.seed = check_seed(seed)
        self.step_size = check_schedule("step_size", step_size, positive=True)
        self.discount = check_unit("discount", discount)
        self.lambda_source = as_lambda_source(lambda_source, self.default_source)
        self.view = check_view(self.default_view if view is None else view)
        self.percept = check_choice("percept", percept, ("state", "reward-state"))
        self.prior = check_not_negative("prior", prior)
        self.cutoff = check_not_negative("cutoff", cutoff)
        self.initial_value = check_finite("initial_value", initial_value)
        self.action_mask = None if action_mask is None else check_flag("action_mask", action_mask)
        self.planner = check_planner(self.default_planner if planner is None else planner)
        self.exploration, self.epsilon = check_exploration(exploration, epsilon, self.bootstrap, self.planner)
        self.reward_source = check_reward_source(self.default_reward_source if reward_source is None else reward_source)
        self._read_spaces(env, indexer)
        binary = self.features is not None and self.features.binary and self.view == "traces"
        self.replacing = binary if replacing is None else check_flag("replacing", replacing)
        self.reward_weights = check_reward_weights(reward_weights, self.n_paid)
        self.model, self.policy = model, self._check_policy(policy)
        self._check_combination()
        self._allocate()
        self._say_pairing(env)

    # ---- set-up

    def _check_policy(self, policy: Policy | None) -> Policy | None:
        if self.bootstrap != STATE:
            if policy is not None:
                raise ValueError(
                    f"policy requires a state-value learner such as ChunkedTD, got {type(self).__name__}, which acts "
                    f"on its action values; leave it out, or pass exploration=GivenPolicy(table)"
                )
            return None
        if policy is None or isinstance(policy, str):
            return check_choice("policy", "uniform" if policy is None else policy, ("uniform",))
        return policy if callable(policy) else check_policy_table(policy, self.indexer, self.n_actions)

    def _read_spaces(self, env: Any, indexer: Indexer | None) -> None:
        actions = getattr(env, "action_space", None)
        if actions is None or not hasattr(env, "observation_space"):
            raise ValueError(f"env must be a Gymnasium environment (see gymnasium.make), got {env!r}")
        if not hasattr(actions, "n") or type(actions).__name__ == "MultiBinary":
            real = type(env.observation_space).__name__ == "Box"
            states = "; its observations then take bins (Discretise) or tile coding (TileCoding)" if real else ""
            raise ValueError(
                f"env.action_space must be Discrete, got {actions!r}. Wrap the environment so that it offers a few "
                f"actions (gymnasium.ActionWrapper){states}. Or, for a network, use PPO of Stable-Baselines3 with "
                f"chunked_td.integrations.sb3.LambdaRolloutBuffer"
            )
        self.n_actions, self.action_start = int(actions.n), int(getattr(actions, "start", 0))
        self.indexer = make_indexer(env.observation_space) if indexer is None else check_indexer(indexer)
        self.n_paid, per_component = count_rewards(env), self.lambda_source.per_component
        self.n_rewards = reward_components(self.reward_source, self.indexer.nvec, self.n_paid, per_component)

    @functools.cached_property  # read at every step
    def features(self) -> Features | None:
        """The features that values are linear in; None for tables."""
        return self.indexer if isinstance(self.indexer, Features) else None

    @property
    def inputs(self) -> frozenset[str]:
        """Inputs that the λ source requires (`chunked_td.lambdas.base`)."""
        return self.lambda_source.inputs(self.bootstrap)

    def _check_features(self) -> None:
        """Raise a ValueError for settings that do not support features."""
        name, features = f"lambda_source {type(self.lambda_source).__name__}()", self.features
        if features is None:
            return
        if not self.takes_features:
            got = f"got features {type(features).__name__}; use Discretise(env) for bins"
            raise ValueError(f"indexer: {type(self).__name__} learns a table, {got}")
        if self.view not in VIEWS:
            raise ValueError(f"features require view {' or '.join(map(repr, VIEWS))}, got view={self.view!r}")
        for argument in ("planner", "reward_source"):
            if getattr(self, argument) is not None:
                got = f"got {getattr(self, argument)!r} with features; leave it out"
                raise ValueError(f"{argument} requires a table of values, {got}")
        if self.inputs & MODEL and not features.has_codes:
            raise ValueError(f"{name} requires a model, but the features have no codes to count: codes=Discretise(env)")

    def _check_combination(self) -> None:
        source, inputs = self.lambda_source, self.inputs
        self._check_features()
        if "parts" in inputs and self.indexer.nvec is None:
            raise ValueError(f"lambda_source {type(source).__name__}() requires observations with countable components")
        if self.percept == "reward-state" and inputs & {"predecessors", "parts"}:
            raise ValueError(f"percept='reward-state' does not support {source!r}, which counts states; use 'state'")
        if self.percept == "reward-state" and "outcomes" in inputs:
            raise ValueError(
                f"percept='reward-state' does not support {type(source).__name__} for {type(self).__name__}: outcomes "
                f"would not be states; use percept='state', or ExpectedLambda with Expected-SARSA"
            )
        if self.prior > 0.0 and not self.indexer.fixed:
            raise ValueError(
                f"prior requires a known number of states, got {self.prior} with {type(self.indexer).__name__}, which "
                f"adds states when they are first observed; leave prior out"
            )
        if self.prior > 0.0 and self.percept == "reward-state":
            raise ValueError(
                f"prior requires a known number of outcomes, got {self.prior} with percept='reward-state'; use "
                f"percept='state'"
            )
        if self._asks_model():
            if self.percept != "state" or self.prior > 0.0:
                got = f"got percept={self.percept!r} and prior={self.prior} with model={type(self.model).__name__}"
                raise ValueError(f"percept and prior are settings of the count model, {got}; leave them out")
            check_model(self.model, source, self.bootstrap, self.n_actions)
        if isinstance(self.model, ModelError):
            if self.percept != "state":
                raise ValueError(f"model {self.model!r} requires percept='state', got percept={self.percept!r}")
            if self.model.needs_states and not self.indexer.fixed:
                kind = f"{type(self.indexer).__name__}, which adds states when they are first observed"
                raise ValueError(f"model {self.model!r} requires a known number of states, got {kind}")

    def _say_pairing(self, env: Any) -> None:
        """Log the assumed pairing of rewards and state components, if it follows from their equal number only."""
        source = self.lambda_source
        if "parts" not in self.inputs or getattr(source, "components", ()) is not None:
            return
        if self.n_rewards != self.n_paid:
            return  # the rewards are made from the components
        if getattr(getattr(env, "unwrapped", env), "rewards_by_component", False):
            return  # declared by the environment
        name, every = type(source).__name__, tuple(range(self.n_rewards))
        pairs = ", ".join(f"reward {i} ← component {i}" for i in every)
        LOG.warning(
            f"chunked_td: {name} pairs rewards and state components by their number: {pairs}. If that is right, pass "
            f"components={every}; if not, pass the state components that decide each reward"
        )

    def _asks_model(self) -> bool:
        """Whether λ comes from a model object."""
        if self.model is None or isinstance(self.model, ModelError | KernelModel):
            return False
        return bool(self.inputs & MODEL)

    def _build(self) -> AgentState:
        """The compiled side of a learner with these settings, before its first step."""
        model: Any = self.model if isinstance(self.model, ModelError | KernelModel) else "counts"
        if self._asks_model():
            columns = len(self.indexer.nvec or (1,)) if "parts" in self.inputs else 1
            model = Predictions.empty(self.n_actions, columns)
        given = self.bootstrap == STATE and not isinstance(self.policy, str)
        room = self.indexer.nvec, self._capacity, _ROOM, self.plan_draws.stream
        known, policy = self.indexer.size, GIVEN if given else None
        return build_state(self, self.n_actions, *room, model=model, known_states=known, policy=policy)

    @property
    def error(self) -> ModelError | None:
        """The error that is applied to the count models, or None."""
        return self.model if isinstance(self.model, ModelError) else None

    def _allocate(self) -> None:
        """Tables, traces, models and random numbers, before the first step."""
        seeds = split_seed(self.seed)
        self._capacity = max(self.indexer.size, _ROOM)
        self.policy_draws, self.chunk_draws, self.plan_draws = map(Draws.of, seeds[1:])
        self._state = self._build()
        self.percepts: dict[tuple[Any, ...], int] = {}
        self.episode, self.state, self.action = 0, -1, -1
        self.env_state: Any = None  # state of the environment's random numbers after `learn`; of a vector, a list
        self.trained_in: Any = None
        self._unfinished_in: Any = None  # the environment in which `learn(steps=)` stopped during an episode
        self._copies: Any = None  # the current episodes in a vector environment
        self._mask_seen = False  # whether a mask has forbidden an action
        self._cut = 1.0  # factor of the next λ, for data of another policy
        self._reward, self._rates = np.zeros(self.n_paid), np.array([0.0, 0.0, 1.0])
        self._all_legal, self._legal_now = np.ones(self.n_actions, bool), np.ones(self.n_actions, bool)
        self._all_shown = True  # whether `_legal_now` allows everything
        self._room = 0
        self._packed: Packed | None = None
        self._program: Program | None = None
        self._busy = self._training = False

    # ---- one transition at a time

    def start(self, observation: Any, info: dict[str, Any] | None = None, *, action: int | None = None) -> int:
        """Begin an episode; return the first action.

        An unfinished episode is abandoned without its updates at the end.

        Args:
          observation, info: as returned by `env.reset`. `info["action_mask"]` is applied, see `action_mask`.
          action: the first action, if the learner does not choose it (recorded episodes).
        """
        if self._busy:
            raise in_use(self)
        self._busy = True
        try:
            self._check_watch()
            legal, given = self._legal(info), FREE
            if action is not None:
                given = check_action("action", action, self.n_actions, self.action_start, legal)
            state = self._index(observation)
            self._given_policy(observation, legal)
            self._abandon()
            self._rates[:2] = at_episode(self.exploring_rate, self.episode), at_episode(self.step_size, self.episode)
            self._show_legal(legal)
            self.state, self.action = state, self._begin(state, given)
            return self.action + self.action_start
        finally:
            self._busy = False

    def _show_legal(self, legal: np.ndarray) -> None:
        """Write the legal actions for the compiled entries, unless all are legal and were before."""
        if legal is not self._all_legal or not self._all_shown:
            self._legal_now[:] = legal
            self._all_shown = legal is self._all_legal

    def _begin(self, state: int, given: int) -> int:
        """Return the first action of an episode: `given`, if that is not FREE."""
        return int(self._entry(core.step, 6)(self._address(), -1, -1, state, 0, ONGOING, given))

    def step(
        self,
        reward: Any,
        observation: Any,
        terminated: bool,
        truncated: bool = False,
        info: dict[str, Any] | None = None,
        *,
        action: int | None = None,
        next_action: int | None = None,
    ) -> int | None:
        """Learn from a transition; return the next action, or None at the end of an episode.

        The transition is credited to the action that `start` or the previous `step` returned. To take another action,
        as in recorded episodes, pass it in advance: `start(…, action=…)`, `step(…, next_action=…)`; or use
        `learn_from`.

        Args:
          reward: a finite number, or float[d] for reward components.
          observation, terminated, truncated, info: as returned by `env.step`. `info["action_mask"]` is applied, see
            `action_mask`.
          action: the action that led here; a ValueError if it is not the one that would be credited.
          next_action: the action taken in `observation`, if the learner does not choose it.
        """
        if self._busy:  # no call between these two lines, so no other thread can run in between
            raise in_use(self)
        self._busy = True
        try:
            if self.state < 0:
                raise RuntimeError("step() before start(): begin every episode with action = agent.start(observation)")
            if type(terminated) is not bool or type(truncated) is not bool:
                terminated, truncated = check_end("terminated", terminated), check_end("truncated", truncated)
            if action is not None:
                self._check_credited(action)
            self._take_reward(reward)
            ended = TERMINATED if terminated else (TRUNCATED if truncated else ONGOING)
            legal = self._all_legal if info is None or ended == TERMINATED else self._legal(info)
            given = FREE
            if next_action is not None and ended == ONGOING:
                given = check_action("next_action", next_action, self.n_actions, self.action_start, legal)
            state = self._index(observation)
            self._room -= 1
            if self._room < 0:
                self._make_room()
            if self.policy is not None and ended != TERMINATED:
                self._given_policy(observation, legal)
            percept = state if self.percept == "state" else self._percept(state)
            self._show_legal(legal)
            chosen = self._update(state, percept, ended, given)
            if ended:
                self._finish()
                return None
            self.state, self.action = state, int(chosen)
            return self.action + self.action_start
        finally:
            self._busy = False

    def _check_credited(self, action: int) -> None:
        if action != self.action + self.action_start:
            raise ValueError(
                f"action: got {action!r}, but the learner chose {self.action + self.action_start} and would credit "
                f"that; pass the action in advance, start(…, action=…) and step(…, next_action=…), or use learn_from"
            )

    def _update(self, state: int, percept: int, ended: int, given: int) -> int:
        """Learn from the transition to `state`; return the next action, or −1."""
        if type(self._state.model) is Predictions:
            ask_model(self, state, ended)  # may enlarge the arrays of predictions
        packed: Any = self._packed or self._pack()
        here = packed.address, self.state, self.action, state, percept, ended, given
        if packed.step is not None:
            self._rates[CUT] = self._cut
            return packed.step(*here)
        return self._step_in_python(here)

    def _step_in_python(self, here: tuple[int, ...]) -> int:
        """Make a step with a λ source in plain Python.

        An error in the user's code leaves the learner unchanged, except for the counts of models and explorations.
        """
        source: Any = self.lambda_source
        words, policy = self.policy_draws.stream.words.copy(), self.memory.next_policy.copy()
        try:
            action = int(self._entry(core.step_before_lambda, 6)(*here))
            step = core.known_step(self._packed.tree, here[1:], action)  # type: ignore[union-attr]
            given = source.lambda_t(PlainStep.of(step))
            self.memory.lambda_t[:] = self._cut * checked_lambda(source, given, self.n_rewards)
        except BaseException:
            self.policy_draws.stream.words[:] = words
            self.memory.next_policy[:] = policy
            raise
        return int(self._entry(core.step_after_lambda, 7)(*here, action))

    def _finish(self) -> None:
        """Make the updates that are deferred to the end of an episode."""
        if self.trace is None or self._state.episode is not None:
            self._entry(core.end, 0)(self._address())
        self._check_watch()
        self._forget()

    def _check_watch(self) -> None:
        """Raise Diverged if learning has diverged."""
        watch = self._state.watch[0]
        if watch:
            reason = divergence_text(int(watch), float(self._rates[1]), self.lambda_source)
            raise Diverged(f"learning diverged in episode {self.episode}: {reason}")

    def _abandon(self) -> None:
        """Leave an unfinished episode without the updates at its end. It counts for the schedules."""
        if self.state >= 0:
            self._forget()

    def _forget(self) -> None:
        """Reset all memory of the episode."""
        if self.trace is not None:
            self.trace.clear()
        self.memory.length[0], self.memory.previous[0] = 0, -1
        if self._state.episode is not None:
            self._state.episode.length[0] = 0
        self.state = self.action = -1
        self._unfinished_in = None
        self.episode += 1

    def _take_reward(self, reward: Any) -> None:
        if self.n_paid == 1:
            self._reward[0] = reward if type(reward) is float and math.isfinite(reward) else check_reward(reward)
        else:
            self._reward[:] = check_reward_vector(reward, self.n_paid)
        if self.reward_weights is not None:
            self._reward *= self.reward_weights

    def _legal(self, info: dict[str, Any] | None) -> np.ndarray:
        mask = None if info is None or self.action_mask is False else info.get("action_mask")
        if mask is None:
            return self._all_legal
        legal = legal_actions(mask, self.n_actions)
        if not self._mask_seen and not legal.all():
            self._mask_seen = True
            if self.action_mask is None:
                LOG.warning(
                    "chunked_td: info['action_mask'] is applied: forbidden actions are never taken. action_mask=False "
                    "ignores it, action_mask=True applies it without this message"
                )
        return legal

    def _given_policy(self, observation: Any, legal: np.ndarray) -> None:
        """Write a user's policy for this observation to the memory that kernels read."""
        if self.policy is not None and not isinstance(self.policy, str):
            self.memory.next_policy[:] = self._given_row(observation, legal)

    def _given_row(self, observation: Any, legal: np.ndarray) -> np.ndarray:
        """Return a user's policy for this observation, over the legal actions."""
        given: Any = self.policy
        row = given(observation) if callable(given) else given[self.indexer.find(observation)]
        return policy_row(row, legal)

    def _index(self, observation: Any) -> int:
        features = self.features
        state = self.indexer(observation) if features is None else features.read(observation, self.trace.shown)
        if type(state) is int and 0 <= state < self._capacity:
            return state
        state = check_id(state, self.indexer)
        if state >= self._capacity:
            self._grow_states()
        return state

    def _percept(self, state: int) -> int:
        """Return the id of the pair of reward and state."""
        return self.percepts.setdefault((*self._reward.tolist(), state), len(self.percepts))

    # ---- arrays of compiled code

    @property
    def rule(self) -> Rule:
        """The learner's choices, in compiled form."""
        return self._state.rule

    @property
    def tables(self) -> Tables:
        """The tables of values."""
        return self._state.tables

    @property
    def trace(self) -> Any:
        """The eligibility traces; None for updates at the end of an episode."""
        return self._state.trace

    @property
    def memory(self) -> Memory:
        """Memory of the current episode."""
        return self._state.memory

    @property
    def counts(self) -> Counts | None:
        """The count model's table; None if λ does not use counts."""
        return getattr(self._state.model, "counts", None)

    @property
    def learned(self) -> dict[str, np.ndarray]:
        """Copies of the λ source's learned arrays, by name, for the states that have an id."""
        states, found = self.indexer.size, {}
        sizes = table_sizes(self.bootstrap, states, self.n_actions, self.n_rewards)
        for name, layout in self.lambda_source.arrays.items():
            shape = new_array(layout, sizes).shape
            found[name] = getattr(self._state.source, name)[tuple(map(slice, shape))].copy()
        return found

    @property
    def reward_parts(self) -> list[np.ndarray] | None:
        """f_i of `LearnedComponents` as learned so far, float64[n_i] per state component; None without it."""
        division = self._state.division
        return None if division is None else np.split(division.parts.copy(), division.first[1:])

    def _replace(self, **parts: Any) -> None:
        """Replace some arrays; compiled code receives the new addresses at the next step."""
        self._state, self._packed = self._state._replace(**parts), None

    def _rows(self, states: int) -> int:
        """Return the number of rows of the table of values for n states."""
        return states if self.bootstrap == STATE else states * self.n_actions

    def _make_room(self) -> None:
        """Enlarge the arrays that the next steps might fill."""
        self._check_watch()  # for episodes that do not end
        larger = with_room(self._state, _ROOM)
        if larger is not self._state:
            self._state, self._packed = larger, None
        self._room = _ROOM - 1

    def _grow_states(self) -> None:
        """Double the number of states that the tables can hold (observations that get ids when first seen)."""
        self._capacity = 2 * max(self.indexer.size, self._capacity)
        settings = self.lambda_source, self.exploration, self.planner, self.initial_value, self.model
        self._state, self._packed = with_states(self._state, self._capacity, *settings), None

    def _pack(self) -> Packed:
        """Write the addresses of the learner's arrays; repeated after an array has moved."""
        streams = self.policy_draws.stream, self.chunk_draws.stream
        tree: Any = Work.of(self._state, *streams, self._reward, self._rates, self._legal_now)
        source = self.lambda_source if self.lambda_source.is_compiled else None
        form, parts = reader(tree)[0], parts_of(self._state, source, self)
        if self._program is None or (self._program.form, self._program.parts) != (form, parts):
            self._program = Program(tree, parts)
        self._packed = packed = Packed(tree)
        packed.step = self._program(core.step, 6) if self.lambda_source.is_compiled else None
        return packed

    def _address(self) -> int:
        """Return the address of the packed learner."""
        return (self._packed or self._pack()).address

    def _entry(self, entry: Any, arguments: int) -> Any:
        """Return the compiled program of an entry, which takes the address and n integer arguments."""
        self._address()
        return self._program(entry, arguments)  # type: ignore[misc]

    # ---- read-only queries

    def act(self, observation: Any, info: dict[str, Any] | None = None, *, explore: bool = False) -> int:
        """Choose an action without learning: greedy (first of ties), or drawn from the behaviour policy.

        Args:
          observation, info: from the environment; `info["action_mask"]` is applied.
          explore: draw from the behaviour policy with the learner's own random numbers.
        """
        legal = self._legal(info)
        if explore or self.bootstrap == STATE:
            probabilities = self.policy_probabilities(observation, info)
            return self.policy_draws.choice(self.n_actions, probabilities) + self.action_start
        values = np.where(legal, self.q_values(observation), -np.inf)
        return int(np.argmax(values)) + self.action_start

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[int, Any]:
        """Return (action, state), with Stable-Baselines3's signature; greedy if `deterministic`. See `act`."""
        return self.act(observation, explore=not deterministic), state

    def policy_probabilities(self, observation: Any, info: dict[str, Any] | None = None) -> np.ndarray:
        """π(·|observation) of the current behaviour policy, float[A]."""
        legal = self._legal(info)
        if self.bootstrap == STATE:
            return legal / legal.sum() if isinstance(self.policy, str) else self._given_row(observation, legal)
        if self.exploration is not None:
            return self._explored(observation, legal)
        q = self.q_values(observation)
        there = legal & ~np.isnan(q)  # if learning has diverged, an action with value NaN is not greedy
        epsilon, greedy = at_episode(self.epsilon, self.episode), legal
        if there.any():
            greedy = there & (q == q[there].max())
        return epsilon * legal / legal.sum() + (1.0 - epsilon) * greedy / greedy.sum()

    @property
    def exploring_rate(self) -> float | Schedule:
        """The exploration rate: ε, or the rate of `exploration`."""
        return self.epsilon if self.exploration is None else self.exploration.rate_with(self.epsilon)

    def _explored(self, observation: Any, legal: np.ndarray) -> np.ndarray:
        """π(·|observation) of an `Exploration`."""
        state, out = self.indexer.find(observation), np.zeros(self.n_actions)
        form, q = self.tables.exploration, self.q_values(observation, components=True)
        if not self._has_row(state):  # no action was taken there
            sizes = {"S": 1, "A": self.n_actions, "d": self.n_rewards, "rows": self.n_actions}
            form, state = self.exploration.unvisited(state, sizes)  # type: ignore[union-attr]
        write = link(policy_at, {"exploration": type(self.exploration)}, compiled=False)
        write(form, q, state, legal, at_episode(self.exploring_rate, self.episode), out)
        return out

    def q_values(self, observation: Any, *, components: bool = False) -> np.ndarray:
        """Q(observation, ·), float[A]; with `components`, float[A, d], one number per reward component."""
        if self.bootstrap == STATE:
            raise TypeError(f"{type(self).__name__} learns state values: call values(observation)")
        rows = self._rows_of(observation)
        return rows if components else rows.sum(axis=1)

    def values(self, observation: Any, *, components: bool = False) -> Any:
        """V(observation): learned directly, or Σ_a π(a) Q(observation, a) for action-value learners.

        Args:
          observation: from the environment.
          components: return one number per reward component, float[d], instead of their sum.
        """
        if self.bootstrap != STATE:
            row = self.policy_probabilities(observation) @ self.q_values(observation, components=True)
        else:
            row = self._rows_of(observation)[0]
        return row if components else float(row.sum())

    def _rows_of(self, observation: Any) -> np.ndarray:
        """The values of an observation: float[A, d], or float[1, d] of state values."""
        width = self._rows(1)
        if self.features is not None:
            trace, shown = self.trace, np.array(self.features.show(observation), np.float64)
            index, value = np.zeros(trace.which.shape[1], np.int64), np.zeros(trace.which.shape[1])
            n = trace.map.write(trace.map, shown, index, value)
            weights = trace.weights.reshape(-1, width, self.n_rewards)
            return (value[:n, None, None] * weights[index[:n]]).sum(axis=0)
        state = self.indexer.find(observation)
        if not self._has_row(state):
            return np.full((width, self.n_rewards), self.initial_value)
        return self.tables.values[state * width : (state + 1) * width].copy()

    def _has_row(self, state: int) -> bool:
        """Return whether a state has rows in the tables (a new state may not have them yet)."""
        return state >= 0 and self._rows(state) < self.tables.values.shape[0]

    # ---- training and evaluation

    def learn(
        self,
        env: Any,
        episodes: int | None = None,
        *,
        steps: int | None = None,
        total_timesteps: int | None = None,
        progress: bool = True,
        callback: Callable[[int, float, int], Any] | None = None,
    ) -> History:
        """Train in a Gymnasium environment.

        Args:
          env: the environment; it is seeded with the learner's seed before the first episode. Or a vector environment
            (`gymnasium.make_vec`), whose copies update one table in turn; copy k is seeded with the learner's seed + k.
          episodes: number of episodes to play now. All copies of a vector are played until this number has ended;
            unfinished episodes resume in the next call. Episodes that end in the same round as the last also count.
          steps: number of steps to play now, instead; for continuing problems. An unfinished episode resumes in the
            next call with `steps`. For a vector: steps of all copies together, in whole rounds.
          total_timesteps: Stable-Baselines3's name for `steps`.
          progress: show a progress bar if standard error is a terminal.
          callback: called as callback(episode, return, length) after each episode; training stops if it returns True.
        """
        if total_timesteps is not None:
            if steps is not None:
                raise ValueError(f"total_timesteps is steps; got {total_timesteps!r} and steps={steps!r}")
            steps = total_timesteps
        if self._training:
            raise in_use(self)
        self._training = True
        try:
            return train(self, env, episodes, steps=steps, progress=progress, callback=callback)
        finally:
            self._training = False

    def learn_from(self, episodes: Any, *, behaviour: Any = None) -> History:
        """Train on recorded episodes: every update is credited to the recorded action.

        Args:
          episodes: one of

            - an iterable of episodes, or one episode: dicts or objects with `observations` [T + 1], `actions` [T],
              `rewards` [T] or [T, d], and `terminations` and `truncations` [T]; optionally `action_masks` [T + 1, A]
              and `probabilities` [T], of the recorded actions under the behaviour policy;
            - a Minari dataset;
            - the path of a Parquet file (see `Recorder.write_parquet`);
            - a `Recorder`.
          behaviour: the behaviour policy μ. None: the learner's own policy, as in a replay of its own training.
            Otherwise λ_t becomes λ_t · min(1, π(a_t|x_t)/μ(a_t|x_t)) (Retrace), and the values are those of the
            learner's ε-greedy policy; this requires Expected-SARSA. "recorded" reads μ from `probabilities`; "uniform"
            gives all legal actions the same probability; a table float[S, A] or a function from observation to
            float[A] is μ itself.

        An episode that neither terminates nor is truncated counts as truncated at its end.
        """
        return learn_from(self, episodes, behaviour)

    def evaluate(
        self, env: Any, episodes: int = 100, *, seed: int = 0, explore: bool = False, max_steps: int | None = None
    ) -> History:
        """Play without learning. The learner is not changed, and later training gives the same results.

        Args:
          env: the environment; it is seeded with `seed` before the first episode.
          episodes: number of episodes.
          seed: of the environment.
          explore: act with the behaviour policy instead of greedily.
          max_steps: maximum length of an episode. A greedy policy may never reach the end.
        """
        return evaluate(self, env, episodes, seed=seed, explore=explore, max_steps=max_steps)

    def explain(self, env: Any, seed: int = 0, *, against: Any = (), max_steps: int = 1_000) -> Explanation:
        """Explain the credit assignment of one episode: λ, chunks, traces and updates. The learner is not changed.

        Args:
          env: the environment to play the episode in, with the behaviour policy.
          seed: of the environment.
          against: baselines on the same episode: another learner, a λ source, a number (a constant λ), or several. A λ
            source is used by a copy of this learner.
          max_steps: number of steps after which the episode is truncated.
        """
        from chunked_td.analysis.credit import explain

        return explain(self, env, seed, against=against, max_steps=max_steps)

    def save(self, path: Any) -> None:
        """Write the learner to one file; `chunked_td.load` resumes with the same bits."""
        from chunked_td.learners.saving import save

        if self._busy:
            raise in_use(self)
        save(self, path)

    def __copy__(self) -> Any:
        """Return a deep copy: learners that share arrays would overwrite each other's values."""
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles: all but the environment and addresses in this process."""
        if self._busy:
            raise in_use(self)
        gone = dict.fromkeys(("_packed", "_program", "trained_in", "_unfinished_in", "_copies"))
        return self.__dict__ | gone | {"_training": False}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lambda_source!r}, episode={self.episode}, states={self.indexer.size})"


def in_use(agent: Any) -> RuntimeError:
    """Return the error for a call to a learner during another call."""
    return RuntimeError(
        f"{type(agent).__name__} is in use: it was called in the middle of a step or of learn, by another thread or by "
        f"its own model, policy or λ source. A learner serves one thread; give others a copy (copy.deepcopy)"
    )
