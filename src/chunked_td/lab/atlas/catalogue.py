"""The methods that come with the package, beside the fixed λs. A method is one entry here."""

from __future__ import annotations

from chunked_td.lab.atlas.methods import Method

CHUNKED, RIVAL, TRACES, PLANNING = "chunked", "other λ", "other traces", "planning"

METHODS = (
    Method("forward", "Chunked (the paper)", CHUNKED, "ForwardLambda", "counts"),
    Method("expected", "Expected chunking", CHUNKED, "ExpectedLambda", "counts"),
    Method("backward", "Backward chunking", CHUNKED, "BackwardLambda", "counts"),
    Method("visit", "1/visits", CHUNKED, "VisitLambda", "counts", quick=False),
)
