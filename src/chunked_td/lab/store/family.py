"""The family of an arm: everything that determines one of its runs, apart from seed, step size, length, checkpoints."""

from __future__ import annotations

import json
from typing import Any

from chunked_td.lab.identity import identity, schedule_text
from chunked_td.lab.study import Arm, Protocol

# Raise this when a change to the algorithms, the environments or the random streams changes results:
# stored batches of the old version are then no longer used.
ALGORITHM_VERSION = 1


def family_of(protocol: Protocol, arm: Arm) -> dict[str, Any]:
    """The family of an arm as plain JSON values. Code is named as `chunked_td.lab.identity` says."""
    options = {name: identity(value) for name, value in arm.options.items()}
    return {
        "version": ALGORITHM_VERSION,
        "protocol": protocol.id,
        "arm": arm.id,
        "environment": identity(protocol.environment.dynamics),
        "arguments": json.loads(json.dumps(dict(protocol.environment.arguments), sort_keys=True)),
        "learner": arm.learner,
        "lambda_source": identity(arm.lambda_source),
        "model": arm.stored_model,
        "step_size_base": protocol.step_size_base,
        "discount": protocol.discount,
        "exploration": schedule_text(protocol.schedule),
        "probes": [list(probe) for probe in protocol.probes],
        "scoring": identity(protocol.scoring),
        "runner": identity(protocol.runner),
        **({"options": options} if options else {}),
        **({"step_sizes": list(protocol.step_sizes)} if protocol.step_sizes else {}),
    }
