"""Every figure for print that the stored runs allow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chunked_td.lab.report.choice import Drawing, choice_of, control_of, original_of
from chunked_td.lab.report.networks import network_drawings
from chunked_td.lab.report.style import house_style, save
from chunked_td.lab.report.table_figures import table_drawings
from chunked_td.lab.results.runs import Results

if TYPE_CHECKING:
    from chunked_td.lab.study import Study


def all_figures(studies: Mapping[str, Results], experiments: Mapping[str, Study]) -> list[Drawing]:
    """Every figure that the stored runs allow, as the experiments choose them."""
    found: list[Drawing] = []
    with house_style():
        for name, study in studies.items():
            if original_of(name, studies, experiments) is None:
                found += choice_of(name, experiments).drawings(study, control_of(name, studies, experiments))
            found += table_drawings(study) + network_drawings(study)
    return found


def save_all(studies: Mapping[str, Results], experiments: Mapping[str, Study], folder: Path) -> list[Drawing]:
    """Draw and write every figure; returns what was drawn."""
    drawings = all_figures(studies, experiments)
    for drawing in drawings:
        save(drawing.figure, folder, drawing.name)
    return drawings
