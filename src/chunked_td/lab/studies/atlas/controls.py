"""Controls: the same problem with something turned round that must not change what a method is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chunked_td.lab.studies.atlas.protocol import ProblemKey
from chunked_td.lab.studies.atlas.results import Cell, CreditMap


@dataclass(frozen=True)
class ControlPair:
    """A method on a problem and on its control.

    It wins a problem if its interval lies above 1. A win does not survive if the relative score on the control lies
    below that of the best fixed λ there, which is 1.
    """

    method: str
    problem: ProblemKey
    plain: Cell
    control: Cell

    @property
    def wins(self) -> bool:
        """Whether the method beats the best fixed λ on the problem."""
        return self.plain.low > 1.0

    @property
    def lost(self) -> bool:
        """Whether it wins, and the win does not survive the control."""
        return self.wins and self.control.relative < 1.0

    @property
    def clearly_lost(self) -> bool:
        """Whether moreover the whole interval on the control lies below 1."""
        return self.lost and self.control.high < 1.0


def control_pairs(atlas: CreditMap) -> list[ControlPair]:
    """Every method on every problem that has a control, where both were run."""
    found = []
    for key in atlas.main():
        control = replace(key, control=True)
        found += [
            ControlPair(method, key, atlas.cells[key, method], atlas.cells[control, method])
            for method in atlas.methods
            if atlas.has(method, [key]) and (control, method) in atlas.cells
        ]
    return found
