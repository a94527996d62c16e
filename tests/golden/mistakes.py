"""Planted mistakes: `cd tests; python -m golden.mistakes [name …]`.

Each is made in a copy of the package. The golden cases beside it must then fail, and pass in a copy without a mistake.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import chunked_td

PACKAGE = Path(chunked_td.__file__).parent
CHILD = """
import logging, sys
from golden.cases import CASES
from golden.check import differences
from golden.today import api
logging.disable()
found = [text for name in sys.argv[1:] for text in differences(name, CASES[name](api))]
print("\\n".join(found[:3]))
sys.exit(3 if found else 0)
"""


class Mistake(NamedTuple):
    """A text in a file of the package, what stands there instead, and the cases that see it."""

    file: str
    old: str
    new: str
    cases: tuple[str, ...]


CHAIN, CHARGE = "study/chain-and-split/chunked", "study/accumulated-charge/sarsa-0.9"
TABLE, DOOR = "study/linear-key-to-door/chunked", "study/key-to-door/c-factored-oracle"
MISTAKES = {
    "charging steps from another stream": Mistake(
        "simulation/run.py",
        "return Scene(m, self.env, self.draws[0].stream,",
        "return Scene(m, self.env, self.draws[2].stream,",
        (CHARGE,),
    ),
    "SARSA chooses late": Mistake(
        "learners/state.py",
        "late = bootstrap in (EXPECTED_SARSA, Q_LEARNING) and view",
        "late = bootstrap != STATE and view",
        ("part/view/lineage/constant/sarsa", "part/source/constant/sarsa"),
    ),
    "a trace one step off": Mistake(
        "traces.py",
        "decay(trace, rule.discount, memory.lambda_t, rule.cutoff)\n        mark(trace, row, rule.replacing)\n",
        "mark(trace, row, rule.replacing)\n        decay(trace, rule.discount, memory.lambda_t, rule.cutoff)\n",
        ("agent/SarsaLambda",),
    ),
    "λ of another component": Mistake(
        "learners/core.py",
        "lambda_t(m.source, step, i)",
        "lambda_t(m.source, step, (i + 1) % out.size)",
        (DOOR,),
    ),
    "a λ one step off at the end of an episode": Mistake(
        "traces.py",
        "u = delta[t, 0] + weight * u\n            weight = discount * lambda_[t, 0]",
        "weight = discount * lambda_[t, 0]\n            u = delta[t, 0] + weight * u",
        (TABLE,),
    ),
    "a transition counted twice in the total": Mistake(
        "models/counts.py",
        "    counts.pairs[pair, NUMBER] += 1\n    counts.total[origin] += 1\n    return pair",
        "    counts.pairs[pair, NUMBER] += 1\n    counts.total[origin] += 2\n    return pair",
        (CHAIN,),
    ),
    "truncation taken for termination": Mistake(
        "learners/core.py",
        "write_td_error(m, step, row, here.ended == TERMINATED)",
        "write_td_error(m, step, row, here.ended != ONGOING)",
        ("part/source/constant/sarsa",),
    ),
    "ties go to the last": Mistake(
        "policies.py",
        "(ties == 0 or out[a] > best):\n                best = out[a]\n                ties = 1\n            elif",
        "(ties == 0 or out[a] >= best):\n                best = out[a]\n                ties = 1\n            elif",
        (CHARGE, "part/source/constant/sarsa"),
    ),
    "actions never tried taken for impossible": Mistake(
        "lambdas/step.py",
        "return min(total / known, 1.0) if known > 0.0 else 0.0  # policies",
        "return min(total, 1.0) if known > 0.0 else 0.0  # policies",
        ("agent/ChunkedExpectedSarsa",),
    ),
    "a number drawn where there is no choice": Mistake(
        "policies.py",
        "    if choices <= 1:\n        return last\n",
        "",
        ("study/memory/passive/chunked-bonus",),
    ),
    "an arrival too few in lineage": Mistake(
        "learners/lineage.py",
        "number, latest = trace.arrivals[state, 0] + trace.prior,",
        "number, latest = trace.arrivals[state, 0] - 1 + trace.prior,",
        ("study/credit/lineage-prior/greedy",),
    ),
    "planning with rewards of ends": Mistake(
        "learners/planning/dyna.py",
        "going_on = number - world.ends[pair]",
        "going_on = number",
        ("agent/DynaQ",),
    ),
    "Retrace cuts one step late": Mistake(
        "learners/logged.py",
        "chance(agent, episode, t + 1))",
        "chance(agent, episode, t))",
        ("agent/logged/uniform",),
    ),
    "λs in lockstep one step off": Mistake(
        "simulation/lockstep.py",
        "turn.answers[t], column",
        "turn.answers[max(t - 1, 0)], column",
        ("network/charge",),
    ),
}


def fails(mistake, folder):
    """Whether the cases of a mistake fail in a copy of the package that has it; None has none."""
    copy = Path(folder) / "src" / "chunked_td"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if mistake.old != mistake.new:
        path = copy / mistake.file
        text = path.read_text(encoding="utf-8")
        assert text.count(mistake.old) == 1, f"{mistake.file}: {mistake.old!r} is there {text.count(mistake.old)} times"
        path.write_text(text.replace(mistake.old, mistake.new), encoding="utf-8")
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(copy.parent), str(root), str(root / "tests")])
    child = subprocess.run(
        [sys.executable, "-c", CHILD, *mistake.cases],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode in (0, 3), child.stderr
    return child.returncode == 3


def main(names):
    unseen = []
    for name, mistake in MISTAKES.items():
        if not names or name in names:
            with tempfile.TemporaryDirectory() as folder:
                seen = fails(mistake, folder)
            print(f"{'seen' if seen else 'NOT SEEN'}: {name}", flush=True)
            unseen += [] if seen else [name]
    with tempfile.TemporaryDirectory() as folder:
        assert not fails(MISTAKES["a trace one step off"]._replace(old="", new=""), folder)
    sys.exit(1 if unseen else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
