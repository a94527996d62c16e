"""Our environments in Gymnasium's registry.

Gymnasium ignores the entry points of plugins, so importing the package registers them. Nothing but Gymnasium is loaded
for that.
"""

from __future__ import annotations

ENVIRONMENTS = {
    "ChunkedTD/ChainAndSplit-v0": "chunked_td.envs.chain_and_split.gym:ChainAndSplitEnv",
    "ChunkedTD/AccumulatedCharge-v0": "chunked_td.envs.accumulated_charge.gym:AccumulatedChargeEnv",
    "ChunkedTD/KeyToDoor-v0": "chunked_td.envs.key_to_door.gym:KeyToDoorEnv",
    "ChunkedTD/SkewedSplit-v0": "chunked_td.envs.skewed_split.gym:SkewedSplitEnv",
    "ChunkedTD/TMaze-v0": "chunked_td.envs.t_maze.gym:TMazeEnv",
}
"""Gymnasium ids and the classes behind them."""


def register() -> None:
    """Register the environments with Gymnasium; calling it again does nothing."""
    import gymnasium

    for name, entry_point in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            # The checker that `gymnasium.make` adds expects a scalar reward (mo-gymnasium switches it off, too).
            vector = name == "ChunkedTD/KeyToDoor-v0"
            gymnasium.register(id=name, entry_point=entry_point, disable_env_checker=vector)
