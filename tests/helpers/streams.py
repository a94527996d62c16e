"""Random numbers that a test chooses."""

from __future__ import annotations

from chunked_td._link import link


class Given:
    """A part with role "rng": these numbers, in order."""

    def __init__(self, *numbers):
        self.numbers, self.taken = list(numbers), 0

    def take(self, rng):
        self.taken += 1
        return self.numbers[self.taken - 1]

    def in_python(self, function):
        """A kernel in plain Python that draws these numbers, whatever stream it is given."""
        return link(function, {"rng": self}, compiled=False)
