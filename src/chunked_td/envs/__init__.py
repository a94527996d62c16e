"""The paper's problems and our controls: compiled dynamics, and Gymnasium environments over them.

Importing this needs no Gymnasium; the environment classes do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunked_td._loading import lazy_names
from chunked_td.envs import dynamics

if TYPE_CHECKING:
    from chunked_td.envs.accumulated_charge.gym import AccumulatedChargeEnv
    from chunked_td.envs.chain_and_split.gym import ChainAndSplitEnv
    from chunked_td.envs.face import DynamicsEnv
    from chunked_td.envs.kept_percepts import KeptPercepts
    from chunked_td.envs.key_to_door.gym import KeyToDoorEnv
    from chunked_td.envs.linear_key_to_door.gym import LinearKeyToDoorEnv
    from chunked_td.envs.skewed_split.gym import SkewedSplitEnv
    from chunked_td.envs.t_maze.gym import TimedTMazeEnv, TMazeEnv

__all__ = [
    "AccumulatedChargeEnv",
    "ChainAndSplitEnv",
    "DynamicsEnv",
    "KeptPercepts",
    "KeyToDoorEnv",
    "LinearKeyToDoorEnv",
    "SkewedSplitEnv",
    "TMazeEnv",
    "TimedTMazeEnv",
    "dynamics",
]

_CLASSES = {
    "AccumulatedChargeEnv": "chunked_td.envs.accumulated_charge.gym",
    "ChainAndSplitEnv": "chunked_td.envs.chain_and_split.gym",
    "DynamicsEnv": "chunked_td.envs.face",
    "KeptPercepts": "chunked_td.envs.kept_percepts",
    "KeyToDoorEnv": "chunked_td.envs.key_to_door.gym",
    "LinearKeyToDoorEnv": "chunked_td.envs.linear_key_to_door.gym",
    "SkewedSplitEnv": "chunked_td.envs.skewed_split.gym",
    "TMazeEnv": "chunked_td.envs.t_maze.gym",
    "TimedTMazeEnv": "chunked_td.envs.t_maze.gym",
}

__getattr__, __dir__ = lazy_names(__name__, _CLASSES)
