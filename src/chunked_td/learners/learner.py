"""A learner: settings, tables, and one update per call.

`start` and `step` serve a loop of the user's own; `learn` is that loop for Gymnasium environments, `learn_from` the one
for recorded episodes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import numpy as np

from chunked_td._checks import check_choice, check_finite, check_flag, check_not_negative, check_seed, check_unit
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.indexing import Indexer, make_indexer
from chunked_td.lambdas.base import LambdaSource, Needs, as_lambda_source
from chunked_td.lambdas.forward import ForwardLambda
from chunked_td.learners.copies import one_copy
from chunked_td.learners.exploration import Exploration, check_exploration
from chunked_td.learners.inputs import (
    check_indexer,
    check_policy_table,
    check_reward_weights,
    count_rewards,
)
from chunked_td.learners.learned_components import LearnedComponents
from chunked_td.learners.logged import learn_from
from chunked_td.learners.loop import History, evaluate, train
from chunked_td.learners.planning.base import Planner, check_planner
from chunked_td.learners.python_steps import check_model
from chunked_td.learners.reward_sources import RewardSource, check_reward_source
from chunked_td.learners.schedule import Schedule, check_schedule
from chunked_td.learners.stepping import LOG, Stepping, in_use
from chunked_td.learners.views import View, check_view
from chunked_td.models.errors import ModelError

if TYPE_CHECKING:
    from chunked_td.analysis.credit import Explanation

Policy = str | np.ndarray | Callable[[Any], Any]


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
    view: View | None
    percept: str
    prior: float
    replacing: bool
    cutoff: float
    indexer: Indexer | None
    action_mask: bool | None
    reward_weights: Sequence[float] | np.ndarray | None
    initial_value: float


class Learner(Stepping):
    """Base of all learners.

    Args:
      env: a Gymnasium environment, or a vector of them (or anything with `observation_space` and `action_space`).
      step_size: α, a number or a `Schedule` over episodes.
      discount: γ.
      epsilon: exploration of the ε-greedy policy, a number or a `Schedule`; 0.1 by default. Not used by state-value
        learners.
      exploration: how to act on action values where it is not ε-greedily: `Softmax(temperature)` or
        `CountBonus(scale)`. The values learned are those of the policy that acts.
      seed: of the policy and the model; `learn` seeds the environment with it too.
      lambda_source: where λ comes from: a source from `chunked_td.lambdas`, one of your own, or a number.
      model: None for counts, an object that follows `chunked_td.models.Model`, or an error that the counts shall have,
        such as `CorruptedModel`.
      planner: what the learner makes of a count model besides λ, such as `Dyna`; None for the learner's default.
      reward_source: `SmoothedReward` to read rewards off the planner's model, `LearnedComponents` to divide a reward
        that is one number among the state components; None for the rewards that come.
      policy: state-value learners only: "uniform", probabilities float[S, A], or a function from observation to
        float[A].
      view: "traces", "true_online", "expected_traces" or "averaged" (online; see `chunked_td.learners.views`),
        "offline" (λ-return at the end of an episode) or "sampled" (§3.1).
      percept: what the count model predicts: "state" or "reward-state".
      prior: Dirichlet pseudo-count per outcome of the count model.
      replacing: replacing instead of accumulating traces.
      cutoff: traces at or below it are dropped. 0 is exact.
      indexer: how observations become ids; by default chosen from `env.observation_space`.
      action_mask: whether to take only the actions that `info["action_mask"]` allows, where an environment gives one.
        None obeys it too, and says so the first time that an action is forbidden.
      reward_weights: float[d], a factor for every reward component; all 1 by default. Values are then those of the
        weighted components, and the policy acts on their sum.
      initial_value: what all values are before learning, in every reward component. Above what can be earned, it makes
        learners try everything.
    """

    bootstrap: ClassVar[int] = SARSA
    default_source: ClassVar[LambdaSource] = ForwardLambda()
    default_view: ClassVar[str] = "traces"
    default_planner: ClassVar[Planner | None] = None

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
        view: View | None = None,
        percept: str = "state",
        prior: float = 0.0,
        replacing: bool = False,
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
        if self.view == "corrected":
            raise ValueError("view 'corrected' is for simulations (`simulate`); CorrectedTD does it for state values")
        self.percept = check_choice("percept", percept, ("state", "reward-state"))
        self.prior = check_not_negative("prior", prior)
        self.cutoff = check_not_negative("cutoff", cutoff)
        self.replacing = check_flag("replacing", replacing)
        self.initial_value = check_finite("initial_value", initial_value)
        self.action_mask = None if action_mask is None else check_flag("action_mask", action_mask)
        self.planner = check_planner(self.default_planner if planner is None else planner)
        self.exploration, self.epsilon = check_exploration(exploration, epsilon, self.bootstrap, self.planner)
        self.reward_source = check_reward_source(reward_source)
        self._read_spaces(env, indexer)
        self.reward_weights = check_reward_weights(reward_weights, self.n_paid)
        self.model, self.policy = model, self._check_policy(policy)
        self._check_combination()
        self._allocate()
        self._say_pairing(env)

    # ---- set-up

    def _check_policy(self, policy: Policy | None) -> Policy | None:
        if self.bootstrap != STATE:
            if policy is not None:
                raise ValueError(f"policy goes with state-value learners; {type(self).__name__} acts ε-greedily")
            return None
        if policy is None or isinstance(policy, str):
            return check_choice("policy", "uniform" if policy is None else policy, ("uniform",))
        return policy if callable(policy) else check_policy_table(policy, self.indexer, self.n_actions)

    def _read_spaces(self, env: Any, indexer: Indexer | None) -> None:
        actions = getattr(env, "action_space", None)
        if actions is None or not hasattr(env, "observation_space"):
            raise ValueError(f"env must be a Gymnasium environment (see gymnasium.make), got {env!r}")
        if not hasattr(actions, "n") or type(actions).__name__ == "MultiBinary":
            raise ValueError(f"env.action_space must be Discrete, got {actions!r}")
        self.n_actions, self.action_start = int(actions.n), int(getattr(actions, "start", 0))
        self.indexer = make_indexer(env.observation_space) if indexer is None else check_indexer(indexer)
        self.n_paid = self.n_rewards = count_rewards(env)
        if isinstance(self.reward_source, LearnedComponents):
            self.reward_source.check(self.indexer.nvec, self.n_paid, self.lambda_source.per_component)
            self.n_rewards = len(self.indexer.nvec or ()) + 1

    def _check_combination(self) -> None:
        source, needs = self.lambda_source, self.lambda_source.needs_with(self.bootstrap)
        if Needs.PARTS in needs and self.indexer.nvec is None:
            raise ValueError(f"lambda_source {type(source).__name__}() needs observations with countable components")
        if self.percept == "reward-state" and needs & (Needs.PREDECESSORS | Needs.PARTS):
            raise ValueError(f"percept 'reward-state' does not go with {source!r}, which counts states")
        listed = Needs.OUTCOMES in needs and not source.needs_overlaps_only(self.bootstrap)
        if self.percept == "reward-state" and listed:
            raise ValueError(
                f"percept 'reward-state' does not go with {type(source).__name__} for {type(self).__name__}: outcomes "
                f"would not be states; with ExpectedLambda use Expected-SARSA"
            )
        if self.prior > 0.0 and not self.indexer.fixed:
            raise ValueError("prior needs a known number of states; this environment's states get ids on first sight")
        if self.prior > 0.0 and self.percept == "reward-state":
            raise ValueError("prior needs a known number of outcomes; percept 'reward-state' has none")
        if self._asks_model():
            if self.percept != "state" or self.prior > 0.0:
                raise ValueError(
                    "percept and prior are settings of the count model; they do not go with a model= of its own"
                )
            check_model(self.model, source, self.bootstrap, self.n_actions)
        if isinstance(self.model, ModelError):
            if self.percept != "state":
                raise ValueError(f"model {self.model!r} mistakes states; it goes with percept 'state'")
            if self.model.needs_states and not self.indexer.fixed:
                raise ValueError(
                    f"model {self.model!r} needs a known number of states; this environment's states get ids on first "
                    f"sight"
                )

    def _say_pairing(self, env: Any) -> None:
        """Say which state component decides which reward where nobody has said it and the numbers happen to match."""
        source = self.lambda_source
        if Needs.PARTS not in source.needs or getattr(source, "components", ()) is not None:
            return
        if self.n_rewards != self.n_paid:
            return  # the rewards are made from the components
        if getattr(getattr(env, "unwrapped", env), "rewards_by_component", False):
            return  # the environment says so itself
        pairs = ", ".join(f"reward {i} ← component {i}" for i in range(self.n_rewards))
        every = tuple(range(self.n_rewards))
        LOG.warning(
            "chunked_td: %s pairs rewards and state components by their number: %s. If that is right, say "
            "components=%s; if not, say which state components decide each reward",
            type(source).__name__,
            pairs,
            every,
        )

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
          env: the environment; it is seeded with the learner's seed before the first episode. Or a vector of copies
            (`gymnasium.make_vec`), which take turns at one table; copy k is seeded with the learner's seed + k.
          episodes: how many episodes to play now. All copies of a vector are played until so many have ended; those
            under way go on in the next call, and one that ends in the same round as the last counts, too.
          steps: how many steps to play now, instead; for problems without an end. An episode that is under way at the
            last step goes on in the next call with `steps`. Of a vector: of all copies together, in whole rounds.
          total_timesteps: Stable-Baselines3's name for `steps`.
          progress: show a bar, if a person is watching (standard error is a terminal).
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
        """Train on recorded episodes: nothing is chosen, every update is credited to the recorded action.

        Args:
          episodes: what was recorded:

            - an iterable of episodes, or one alone: dicts or objects with `observations` [T + 1], `actions` [T],
              `rewards` [T] or [T, d], and `terminations` and `truncations` [T]; optionally `action_masks` [T + 1, A]
              and `probabilities` [T], those that the behaviour policy gave to its actions;
            - a Minari dataset;
            - the path of a Parquet file (see `Recorder.write_parquet`);
            - a `Recorder`.
          behaviour: the policy that acted. None: it was the learner's own, as in a replay of its own training.
            Otherwise λ_t becomes λ_t · min(1, π(a_t|x_t)/μ(a_t|x_t)) (Retrace), and the values are those of the
            learner's ε-greedy policy; this goes with Expected-SARSA. "recorded" takes μ from `probabilities`; "uniform"
            has equal chances for the legal actions; a table float[S, A] or a function from observation to float[A] is μ
            itself.

        An episode that neither terminates nor is truncated counts as truncated at its end.
        """
        return learn_from(self, episodes, behaviour)

    def evaluate(
        self, env: Any, episodes: int = 100, *, seed: int = 0, explore: bool = False, max_steps: int | None = None
    ) -> History:
        """Play without learning. The learner is not changed, and training goes on as if this had not happened.

        Args:
          env: the environment; it is seeded with `seed` before the first episode.
          episodes: how many episodes to play.
          seed: of the environment.
          explore: act with the behaviour policy instead of greedily.
          max_steps: steps after which an episode is given up. A greedy policy may walk in circles for ever.
        """
        return evaluate(self, env, episodes, seed=seed, explore=explore, max_steps=max_steps)

    def explain(self, env: Any, seed: int = 0, *, against: Any = (), max_steps: int = 1_000) -> Explanation:
        """Where credit goes in one episode: λ, chunks, traces and updates. The learner itself is not changed.

        Args:
          env: the environment to play the episode in, with the behaviour policy.
          seed: of the environment.
          against: what to show beside it on the same episode: another learner, a λ source, a number (a constant λ), or
            several of those. A λ source is given to a copy of this learner.
          max_steps: steps after which the episode is cut off.
        """
        from chunked_td.analysis.credit import explain

        return explain(self, env, seed, against=against, max_steps=max_steps)

    def save(self, path: Any) -> None:
        """Write everything to one file, so that `chunked_td.load` goes on exactly from here."""
        from chunked_td.learners.saving import save

        if self._busy:
            raise in_use(self)
        save(self, path)

    def __copy__(self) -> Any:
        """The same as a deep copy: two learners that share arrays would write into each other's."""
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: all but the environment and what lies at addresses of this process."""
        if self._busy:
            raise in_use(self)
        return self.__dict__ | {
            "_packed": None,
            "trained_in": None,
            "_unfinished_in": None,
            "_training": False,
            "_copies": None,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lambda_source!r}, episode={self.episode}, states={self.indexer.size})"
