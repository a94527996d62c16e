"""Text of Key-to-Door for the report; its figures are the default ones (Figures 8)."""

from __future__ import annotations

PUBLISHED = (
    "A table of episodes without treasure for Expected-SARSA(λ) with five λ, C-default and C-factored, "
    "ten seeds, mean ± standard deviation at selected step sizes; the table of those; a figure over all "
    "step sizes. Only C-factored learns reliably, and it does so at many step sizes."
)
