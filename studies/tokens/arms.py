"""Tasks, λs and step sizes of the study, by name."""

from __future__ import annotations

from typing import NamedTuple

TASKS = {
    "forced": "Eight decisions among forced tokens",
    "random": "Eight decisions among forty random tokens",
    "parity": "Parity of eight decisions",
}
FIXED = ("0", "0.5", "0.8", "0.9", "0.95", "0.99", "1")
SOURCES = {
    "vapo": "Length rule",
    "realised": "Realised probability",
    "expected": "Expected probability Σπ²",
    "expected-matched": "Expected probability, cuts of 0.05 on average",
    "entropy": "exp(−entropy)",
    "value-kernel": "Value kernel",
    "mature-expected": "Expected probability × maturity",
}
EXPLORED = {
    "explained-expected": "Σπ², as far as the critic explains",
    "explained": "What the critic leaves unexplained",
}
"""Sources that were added after others had been judged."""
AGES = (10, 40, 160)
"""Updates of the critic at which the gate is judged."""
TRAINED = {
    "forced": "Among forced tokens",
    "random": "Among forty random tokens",
    "two-lengths": "32 or 128 tokens",
    "skilled-parity": "Parity",
}
"""Tasks that policies are trained on."""
CRITICS = {"learned": "learned critic", "informed": "informed critic"}
TRAINED_SOURCES = ("vapo", "realised", "expected", "expected-matched", "mature-expected", "value-kernel")
CONTROLLED = (*TRAINED_SOURCES[2:], "explained-expected")
"""Sources whose λs are also run in another order."""
STEP_SIZES = (4e-3, 1.5e-3, 5e-4)
FRESH = 100
"""The first seed of the confirmation."""
SINGLE = "0.99"
"""The best single fixed λ for all tasks and critics."""


class Tuned(NamedTuple):
    """Step-size exponents that were best in training: of λ = 1 − e, of the best fixed λ, of `SINGLE`."""

    explained: int
    best: tuple[str, int]
    single: int


CONFIRMED = {
    "learned-forced": Tuned(-1, ("0.99", -1), -1),
    "informed-forced": Tuned(0, ("0.5", 0), 0),
    "learned-random": Tuned(-1, ("0.99", -1), -1),
    "informed-random": Tuned(0, ("0.5", 0), 0),
    "learned-skilled-parity": Tuned(-1, ("1", -1), -1),
    "informed-skilled-parity": Tuned(-1, ("0.95", -1), 0),
}
