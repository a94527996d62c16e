"""The tables of the study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chunked_td._files import write_atomically
from chunked_td.lab.studies.three_scores.methods import LABELS, OTHERS
from chunked_td.lab.studies.three_scores.protocol import families
from chunked_td.lab.studies.three_scores.results import Scored
from chunked_td.lab.study import Verdict

PUBLISHED = "Nothing: a study of ours, on problems of ours. docs/experiments/credit.md holds what was registered."


def PAGE(folder: Path, results: dict[str, Scored] | Verdict) -> Path:
    """Write tables/three-scores.md: means and worst families of all methods and scores; returns its path."""
    path = folder / "tables" / "three-scores.md"
    path.parent.mkdir(exist_ok=True)
    if isinstance(results, Verdict):
        text = f"{results.status}: {results.evidence}"
    else:
        parts = [_table(results, held_out) for held_out in (False, True) if families(held_out)]
        text = "\n\n".join([*parts, _untold(results)])
    write_atomically(path, f"{text}\n".encode())
    return path


def _table(results: dict[str, Scored], held_out: bool) -> str:
    names = [score for score, found in results.items() if found.by_family(next(iter(OTHERS)), held_out)]
    head = ("held-out families" if held_out else "design families", *names)
    best = {score: results[score].best_fixed(held_out) for score in names}
    rows = [("best single fixed λ", *(f"{_cell(results[s], best[s], held_out)}: {LABELS[best[s]]}" for s in names))]
    rows += [(LABELS[method], *(_cell(results[score], method, held_out) for score in names)) for method in OTHERS]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ("---",) * len(head), *rows))


def _cell(found: Scored, method: str, held_out: bool) -> str:
    families_ = found.by_family(method, held_out)
    worst = min(families_, key=lambda name: families_[name])
    return f"{found.mean(method, held_out):.2f}, {families_[worst]:.2f} ({worst})".replace("-0.", "−0.")


def _untold(results: dict[str, Any]) -> str:
    lines = [f"- {score}: {', '.join(found.untold) or 'none'}" for score, found in results.items()]
    return "Problems whose fixed λs are not told apart, left out:\n\n" + "\n".join(lines)
