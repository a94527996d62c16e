"""The public names, for editors and type checkers. `__init__.py` reads this list and loads a name on first use."""

from chunked_td._numba import kernel as kernel
from chunked_td.compression import HistoryCompressor as HistoryCompressor
from chunked_td.indexing import Discretise as Discretise
from chunked_td.indexing import indexer_from_state as indexer_from_state
from chunked_td.indexing import make_indexer as make_indexer
from chunked_td.lambdas.backward import BackwardLambda as BackwardLambda
from chunked_td.lambdas.base import LambdaSource as LambdaSource
from chunked_td.lambdas.base import Needs as Needs
from chunked_td.lambdas.constant import ConstantLambda as ConstantLambda
from chunked_td.lambdas.expected import ExpectedLambda as ExpectedLambda
from chunked_td.lambdas.factored import FactoredLambda as FactoredLambda
from chunked_td.lambdas.forward import ForwardLambda as ForwardLambda
from chunked_td.lambdas.visit import VisitLambda as VisitLambda
from chunked_td.lambdas.watkins import WatkinsLambda as WatkinsLambda
from chunked_td.learners.learner import Learner as Learner
from chunked_td.learners.logged import Recorder as Recorder
from chunked_td.learners.loop import History as History
from chunked_td.learners.named import ChunkedExpectedSarsa as ChunkedExpectedSarsa
from chunked_td.learners.named import ChunkedSarsa as ChunkedSarsa
from chunked_td.learners.named import ChunkedTD as ChunkedTD
from chunked_td.learners.named import ExpectedSarsaLambda as ExpectedSarsaLambda
from chunked_td.learners.named import FactoredChunkedExpectedSarsa as FactoredChunkedExpectedSarsa
from chunked_td.learners.named import NStepChunkedSarsa as NStepChunkedSarsa
from chunked_td.learners.named import NStepChunkedTD as NStepChunkedTD
from chunked_td.learners.named import SarsaLambda as SarsaLambda
from chunked_td.learners.named import TDLambda as TDLambda
from chunked_td.learners.saving import load as load
from chunked_td.learners.schedule import Schedule as Schedule
from chunked_td.learners.schedule import linear as linear
from chunked_td.learners.sutton_singh import CorrectedTD as CorrectedTD
from chunked_td.learners.sutton_singh import NaiveTD0 as NaiveTD0
from chunked_td.learners.sutton_singh import TDNOverN as TDNOverN
from chunked_td.learners.sutton_singh import TDOneOverN as TDOneOverN
from chunked_td.models import Model as Model
from chunked_td.models import TableModel as TableModel
from chunked_td.models.neural.online import NeuralModel as NeuralModel
from chunked_td.returns import chunked_targets as chunked_targets
from chunked_td.returns import discounted_returns as discounted_returns
from chunked_td.returns import gae as gae
from chunked_td.returns import lambda_returns as lambda_returns
from chunked_td.returns import n_step_bootstrapped_returns as n_step_bootstrapped_returns
from chunked_td.returns import retrace as retrace
from chunked_td.returns import sample_keep as sample_keep
from chunked_td.returns import td_lambda as td_lambda
from chunked_td.returns import truncated_generalized_advantage_estimation as truncated_generalized_advantage_estimation
from chunked_td.returns import vtrace as vtrace

__version__: str
LEARNERS: tuple[str, ...]
"""Names of all learners."""
