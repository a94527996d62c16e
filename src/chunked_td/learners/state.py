"""What a learner is for compiled code: its choices, its tables, its memory of the episode."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._numba import static
from chunked_td.bootstraps import EXPECTED_SARSA, SARSA, STATE
from chunked_td.lambdas.base import LambdaSource, Needs
from chunked_td.lambdas.episode import Episode
from chunked_td.learners.views import View
from chunked_td.policies import GREEDY, UNIFORM

NO_NUMBER, NO_LAMBDA = 1, 2
"""What may go wrong while learning, as bits of `AgentState.watch`: an update that is not finite or beyond
`chunked_td.traces.LIMIT`, and a λ outside [0, 1]."""

SLACK = 1.0e-6
"""How far a λ may lie outside [0, 1] by rounding."""


class Rule(NamedTuple):
    """The choices of a learner, and the numbers that go with them."""

    bootstrap: Any  # static, see chunked_td.bootstraps
    policy: Any  # static: GREEDY, UNIFORM or GIVEN
    per_component: Any  # static: 1 if every reward component has a λ of its own
    keeps_policy: Any  # static: 1 if λ needs π(·|x_t)
    keeps_legal: Any  # static: 1 if λ or a planner needs the legal actions of other states
    checks_lambda: Any  # static: 1 if the λ source is not one of ours, and might leave [0, 1]
    n_actions: Any  # A
    discount: float  # γ
    cutoff: float  # traces at or below it are dropped; 0 is exact
    replacing: bool  # replacing instead of accumulating traces
    sampled: bool  # λ_t replaced by a coin that falls heads with probability λ_t (§3.1)


class Tables(NamedTuple):
    """What is learned, and what is known of the states."""

    values: Annotated[np.ndarray, "float64[rows, d]"]  # row = s (state values) or s·A + a
    legal: Annotated[np.ndarray, "bool[S, A]"]  # [0, A] where λ does not need it
    nvec: Annotated[np.ndarray, "int64[n]"]  # sizes of the state components
    parts: Annotated[np.ndarray, "bool[d, c]"]  # which state components decide reward i
    exploration: Any = None  # the compiled form of an `Exploration`; None is ε-greedy


class Memory(NamedTuple):
    """What a learner carries from step to step within an episode."""

    policy: Annotated[np.ndarray, "float64[A]"]  # π(·|x_t), as it was when a_t was drawn
    next_policy: Annotated[np.ndarray, "float64[A]"]  # π(·|x_{t+1})
    scratch: Annotated[np.ndarray, "float64[A]"]
    lambda_t: Annotated[np.ndarray, "float64[d]"]
    delta_t: Annotated[np.ndarray, "float64[d]"]
    previous: Annotated[np.ndarray, "int64[one]"]  # s_{t−1}·A + a_{t−1}, or −1 at the start
    rows: Annotated[np.ndarray, "int64[T]"]  # the episode so far, for updates at its end
    delta: Annotated[np.ndarray, "float64[T, d]"]
    lambda_: Annotated[np.ndarray, "float64[T, d]"]
    length: Annotated[np.ndarray, "int64[one]"]

    @classmethod
    def empty(cls, n_actions: int, components: int, capacity: int) -> Memory:
        """No episode under way."""
        return cls(
            policy=np.zeros(n_actions),
            next_policy=np.zeros(n_actions),
            scratch=np.zeros(n_actions),
            lambda_t=np.zeros(components),
            delta_t=np.zeros(components),
            previous=np.full(1, -1, np.int64),
            rows=np.zeros(capacity, np.int64),
            delta=np.zeros((capacity, components)),
            lambda_=np.zeros((capacity, components)),
            length=np.zeros(1, np.int64),
        )

    def grown(self, capacity: int) -> Memory:
        """The same memory with room for a longer episode."""
        larger = Memory.empty(self.policy.size, self.lambda_t.size, capacity)
        for old, new in zip(self, larger, strict=True):
            new[: old.shape[0]] = old
        return larger


class AgentState(NamedTuple):
    """Everything that the update reads and writes."""

    rule: Rule
    source: Any  # the compiled form of a λ source
    model: Any  # ForwardCounts, PartCounts, BackwardCounts, Oracle, Answers, or None
    tables: Tables
    trace: Any  # a kind of trace (`learners.views`), or None for updates at the end of an episode
    memory: Memory
    watch: Annotated[np.ndarray, "int64[one]"]  # 0 while all is well, else NO_NUMBER, NO_LAMBDA or both
    episode: Any = None  # Episode, where the λ source learns from whole episodes
    planning: Any = None  # Planning, where the learner plans or reads rewards off a model
    error: Any = None  # the compiled form of a model error, where the models are wrong on purpose
    division: Any = None  # the compiled form of what divides a reward that is one number into components, or None


def make_rule(
    bootstrap: int,
    source: LambdaSource,
    view: View,
    n_actions: Any,
    discount: float,
    *,
    policy: int | None = None,
    cutoff: float = 0.0,
    replacing: bool = False,
    plans: bool = False,
) -> Rule:
    """The choices for one learner, checked against each other; one that plans needs the policy in all states."""
    needs = source.needs_with(bootstrap)
    if not source.is_compiled:  # a plain Python step shows the policy, whether or not it is asked for
        needs |= Needs.POLICY
    name = f"lambda_source {type(source).__name__}()"
    if source.per_component and bootstrap == SARSA:
        raise ValueError(f"{name} goes with state values, Expected-SARSA and Q-learning, not with SARSA")
    if source.per_component and needs & Needs.OUTCOME and Needs.PARTS not in needs:
        raise ValueError(f"{name} has a λ per reward component: it must need PARTS, not OUTCOME")
    if Needs.LEGAL in needs and bootstrap == STATE:
        raise ValueError(f"{name} needs the ε-greedy policy of other states; it goes with action values")
    if view == "sampled" and bootstrap not in (STATE, SARSA):
        other = "Expected-SARSA" if bootstrap == EXPECTED_SARSA else "Q-learning"
        raise ValueError(f"view 'sampled' goes with state values and SARSA (§3.1, App. B.1), not with {other}")
    if view == "corrected" and bootstrap not in (STATE, SARSA):
        other = "Expected-SARSA" if bootstrap == EXPECTED_SARSA else "Q-learning"
        raise ValueError(f"view 'corrected' goes with state values and SARSA, not with {other}")
    if replacing and view != "traces":
        raise ValueError(f"replacing goes with view 'traces', got view {view!r}")
    if policy is None:
        policy = UNIFORM if bootstrap == STATE else GREEDY
    return Rule(
        bootstrap=static(bootstrap),
        policy=static(policy),
        per_component=static(int(source.per_component)),
        keeps_policy=static(int(Needs.POLICY in needs)),
        keeps_legal=static(int(Needs.LEGAL in needs or (plans and bootstrap != STATE))),
        checks_lambda=static(int(not type(source).__module__.startswith("chunked_td."))),
        n_actions=n_actions,
        discount=float(discount),
        cutoff=float(cutoff),
        replacing=bool(replacing),
        sampled=view == "sampled",
    )


def empty_episode(source: LambdaSource, rule: Rule, components: int, capacity: int) -> Episode | None:
    """A place for the episode under way, where the λ source is shown it."""
    return Episode.empty(components, capacity, rule.discount, rule.bootstrap) if source.learns_from_episodes else None
