"""Text of Key-to-Door from the scalar reward; its figures are the default ones."""

from __future__ import annotations

PUBLISHED = (
    "Nothing: this experiment is ours. The paper's C-factored is told one reward per state component; whether the "
    "parts can be learned from their sum is not asked."
)
