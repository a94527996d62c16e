"""The `api` of the golden cases on the next core."""

from __future__ import annotations

from chunked_td._next.learner import LEARNERS
from chunked_td._next.lockstep import LockstepRuns
from chunked_td._next.simulate import simulate
from golden import today


class Api(today.Api):
    """Names that the next core has of its own; all others are the package's."""

    simulate = staticmethod(simulate)

    lockstep = LockstepRuns

    def __getattr__(self, name):
        return LEARNERS[name] if name in LEARNERS else super().__getattr__(name)


api = Api()
