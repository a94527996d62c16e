"""Attacks that succeed, for the test of the harness: each bad outcome is seen and put down to its case."""

from __future__ import annotations

import os
import signal

from tools.attack.registry import Case, Found, Outcome, attack


@attack("selftest", share=0, seconds=2.0, megabytes=100)
def selftest(case: Case) -> Outcome | None:
    """Case 1 dies, 2 hangs, 3 raises, 4 takes memory, 5 finds a change; 0 and 6 are well, and there are no more."""
    if case.number == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if case.number == 2:
        while True:
            pass
    if case.number == 3:
        raise KeyError("nobody promised this")
    if case.number == 4:
        return Outcome.REFUSED if len(bytearray(300 << 20)) else None
    if case.number == 5:
        raise Found(Outcome.SILENT, "other content")
    return Outcome.SAME if case.number < 7 else None
