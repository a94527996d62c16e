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

Names load when they are first used, because JAX takes long to import; `__init__.pyi` lists them.
"""

from chunked_td._loading import lazy_names, stub_names

_NAMES = stub_names(__file__)

__all__ = [*_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = lazy_names(__name__, _NAMES)
