"""Where the rewards of the TD errors come from."""

from __future__ import annotations

from typing import Any

from chunked_td.learners.learned_components import LearnedComponents
from chunked_td.learners.planning.expected_error import ExpectedError
from chunked_td.learners.planning.smoothed_reward import SmoothedReward

RewardSource = SmoothedReward | ExpectedError | LearnedComponents

REWARD_SOURCES: dict[str, type] = {cls.__name__: cls for cls in (SmoothedReward, ExpectedError, LearnedComponents)}
"""Reward sources by name."""


def check_reward_source(value: Any) -> RewardSource | None:
    """A reward source, or None for the reward as it comes."""
    if value is None or isinstance(value, RewardSource):
        return value
    known = ", ".join(f"{name}(…)" for name in REWARD_SOURCES)
    raise ValueError(f"reward_source must be None or one of {known}, got {value!r}")
