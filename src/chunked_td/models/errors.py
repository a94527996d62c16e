"""Model errors: count models that observe another next state than the sampled one.

A model error changes the transitions of every count model of a learner: those of the λ source and of the planner
observe the same wrong transitions. Rewards, terminations and TD targets stay true. λ is the wrong model's probability
of the sampled next state. A seed determines each error; the random numbers of the run do not change.
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
    """Base class of model errors: settings with a kernel `misread(error, step)`.

    The kernel is called once per transition. It returns the next state that the model observes, or −1 if the model does
    not observe the transition. `error.seen[0]` has the result until the next transition.

    Attributes:
      needs_states: whether the number of states must be known in advance.
    """

    needs_states: ClassVar[bool] = True

    def make_arrays(self, states: int, n_actions: int) -> Mapping[str, np.ndarray]:
        """Further arrays of the error, from its settings."""
        return {}

    def compiled(self, sizes: Mapping[str, int]) -> Any:
        """Form for kernels: a NamedTuple of the settings and of the arrays."""
        kept = {name: new_array(layout, sizes) for name, layout in self.arrays.items()}
        fixed = self.make_arrays(sizes["S"], sizes["A"])
        return form_of(self, {**fixed, **kept, "seen": np.zeros(1, np.int64)})

    @kernel
    def seen_state(error, step):
        """The next state that the models observed, or −1."""
        return error.seen[0]
