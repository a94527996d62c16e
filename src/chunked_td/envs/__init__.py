"""Environments: the paper's problems and control problems, as compiled dynamics and as Gymnasium environments.

Importing this package does not import Gymnasium; the environment classes do.
"""

from typing import TYPE_CHECKING

from chunked_td._loading import lazy_names
from chunked_td.envs import dynamics
from chunked_td.registration import ENVIRONMENTS

if TYPE_CHECKING:
    from chunked_td.envs.accumulated_charge.gym import AccumulatedChargeEnv as AccumulatedChargeEnv
    from chunked_td.envs.chain_and_split.gym import ChainAndSplitEnv as ChainAndSplitEnv
    from chunked_td.envs.face import DynamicsEnv as DynamicsEnv
    from chunked_td.envs.kept_percepts import KeptPercepts as KeptPercepts
    from chunked_td.envs.key_to_door.gym import KeyToDoorEnv as KeyToDoorEnv
    from chunked_td.envs.linear_key_to_door.gym import LinearKeyToDoorEnv as LinearKeyToDoorEnv
    from chunked_td.envs.skewed_split.gym import SkewedSplitEnv as SkewedSplitEnv
    from chunked_td.envs.t_maze.gym import TimedTMazeEnv as TimedTMazeEnv
    from chunked_td.envs.t_maze.gym import TMazeEnv as TMazeEnv

_CLASSES = {name: module for module, _, name in (place.partition(":") for place in ENVIRONMENTS.values())} | {
    "DynamicsEnv": "chunked_td.envs.face",
    "KeptPercepts": "chunked_td.envs.kept_percepts",
}

__all__ = ["dynamics", *_CLASSES]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = lazy_names(__name__, _CLASSES)
