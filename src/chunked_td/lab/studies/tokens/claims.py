"""Claims about λ per token; their rule is in the package's docstring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunked_td.lab.studies.tokens.protocol import SOURCES
from chunked_td.lab.studies.tokens.results import Gate
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_SHOWN, Claim, Verdict


def _numbers(gate: Gate, arm: str) -> str:
    texts = []
    for task in gate.scores:
        gain, order = gate.gain(task, arm), gate.order(task, arm)
        rivals = {"minus the best fixed λ": gain, "minus its own λs permuted": order}
        parts = (f"{name} {e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]" for name, e in rivals.items())
        texts.append(f"{task}: {gate.judge(task, arm)} ({', '.join(parts)})")
    return "; ".join(texts).replace("-0", "−0")


def _passed(gate: Gate, _: Mapping[str, Any]) -> Verdict:
    tasks = [task for task in gate.scores if gate.judge(task, "expected") == HOLDS]
    return Verdict(HOLDS if tasks else FAILS, _numbers(gate, "expected"))


def _everywhere(arm: str) -> Any:
    def judge(gate: Gate, _: Mapping[str, Any]) -> Verdict:
        found = [gate.judge(task, arm) for task in gate.scores]
        widest = max((gate.gain(task, arm).high - gate.gain(task, arm).low) / 2 for task in gate.scores)
        if all(status == HOLDS for status in found):
            return Verdict(HOLDS, _numbers(gate, arm))
        if HOLDS in found or FAILS in found:
            return Verdict(IN_PART if HOLDS in found else FAILS, _numbers(gate, arm))
        return Verdict(NOT_SHOWN, _numbers(gate, arm), f"a difference above {widest:.2f}")

    return judge


CLAIMS = (
    Claim(
        "tokens-gate",
        "ours, after §6",
        "The gate: on some task, advantages with λ = Σπ² agree better with the truth than with the best fixed λ.",
        "On one task its correlation with the true advantages lies above that of the best fixed λ (chosen on other "
        "seeds) and above that of its own λs permuted within the sequence: 95 % intervals of paired differences "
        "exclude 0.",
        (),
        _passed,
        "Σπ² passes the gate on some task",
        figure="figures/gate.svg",
    ),
    *(
        Claim(
            f"tokens-{arm}",
            "ours, after §6",
            f"{label} as λ per token gives better advantages than the best fixed λ.",
            "As for the gate, on every task. In part: on some.",
            (),
            _everywhere(arm),
            f"{label} beats the best fixed λ",
            figure="figures/gate.svg",
        )
        for arm, label in SOURCES.items()
    ),
)
