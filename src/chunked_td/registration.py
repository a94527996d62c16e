"""Registration of this package's environments with Gymnasium.

Gymnasium ignores the entry points of plugins, so importing the package registers its environments. Importing Gymnasium
takes longer than the rest of the package. So it is not imported here: if it is imported later, registration follows.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any

ENVIRONMENTS = {
    "ChunkedTD/ChainAndSplit-v0": "chunked_td.envs.chain_and_split.gym:ChainAndSplitEnv",
    "ChunkedTD/AccumulatedCharge-v0": "chunked_td.envs.accumulated_charge.gym:AccumulatedChargeEnv",
    "ChunkedTD/KeyToDoor-v0": "chunked_td.envs.key_to_door.gym:KeyToDoorEnv",
    "ChunkedTD/LinearKeyToDoor-v0": "chunked_td.envs.linear_key_to_door.gym:LinearKeyToDoorEnv",
    "ChunkedTD/SkewedSplit-v0": "chunked_td.envs.skewed_split.gym:SkewedSplitEnv",
    "ChunkedTD/TMaze-v0": "chunked_td.envs.t_maze.gym:TMazeEnv",
    "ChunkedTD/TimedTMaze-v0": "chunked_td.envs.t_maze.gym:TimedTMazeEnv",
}
"""Gymnasium ids and their environment classes."""


def register() -> None:
    """Register the environments with Gymnasium; further calls have no effect."""
    import gymnasium

    for name, entry_point in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            # The checker that `gymnasium.make` adds requires a scalar reward; mo-gymnasium also disables it.
            vector = name == "ChunkedTD/KeyToDoor-v0"
            gymnasium.register(id=name, entry_point=entry_point, disable_env_checker=vector)


def register_with_gymnasium() -> None:
    """Register the environments now if Gymnasium is loaded, otherwise right after its import."""
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _AfterGymnasium) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterGymnasium())


class _AfterGymnasium(MetaPathFinder):
    """Import hook that finds Gymnasium by the other finders and calls `register` once it is loaded."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != "gymnasium":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        spec = next((s for finder in others if (s := finder.find_spec(fullname, path, target)) is not None), None)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            register()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
