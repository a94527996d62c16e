"""What a user is told when learning diverges. The compiled update notices it (`AgentState.watch`)."""

from __future__ import annotations

from typing import Any

from chunked_td.learners.state import NO_LAMBDA
from chunked_td.traces import LIMIT


class Diverged(FloatingPointError):
    """Learning has diverged: values or TD errors are no numbers any more, or so large that nothing can be learned."""


class DivergenceWarning(RuntimeWarning):
    """A run was stopped because learning diverged."""


def divergence_text(watch: int, step_size: float, lambda_source: Any) -> str:
    """Why learning diverged and what to change, in a sentence.

    Args:
      watch: the bits that the update left in `AgentState.watch`.
      step_size: α of the episode.
    """
    if watch & NO_LAMBDA:
        return f"{lambda_source!r} gave a λ that is not a number in [0, 1]: its lambda_t is at fault"
    return (
        f"an update was not finite, or beyond {LIMIT:g}: step_size {step_size:g} is too large for "
        f"{lambda_source!r}, for these rewards, or for a λ near 1 where states return within an episode; take a "
        f"smaller step_size, a smaller λ or replacing traces"
    )
