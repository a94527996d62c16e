"""Write `expected.json` anew: `python -m tests.golden.record [part of a name …]`.

The record is what the code computed at the time; it is made again only where a decision changes a number.
"""

from __future__ import annotations

import json
import logging
import sys
import time

from .cases import CASES
from .check import EXPECTED, digests
from .today import api


def record(parts):
    """Record the cases whose name contains one of these parts; all by default."""
    found = json.loads(EXPECTED.read_text(encoding="utf-8")) if parts and EXPECTED.exists() else {}
    for name, case in CASES.items():
        if not parts or any(part in name for part in parts):
            begin = time.process_time()
            try:
                found[name] = digests(case(api))
            except Exception as problem:
                print(f"!! {name}: {problem!r}", flush=True)
            print(f"{time.process_time() - begin:6.2f} s {name}", flush=True)
    lines = (f"{json.dumps(name)}: {json.dumps(found[name])}" for name in CASES if name in found)
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    logging.disable()
    record(sys.argv[1:])
