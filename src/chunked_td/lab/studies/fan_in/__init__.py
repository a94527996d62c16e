"""Backward models with networks: λ from where an episode came, beside λ from where it goes, where many ways meet.

**How it is judged.** Written before its data. Score, tuning, seeds, grids, intervals, "better" and "worse" are those of
`chunked_td.lab.studies.deep.criteria`; pairs of arms and their verdicts are those of the study `luck`.

*Tasks.* `FanInTask` with 8 and with 32 start states, delay 8 and noise 2: the atlas's family fan-in, where backward
counts beat forward counts. *Arms.* Every fixed λ, the forward network (the paper's "realised" form and "expected") and
the backward network, in one program. Sizes and rates of the networks are the same and were not tuned.

*Claim*, per agent: the backward network beats both forms of the forward network. It holds if both pairs hold, does not
hold if one does not and none holds even in part, is not shown if neither is, and holds in part otherwise. Where the
backward network stands among fixed λ is reported, not claimed.

Looked at beforehand: that every arm runs (2,000 steps).
"""
