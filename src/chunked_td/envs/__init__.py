"""The paper's problems and our controls: compiled dynamics, and Gymnasium environments over them.

Importing this needs no Gymnasium; the environment classes do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunked_td._loading import lazy_names
from chunked_td.envs import dynamics

if TYPE_CHECKING:
    from chunked_td.envs.accumulated_charge import AccumulatedChargeEnv
    from chunked_td.envs.chain_and_split import ChainAndSplitEnv
    from chunked_td.envs.face import DynamicsEnv
    from chunked_td.envs.kept_percepts import KeptPercepts
    from chunked_td.envs.key_to_door import KeyToDoorEnv
    from chunked_td.envs.skewed_split import SkewedSplitEnv
    from chunked_td.envs.t_maze import TMazeEnv

__all__ = [
    "AccumulatedChargeEnv",
    "ChainAndSplitEnv",
    "DynamicsEnv",
    "KeptPercepts",
    "KeyToDoorEnv",
    "SkewedSplitEnv",
    "TMazeEnv",
    "dynamics",
]

_CLASSES = {
    "AccumulatedChargeEnv": "chunked_td.envs.accumulated_charge",
    "ChainAndSplitEnv": "chunked_td.envs.chain_and_split",
    "DynamicsEnv": "chunked_td.envs.face",
    "KeptPercepts": "chunked_td.envs.kept_percepts",
    "KeyToDoorEnv": "chunked_td.envs.key_to_door",
    "SkewedSplitEnv": "chunked_td.envs.skewed_split",
    "TMazeEnv": "chunked_td.envs.t_maze",
}

__getattr__, __dir__ = lazy_names(__name__, _CLASSES)
