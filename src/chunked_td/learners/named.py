"""The named algorithms: each picks a bootstrap, a λ source and a view for the common update."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from chunked_td.bootstraps import EXPECTED_SARSA, Q_LEARNING, SARSA, STATE
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.factored import FactoredLambda
from chunked_td.lambdas.forward import ForwardLambda
from chunked_td.lambdas.watkins import WatkinsLambda
from chunked_td.learners.learner import Learner, LearnerSettings
from chunked_td.learners.planning.certainty_equivalence import CertaintyEquivalence
from chunked_td.learners.planning.dyna import Dyna
from chunked_td.learners.planning.expected_error import ExpectedError
from chunked_td.learners.planning.prioritised_sweeping import PrioritisedSweeping


class FixedLambda(Learner):
    """A learner with the same λ at every step, except for steps where the source sets λ = 0.

    Args:
      env: a Gymnasium environment.
      lambda_: λ, 0.9 by default.
      **settings: see `Learner`; for state values, `policy` is the policy to evaluate, uniform by default.
    """

    kind: ClassVar[type[LambdaSource]] = ConstantLambda

    def __init__(self, env: Any, *, lambda_: float | None = None, **settings: Unpack[LearnerSettings]):
        if lambda_ is not None and settings.get("lambda_source") is not None:
            got = f"got {lambda_!r} and {settings.get('lambda_source')!r}"
            raise ValueError(f"lambda_ and lambda_source both set λ, {got}; pass one of them")
        if settings.get("lambda_source") is None:
            settings["lambda_source"] = self.kind(0.9 if lambda_ is None else lambda_)  # type: ignore[call-arg]
        super().__init__(env, **settings)


class TDLambda(FixedLambda):
    """TD(λ) (§2.1): state values of a given policy. λ = 0 is TD(0), λ = 1 is Monte Carlo. Args: see `FixedLambda`."""

    bootstrap = STATE


class SarsaLambda(FixedLambda):
    """SARSA(λ) (§2.1): action values of the ε-greedy policy it follows. Args: see `FixedLambda`."""

    bootstrap = SARSA


class ExpectedSarsaLambda(FixedLambda):
    """Expected-SARSA(λ) (§2.1): bootstraps from Σ_a π(a|s') Q(s',a). Args: see `FixedLambda`."""

    bootstrap = EXPECTED_SARSA


class QLambda(FixedLambda):
    """Watkins' Q(λ) (Watkins 1989): bootstraps from max_a Q(s',a); λ is 0 after an exploratory action.

    λ = 0 is Q-learning. With a number as `lambda_source`, λ is the same for exploratory actions: the naive Q(λ) of
    Sutton and Barto. With reward components the maximum is that of Σ_i Q^i. Args: see `FixedLambda`.
    """

    bootstrap = Q_LEARNING
    kind = WatkinsLambda


class ChunkedTD(Learner):
    """Chunked-TD (Alg. 1): state values of a given policy, λ_t = P̂^π(x_{t+1}|x_t)."""

    bootstrap = STATE
    default_source = ForwardLambda()


class ChunkedSarsa(Learner):
    """Chunked SARSA (Alg. 2): λ_t = P̂(x_{t+1}|x_t,a_t) π(a_{t+1}|x_{t+1})."""

    bootstrap = SARSA
    default_source = ForwardLambda()


class ChunkedExpectedSarsa(Learner):
    """Chunked Expected-SARSA (Alg. 3): λ_t = P̂^π(x_{t+1}|x_t). With vector rewards this is the paper's C-default."""

    bootstrap = EXPECTED_SARSA
    default_source = ForwardLambda()


class FactoredChunkedExpectedSarsa(Learner):
    """Chunked Expected-SARSA with decomposed rewards (Alg. 4, C-factored): one trace and one λ per reward component.

    λ_t^i = Σ_a π(a|x_t) P̂(x^i_{t+1}|x_t,a); the policy is ε-greedy on Σ_i Q^i.
    """

    bootstrap = EXPECTED_SARSA
    default_source = FactoredLambda()


class LineageExpectedSarsa(Learner):
    """Expected-SARSA with lineage traces and expected TD errors, for value estimation and for recorded data.

    At a state with several predecessor pairs, each pair bootstraps; with one predecessor pair, its trace does not decay
    (`Lineage`). Each TD error is replaced by its mean under the count model (`ExpectedError`). Tables only.

    Args:
      env: a Gymnasium environment.
      **settings: see `Learner`; `reward_source=ExpectedError(ρ)` replaces a part ρ of each TD error.
    """

    bootstrap = EXPECTED_SARSA
    default_source = ConstantLambda(1.0)
    default_view = "lineage"
    default_reward_source = ExpectedError(1.0)


class DynaQ(Learner):
    """Dyna-Q (Sutton 1990): Expected-SARSA(0) and ten updates from the learned model after every step.

    Args:
      env: a Gymnasium environment.
      **settings: see `Learner`; `planner=Dyna(steps)` for another number of updates.
    """

    bootstrap = EXPECTED_SARSA
    default_source = ConstantLambda(0.0)
    default_planner = Dyna()


class PrioritisedSweepingQ(Learner):
    """Action values by prioritised sweeping alone (Moore and Atkeson 1993); see `PrioritisedSweeping`."""

    bootstrap = EXPECTED_SARSA
    default_source = ConstantLambda(0.0)
    default_planner = PrioritisedSweeping()


class CertaintyEquivalentQ(Learner):
    """Action values that solve the learned model at the end of every episode; see `CertaintyEquivalence`."""

    bootstrap = EXPECTED_SARSA
    default_source = ConstantLambda(0.0)
    default_planner = CertaintyEquivalence()


class NStepChunkedTD(Learner):
    """n-step chunked targets for state values (§3.1): s_t is dropped with probability P̂^π(x_{t+1}|x_t)."""

    bootstrap = STATE
    default_source = ForwardLambda()
    default_view = "sampled"


class NStepChunkedSarsa(Learner):
    """n-step Chunked SARSA (App. B.1): (s_t, a_t) is dropped with probability P̂^π(x_{t+1},a_{t+1}|x_t,a_t)."""

    bootstrap = SARSA
    default_source = ForwardLambda()
    default_view = "sampled"
