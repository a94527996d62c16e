"""One claim, judged from the stored runs."""

from chunked_td.lab.results.claims import Claim
from chunked_td.lab.results.criteria import settles_at

from .protocol import TRUTH

CLAIMS = (
    Claim(
        id="even-unbiased",
        source="ours",
        text="With equal chances the paper's λ is unbiased: Chunked-TD settles at the true value 5.",
        criterion="At the smallest step size the interval of the mean over the second half lies within 0.25 of 5.",
        arms=("chunked",),
        judge=lambda study, studies: settles_at(study, "chunked", TRUTH, margin=0.25),
    ),
)
