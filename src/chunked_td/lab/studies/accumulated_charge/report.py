"""Text of Accumulated-Charge for the report; its figures are the default ones (Figures 5 and 7)."""

from __future__ import annotations

PUBLISHED = (
    "A figure of regretful choices against the step size for SARSA(λ) with twelve λ and Chunked SARSA "
    "with a network, ten seeds, without and with intervals. Chunked SARSA is best across several step "
    "sizes; SARSA(λ) is good on some seeds and bad on others. No table, so there are no numbers to put "
    "beside ours."
)
