"""Settings shared by all tests."""

from __future__ import annotations

from hypothesis import settings

# The first call of a kernel compiles it, so a deadline per example would fail at random. The examples are the same
# in every run: a red test stays red until the code changes.
settings.register_profile("chunked-td", deadline=None, derandomize=True)
settings.load_profile("chunked-td")
