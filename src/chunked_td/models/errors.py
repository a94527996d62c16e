"""Models that are wrong on purpose: what a count model is shown instead of the next state that came.

A model error stands between the world and every count model of a learner: that of the λ source and that of the planner
see the same wrong transitions. Rewards, ends and the TD targets stay true. λ is the wrong model's probability
of what really came. Each error is fixed by its seed; random numbers of the run are not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunked_td._link import kernel
from chunked_td._settings import KernelSettings, form_of, new_array


@dataclass(frozen=True)
class ModelError(KernelSettings):
    """Base of the model errors: settings with a kernel `misread(error, step)`.

    The kernel is called once per transition and returns the next state that the model sees, or −1 if it does not look.
    `error.seen[0]` holds the answer until the next transition.

    Attributes:
      needs_states: whether the number of states has to be known beforehand.
    """

    needs_states: ClassVar[bool] = True

    def make_arrays(self, states: int, n_actions: int) -> Mapping[str, np.ndarray]:
        """What the error reads, as its settings say it."""
        return {}

    def compiled(self, sizes: Mapping[str, int]) -> Any:
        """What kernels see: a NamedTuple of the settings and of the arrays."""
        kept = {name: new_array(layout, sizes) for name, layout in self.arrays.items()}
        fixed = self.make_arrays(sizes["S"], sizes["A"])
        return form_of(self, {**fixed, **kept, "seen": np.zeros(1, np.int64)})

    @kernel
    def seen_state(error, step):
        """The next state as the models saw it, or −1."""
        return error.seen[0]
