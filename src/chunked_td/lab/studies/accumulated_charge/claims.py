"""Claims about Accumulated-Charge: the paper's figure and its text, which is here, too."""

from __future__ import annotations

from chunked_td.lab.results import criteria
from chunked_td.lab.studies.accumulated_charge.protocol import LAMBDAS
from chunked_td.lab.study import Claim

NEAR = 1.05  # near the best possible number: at most 5 % above it
FIXED = tuple(f"sarsa-{value:g}" for value in LAMBDAS)

CLAIMS = (
    Claim("charge-best", "§5.2, Figure 5", "Chunked SARSA performs best across several step sizes.",
          criteria.SEVERAL_TEXT, ("chunked", *FIXED),
          lambda study, _: criteria.best_across_step_sizes(study, "chunked"), short="best at several step sizes",
          controls=("charge-mirrored",)),
    Claim("charge-floor", "§5.2, Figure 5",
          "Chunked SARSA comes near the best possible number, 950, at several step sizes.",
          f"At {criteria.SEVERAL} or more step sizes the interval of the mean lies below {NEAR:g} × 950.",
          ("chunked",), lambda study, _: criteria.low_at_several_step_sizes(study, "chunked", NEAR),
          short="near the best possible, 950", controls=("charge-sign",)),
    Claim("charge-fixed", "§5.2, App. A.2", "No fixed λ reliably prefers a₁.",
          criteria.RELIABLE_TEXT + ", for every fixed λ at its best step size.", FIXED,
          lambda study, _: criteria.no_fixed_reliable(study), short="no fixed λ is reliable"),
)  # fmt: skip


PUBLISHED = (
    "A figure of regretful choices against the step size for SARSA(λ) with twelve λ and Chunked SARSA "
    "with a network, ten seeds, without and with intervals. Chunked SARSA is best across several step "
    "sizes; SARSA(λ) is good on some seeds and bad on others. No table, so there are no numbers to put "
    "beside ours."
)
