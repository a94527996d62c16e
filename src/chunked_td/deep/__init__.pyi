"""The public names of this room, for editors and type checkers; `__init__.py` reads this list."""

from chunked_td.deep.lambdas.backward import DeepBackward as DeepBackward
from chunked_td.deep.lambdas.constant import DeepConstant as DeepConstant
from chunked_td.deep.lambdas.lambda_greedy import DeepLambdaGreedy as DeepLambdaGreedy
from chunked_td.deep.lambdas.maturity import DeepMature as DeepMature
from chunked_td.deep.lambdas.meta_gradient import DeepMetaGradient as DeepMetaGradient
from chunked_td.deep.lambdas.percepts import DeepPercepts as DeepPercepts
from chunked_td.deep.lambdas.recurrent import DeepRecurrent as DeepRecurrent
from chunked_td.deep.lambdas.recurrent import RecurrentPercepts as RecurrentPercepts
from chunked_td.deep.lambdas.true_model import DeepTrueModel as DeepTrueModel
from chunked_td.deep.lambdas.value_kernel import DeepValueKernel as DeepValueKernel
from chunked_td.deep.learner import DeepLearner as DeepLearner
from chunked_td.deep.memory import RecurrentMemory as RecurrentMemory
from chunked_td.deep.rollouts import DeepRollout as DeepRollout
from chunked_td.deep.rollouts import RolloutLambda as RolloutLambda
from chunked_td.envs.spaces import Categories as Categories
from chunked_td.envs.spaces import Continuous as Continuous
from chunked_td.envs.spaces import Grid as Grid
