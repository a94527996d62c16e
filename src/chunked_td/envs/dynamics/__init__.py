"""The environments' dynamics as compiled functions: the one definition that both faces share.

`Dynamics` says what an environment has to offer. The Gymnasium classes and the compiled simulation call the same
kernels on the same random numbers, so one seed gives the same episodes through either.
"""

from chunked_td.envs.dynamics.accumulated_charge import AccumulatedCharge
from chunked_td.envs.dynamics.blackjack import Blackjack
from chunked_td.envs.dynamics.chain_and_split import ChainAndSplit
from chunked_td.envs.dynamics.key_to_door import KeyToDoor
from chunked_td.envs.dynamics.protocol import Dynamics, Outcome, independent_copy, legal_masks, start_states
from chunked_td.envs.dynamics.skewed_split import SkewedSplit
from chunked_td.envs.dynamics.t_maze import MazeState, t_maze
from chunked_td.envs.dynamics.table import TransitionTable

__all__ = [
    "AccumulatedCharge",
    "Blackjack",
    "ChainAndSplit",
    "Dynamics",
    "KeyToDoor",
    "MazeState",
    "Outcome",
    "SkewedSplit",
    "TransitionTable",
    "independent_copy",
    "legal_masks",
    "start_states",
    "t_maze",
]
