"""A learner: settings, tables, and one step of the recursion per call.

`start` and `step` serve a loop of the user's own; `learn` (in `training`) is that loop for Gymnasium.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from chunked_td._checks import check_choice, check_not_negative, check_seed, check_unit
from chunked_td.compiled import Draws
from chunked_td.indexing import Indexer, make_indexer
from chunked_td.lambdas import BACKWARD, EXPECTED, EXTERNAL, FACTORED, SARSA, STATE, ForwardLambda, LambdaSource
from chunked_td.learners.answers import Answers
from chunked_td.learners.external import advance_with_model, check_model
from chunked_td.learners.packed import EMPTY, Packed, advance_packed
from chunked_td.learners.recursion import (
    TRACES,
    VIEWS,
    Memory,
    Rule,
    Tables,
    arrive,
    finish,
    needs_legal,
)
from chunked_td.learners.schedule import Schedule, at_episode, check_schedule
from chunked_td.learners.setup import (
    as_lambda_source,
    check_policy_table,
    check_reward_vector,
    component_groups,
    count_origins,
    count_outcomes,
    make_rule,
)
from chunked_td.learners.training import History, train
from chunked_td.models.counts import Counts
from chunked_td.policies import GIVEN, GREEDY, UNIFORM
from chunked_td.traces import Trace

Policy = str | np.ndarray | Callable[[Any], Any]

_ROOM = 64


class Learner(Answers):
    """Base of all learners over the common recursion.

    Args:
      env: a Gymnasium environment (or anything with `observation_space` and `action_space`).
      step_size: α, a number or a `Schedule` over episodes.
      discount: γ.
      epsilon: exploration of the ε-greedy policy, a number or a `Schedule`. Not used by state-value learners.
      seed: of the policy and the model; `learn` seeds the environment with it too.
      lambda_source: where λ comes from: a source from `chunked_td.lambdas`, or a number.
      model: None for counts, or an object that follows `chunked_td.models.Model`.
      policy: state-value learners only: "uniform", probabilities float[S, A], or a function from observation to
        float[A].
      view: "traces" (online), "offline" (λ-return at the end of an episode) or "sampled" (§3.1).
      percept: what the count model predicts: "state" or "reward-state".
      prior: Dirichlet pseudo-count per outcome of the count model.
      replacing: replacing instead of accumulating traces.
      cutoff: traces at or below it are dropped. 0 is exact.
      indexer: how observations become ids; by default chosen from `env.observation_space`.
    """

    bootstrap: ClassVar[int] = SARSA
    default_source: ClassVar[LambdaSource] = ForwardLambda()
    default_view: ClassVar[str] = "traces"

    def __init__(
        self,
        env: Any,
        *,
        step_size: float | Schedule = 0.1,
        discount: float = 0.99,
        epsilon: float | Schedule = 0.1,
        seed: int = 0,
        lambda_source: LambdaSource | float | None = None,
        model: Any = None,
        policy: Policy | None = None,
        view: str | None = None,
        percept: str = "state",
        prior: float = 0.0,
        replacing: bool = False,
        cutoff: float = 0.0,
        indexer: Indexer | None = None,
    ):
        self.seed = check_seed(seed)
        self.step_size = check_schedule("step_size", step_size, positive=True)
        self.epsilon = check_schedule("epsilon", epsilon, positive=False)
        self.discount = check_unit("discount", discount)
        self.lambda_source = as_lambda_source(lambda_source, self.default_source)
        self.view = check_choice("view", view or self.default_view, VIEWS)
        self.percept = check_choice("percept", percept, ("state", "reward-state"))
        self.prior = check_not_negative("prior", prior)
        self.cutoff = check_not_negative("cutoff", cutoff)
        self.replacing = bool(replacing)
        self._spaces(env, indexer)
        self.model, self.policy = model, self._check_policy(policy)
        self._check_combination()
        self._allocate()

    # ---- set-up

    def _check_policy(self, policy: Policy | None) -> Policy | None:
        if self.bootstrap != STATE:
            if policy is not None:
                raise ValueError(f"policy goes with state-value learners; {type(self).__name__} acts ε-greedily")
            return None
        if policy is None or isinstance(policy, str):
            return check_choice("policy", policy or "uniform", ("uniform",))
        return policy if callable(policy) else check_policy_table(policy, self.indexer, self.actions)

    def _spaces(self, env: Any, indexer: Indexer | None) -> None:
        actions = getattr(env, "action_space", None)
        if actions is None or not hasattr(env, "observation_space"):
            raise ValueError(f"env must be a Gymnasium environment (see gymnasium.make), got {env!r}")
        if not hasattr(actions, "n") or type(actions).__name__ == "MultiBinary":
            raise ValueError(f"env.action_space must be Discrete, got {actions!r}")
        self.actions, self.action_start = int(actions.n), int(getattr(actions, "start", 0))
        reward_space = getattr(getattr(env, "unwrapped", env), "reward_space", None)
        self.rewards = 1 if reward_space is None else int(np.prod(reward_space.shape))
        self.indexer = indexer if indexer is not None else make_indexer(env.observation_space)

    def _check_combination(self) -> None:
        source = self.lambda_source
        if source.code == FACTORED and self.indexer.nvec is None:
            raise ValueError("lambda_source FactoredLambda() needs observations with countable components")
        if self.percept == "reward-state" and source.code in (BACKWARD, FACTORED):
            raise ValueError(f"percept 'reward-state' does not go with {source!r}, which counts states")
        if self.percept == "reward-state" and source.code == EXPECTED and self.bootstrap == SARSA:
            raise ValueError("percept 'reward-state' does not go with ExpectedLambda for SARSA; use Expected-SARSA")
        if self.prior > 0.0 and not self.indexer.fixed:
            raise ValueError("prior needs a known number of states; this environment's states get ids on first sight")
        if self.prior > 0.0 and self.percept == "reward-state":
            raise ValueError("prior needs a known number of outcomes; percept 'reward-state' has none")
        if self.model is not None and source.needs_model:
            if self.percept != "state" or self.prior > 0.0:
                raise ValueError(
                    "percept and prior are settings of the count model; they do not go with a model= of its own"
                )
            check_model(self.model, source, self.bootstrap)

    def _make_rule(self) -> Rule:
        external = self.model is not None and self.lambda_source.needs_model
        policy = GREEDY if self.bootstrap != STATE else (UNIFORM if isinstance(self.policy, str) else GIVEN)
        return make_rule(
            self.bootstrap,
            self.lambda_source,
            VIEWS[self.view],
            self.actions,
            self.discount,
            external=external,
            policy=policy,
            cutoff=self.cutoff,
            replacing=self.replacing,
        )

    def _allocate(self) -> None:
        A, d = self.actions, self.rewards
        self.rule = self._make_rule()
        self._capacity = states = max(self.indexer.size, _ROOM)
        nvec = np.array(self.indexer.nvec if self.indexer.nvec else (1,), np.int64)
        self.tables = Tables(
            np.zeros((self._rows(states), d)),
            np.zeros((states if self._asks_for_legal() else 0, A), bool),
            nvec,
            component_groups(self.lambda_source, d, nvec.size),
        )
        origins = count_origins(self.rule, states, d)
        outcomes = count_outcomes(self.rule, self.tables, max(self.indexer.size, 1))
        self.counts = Counts.empty(origins, self.prior, outcomes, _ROOM)
        online = self.rule.mode == TRACES
        self.trace = Trace.empty(self._rows(states) if online else 0, d, _ROOM)
        self.memory = Memory.empty(A, d, 1 if online else _ROOM)
        policy, chunks = np.random.SeedSequence(self.seed).spawn(2)
        self.policy_draws = Draws(np.random.Generator(np.random.PCG64(policy)))
        self.chunk_draws = Draws(np.random.Generator(np.random.PCG64(chunks)), _ROOM)
        self.percepts: dict[tuple[Any, ...], int] = {}
        self.episode, self.state, self.action = 0, -1, -1
        self.env_state: dict[str, Any] | None = None  # the environment's random numbers after `learn`
        self.trained_in: Any = None
        self._reward = np.zeros(d)
        self._all_legal = np.ones(A, bool)
        self._room = 0
        self._packed: Packed | None = None

    def _asks_for_legal(self) -> bool:
        """Whether λ needs the legal actions of states other than the current one, with counts or a model object."""
        return needs_legal(self.rule._replace(source=self.lambda_source.code))

    def _rows(self, states: int) -> int:
        return states if self.bootstrap == STATE else states * self.actions

    def _make_room(self) -> None:
        """Grow what the next steps might overfill. Every step adds at most one entry (d count pairs) to each."""
        pairs = self.rewards if self.rule.source == FACTORED else 1
        if self.rule.mode == TRACES:
            if self.trace.rows.size - self.trace.count[0] < _ROOM:
                self.trace = self.trace.grown(self.trace.slot.size, 2 * self.trace.rows.size + _ROOM)
        elif self.memory.rows.size - self.memory.length[0] < _ROOM:
            self.memory = self.memory.grown(2 * self.memory.rows.size + _ROOM)
        if self.counts.origin.size - self.counts.size[0] < _ROOM * pairs:
            self.counts = self.counts.grown(self.counts.head.size, 2 * self.counts.origin.size + _ROOM * pairs)
        self._room = _ROOM - 1

    def _grow_states(self) -> None:
        """Room for twice as many states (observations that get ids on first sight)."""
        old, self._capacity = self._capacity, 2 * max(self.indexer.size, self._capacity)
        values = np.zeros((self._rows(self._capacity), self.rewards))
        values[: self._rows(old)] = self.tables.values
        legal = np.zeros((self._capacity if self.tables.legal.shape[0] else 0, self.actions), bool)
        legal[: self.tables.legal.shape[0]] = self.tables.legal
        self.tables = self.tables._replace(values=values, legal=legal)
        if self.rule.mode == TRACES:
            self.trace = self.trace.grown(values.shape[0], self.trace.rows.size)
        origins = count_origins(self.rule, self._capacity, self.rewards)
        if origins > self.counts.head.size:
            self.counts = self.counts.grown(origins, self.counts.origin.size)

    # ---- one step at a time

    def start(self, observation: Any, info: dict[str, Any] | None = None) -> int:
        """Begin an episode; returns the first action.

        An episode that was under way is abandoned without its updates at the end.
        """
        legal = self._legal(info)
        state = self._index(observation)
        self._given_policy(observation, legal)
        self._abandon()
        self._epsilon = at_episode(self.epsilon, self.episode)
        self._alpha = at_episode(self.step_size, self.episode)
        if self._packed is not None:
            self._packed.numbers[3:] = self._epsilon, self._alpha
        rng = self.policy_draws.reserve(1)
        action = arrive(self.rule, self.tables, self.memory, rng, state, legal, self._epsilon, True)
        self.memory.policy[:] = self.memory.next_policy
        self.state, self.action = state, int(action)
        return self.action + self.action_start

    def step(
        self,
        reward: Any,
        observation: Any,
        terminated: bool,
        truncated: bool = False,
        info: dict[str, Any] | None = None,
    ) -> int | None:
        """Learn from a transition; returns the next action, or None at the end of an episode.

        Args:
          reward: a finite number, or float[d] where rewards have components.
          observation, terminated, truncated, info: as returned by `env.step`. `info["action_mask"]` is obeyed.
        """
        if self.state < 0:
            raise RuntimeError("step() before start(): begin every episode with action = agent.start(observation)")
        self._take_reward(reward)
        ended = 1 if terminated else (2 if truncated else 0)
        legal = self._all_legal if info is None or ended == 1 else self._legal(info)
        state = self._index(observation)
        self._room -= 1
        if self._room < 0:
            self._make_room()
        if self.rule.policy == GIVEN and ended != 1:
            self._given_policy(observation, legal)
        percept = state if self.percept == "state" else self._percept(state)
        action = self._update(state, percept, legal, ended)
        if ended:
            self._finish()
            return None
        self.state, self.action = state, int(action)
        return self.action + self.action_start

    def _update(self, state: int, percept: int, legal: np.ndarray, ended: int) -> int:
        """Learn from the transition to `state`; returns the next action, or −1."""
        if self.rule.source == EXTERNAL:
            return advance_with_model(self, self.policy_draws.reserve(1), state, legal, ended)
        packed = self._packed
        if packed is None or packed.tables is not self.tables or self._regrown(packed):
            others = (*self.policy_draws.stream, self._reward)
            packed = Packed(self.rule, self.tables, self.trace, self.counts, self.memory, others)
            packed.numbers[3:] = self._epsilon, self._alpha
            self._packed = packed
        here = packed.where, packed.choices, packed.numbers, self.state, self.action, state, percept, legal, ended
        action = advance_packed(*here)
        if action == EMPTY:
            self.policy_draws.reserve(1)
            action = advance_packed(*here)
        return action

    def _regrown(self, packed: Packed) -> bool:
        """Whether arrays lie elsewhere than when their places were written down."""
        return (
            packed.trace is not self.trace
            or packed.counts is not self.counts
            or packed.memory is not self.memory
            or packed.others[0] is not self.policy_draws.stream.block
        )

    def _finish(self) -> None:
        coins = self.chunk_draws.reserve(int(self.memory.length[0]) if self.view == "sampled" else 0)
        finish(self.rule, self.tables, self.trace, self.memory, coins, self._alpha)
        self.state = self.action = -1
        self.episode += 1

    def _abandon(self) -> None:
        """Forget an unfinished episode."""
        if self.state >= 0:
            self.memory.length[0] = 0
            finish(self.rule, self.tables, self.trace, self.memory, self.chunk_draws.reserve(0), 0.0)
            self.state = self.action = -1
            self.episode += 1

    def _take_reward(self, reward: Any) -> None:
        if self.rewards == 1:
            if isinstance(reward, np.ndarray) and reward.shape == (1,):
                reward = reward[0]
            try:
                value = float(reward)
            except (TypeError, ValueError):
                raise ValueError(f"reward must be a number, got {reward!r}") from None
            if not math.isfinite(value):
                raise ValueError(f"reward must be finite, got {value!r}")
            self._reward[0] = value
            return
        self._reward[:] = check_reward_vector(reward, self.rewards)

    def _legal(self, info: dict[str, Any] | None) -> np.ndarray:
        mask = None if info is None else info.get("action_mask")
        if mask is None:
            return self._all_legal
        legal = np.asarray(mask).astype(bool)
        if legal.shape != (self.actions,):
            raise ValueError(f"info['action_mask'] must have shape ({self.actions},), got {mask!r}")
        if not legal.any():
            raise ValueError(f"info['action_mask'] forbids every action: {mask!r}; at least one must be allowed")
        return legal

    def _given_policy(self, observation: Any, legal: np.ndarray) -> None:
        """Write a user's policy for this observation where the kernels expect it."""
        if self.rule.policy == GIVEN:
            self.memory.next_policy[:] = self._given_row(observation, legal)

    def _given_row(self, observation: Any, legal: np.ndarray) -> np.ndarray:
        """A user's policy for this observation, over the legal actions."""
        given: Any = self.policy
        raw = given(observation) if callable(given) else given[self.indexer.find(observation)]
        row = np.asarray(raw, np.float64)
        if row.shape != (self.actions,) or not (row >= 0.0).all() or abs(row.sum() - 1.0) > 1e-8:
            raise ValueError(f"policy must give {self.actions} probabilities that sum to 1, got {row!r}")
        allowed = np.where(legal, row, 0.0)
        if not allowed.sum() > 0.0:
            raise ValueError(f"policy must allow a legal action, got {row!r} where info['action_mask'] is {legal!r}")
        return allowed / allowed.sum()

    def _index(self, observation: Any) -> int:
        state = self.indexer(observation)
        if state >= self._capacity:
            self._grow_states()
        return state

    def _percept(self, state: int) -> int:
        """An id for the pair of reward and state."""
        return self.percepts.setdefault((*self._reward.tolist(), state), len(self.percepts))

    def learn(self, env: Any, episodes: int, *, progress: bool = True, callback: Any = None) -> History:
        """Train for so many episodes; see `chunked_td.learners.training.train`."""
        return train(self, env, episodes, progress=progress, callback=callback)

    def save(self, path: Any) -> None:
        """Write everything to one file, so that `chunked_td.load` goes on exactly from here."""
        from chunked_td.learners.saving import save

        save(self, path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lambda_source!r}, episode={self.episode}, states={self.indexer.size})"
