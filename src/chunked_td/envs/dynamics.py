"""The environments' dynamics as compiled functions: the one definition that both faces share.

`Dynamics` says what an environment has to offer. The Gymnasium classes and the compiled simulation call the same
kernels on the same random numbers, so one seed gives the same episodes through either.
"""

# ruff: noqa: F401 (names are imported from here)
from chunked_td.envs.accumulated_charge.dynamics import AccumulatedCharge
from chunked_td.envs.blackjack.dynamics import Blackjack
from chunked_td.envs.chain_and_split.dynamics import ChainAndSplit
from chunked_td.envs.key_to_door.dynamics import KeyToDoor
from chunked_td.envs.linear_key_to_door.dynamics import linear_key_to_door
from chunked_td.envs.protocol import Dynamics, Outcome, independent_copy, legal_masks, start_states
from chunked_td.envs.skewed_split.dynamics import SkewedSplit
from chunked_td.envs.t_maze.dynamics import MazeState, t_maze
from chunked_td.envs.t_maze.timed import TimedTMaze
from chunked_td.envs.table import TransitionTable
