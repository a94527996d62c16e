"""The paper's problems and our controls: compiled dynamics, exact values, and Gymnasium environments over them.

Importing this needs no Gymnasium; the environment classes and `register` do.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chunked_td.envs import dynamics
from chunked_td.envs.exact import ExactModel, Values

if TYPE_CHECKING:
    from chunked_td.envs.accumulated_charge import AccumulatedChargeEnv
    from chunked_td.envs.chain_and_split import ChainAndSplitEnv
    from chunked_td.envs.face import DynamicsEnv
    from chunked_td.envs.key_to_door import KeyToDoorEnv
    from chunked_td.envs.skewed_split import SkewedSplitEnv

__all__ = [
    "AccumulatedChargeEnv",
    "ChainAndSplitEnv",
    "DynamicsEnv",
    "ExactModel",
    "KeyToDoorEnv",
    "SkewedSplitEnv",
    "Values",
    "dynamics",
    "register",
]

_CLASSES = {
    "AccumulatedChargeEnv": "chunked_td.envs.accumulated_charge",
    "ChainAndSplitEnv": "chunked_td.envs.chain_and_split",
    "DynamicsEnv": "chunked_td.envs.face",
    "KeyToDoorEnv": "chunked_td.envs.key_to_door",
    "SkewedSplitEnv": "chunked_td.envs.skewed_split",
}

#: Gymnasium ids and the classes behind them
IDS = {
    "ChunkedTD/ChainAndSplit-v0": "ChainAndSplitEnv",
    "ChunkedTD/AccumulatedCharge-v0": "AccumulatedChargeEnv",
    "ChunkedTD/KeyToDoor-v0": "KeyToDoorEnv",
    "ChunkedTD/SkewedSplit-v0": "SkewedSplitEnv",
}


def register() -> None:
    """Register the environments with Gymnasium; calling it again does nothing."""
    import gymnasium

    for name, class_name in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point=f"{_CLASSES[class_name]}:{class_name}",
                # The checker that `gymnasium.make` adds expects a scalar reward (mo-gymnasium switches it off, too).
                disable_env_checker=class_name == "KeyToDoorEnv",
            )


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return getattr(import_module(_CLASSES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
