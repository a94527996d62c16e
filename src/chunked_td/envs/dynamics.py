"""Dynamics of the environments as compiled functions, shared by Gymnasium and the simulation.

`Dynamics` defines the interface. The Gymnasium classes and the compiled simulation call the same kernels with the same
random numbers, so one seed gives the same episodes in both.
"""

from chunked_td.envs.accumulated_charge.dynamics import AccumulatedCharge as AccumulatedCharge
from chunked_td.envs.chain_and_split.dynamics import ChainAndSplit as ChainAndSplit
from chunked_td.envs.key_to_door.dynamics import KeyToDoor as KeyToDoor
from chunked_td.envs.linear_key_to_door.dynamics import linear_key_to_door as linear_key_to_door
from chunked_td.envs.protocol import Dynamics as Dynamics
from chunked_td.envs.protocol import Outcome as Outcome
from chunked_td.envs.protocol import independent_copy as independent_copy
from chunked_td.envs.protocol import legal_masks as legal_masks
from chunked_td.envs.protocol import start_states as start_states
from chunked_td.envs.skewed_split.dynamics import SkewedSplit as SkewedSplit
from chunked_td.envs.t_maze.dynamics import MazeState as MazeState
from chunked_td.envs.t_maze.dynamics import t_maze as t_maze
from chunked_td.envs.t_maze.timed import TimedTMaze as TimedTMaze
from chunked_td.envs.table import TransitionTable as TransitionTable
