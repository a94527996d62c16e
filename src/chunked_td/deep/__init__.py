"""Deep reinforcement learning with a λ per step: does it help, and where does λ come from without a table?

    networks    perceptrons with layer normalisation
    lambdas     λ sources for function approximation, one file each
    memory      the memory of agents: the recurrent state, or the last percepts that were not predicted
    rollouts    `RolloutLambda`: λ [T, B] for anybody's rollouts
    agents      streaming learners with eligibility traces, and PPO; a whole training run is one compiled program
    policies    what a policy network's outputs mean: discrete actions, or a Gaussian
    learner     `DeepLearner`: the same agents on a Gymnasium environment, which `gym` steps in Python
    training    many runs side by side, in blocks; saving and resuming

Tasks are in `chunked_td.envs.tasks`; the studies in `chunked_td.lab.studies`, `deep` and `hidden`.

Names load when they are first used, because JAX takes long to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunked_td._loading import lazy_names

if TYPE_CHECKING:
    from chunked_td.deep.lambdas import (
        DeepBackward,
        DeepConstant,
        DeepLambdaGreedy,
        DeepMature,
        DeepMetaGradient,
        DeepPercepts,
        DeepRecurrent,
        DeepTrueModel,
        DeepValueKernel,
        RecurrentPercepts,
    )
    from chunked_td.deep.learner import DeepLearner
    from chunked_td.deep.memory import RecurrentMemory
    from chunked_td.deep.rollouts import DeepRollout, RolloutLambda
    from chunked_td.envs.spaces import Categories, Continuous, Grid

__all__ = [
    "Categories",
    "Continuous",
    "DeepBackward",
    "DeepConstant",
    "DeepLambdaGreedy",
    "DeepLearner",
    "DeepMature",
    "DeepMetaGradient",
    "DeepPercepts",
    "DeepRecurrent",
    "DeepRollout",
    "DeepTrueModel",
    "DeepValueKernel",
    "Grid",
    "RecurrentMemory",
    "RecurrentPercepts",
    "RolloutLambda",
]

_HOMES = {
    "DeepLearner": "chunked_td.deep.learner",
    "RecurrentMemory": "chunked_td.deep.memory",
    **dict.fromkeys(("DeepRollout", "RolloutLambda"), "chunked_td.deep.rollouts"),
    **dict.fromkeys(("Categories", "Continuous", "Grid"), "chunked_td.envs.spaces"),
}

__getattr__, __dir__ = lazy_names(__name__, {name: _HOMES.get(name, "chunked_td.deep.lambdas") for name in __all__})
