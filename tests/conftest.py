"""Settings shared by all tests."""

from __future__ import annotations

import contextlib
import signal

from hypothesis import settings

# The first call of a kernel compiles it, so a deadline per example would fail at random. The examples are the same
# in every run: a red test stays red until the code changes.
settings.register_profile("chunked-td", deadline=None, derandomize=True)
settings.load_profile("chunked-td")

# A shell without job control ignores SIGINT in what it starts in the background, and so do all children: those that a
# test interrupts would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGINT, signal.default_int_handler)
