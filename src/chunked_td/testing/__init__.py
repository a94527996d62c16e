"""Check anyone's advantage function: which semantics it has, with the smallest example of each mistake.

    from chunked_td.testing import check_gae

    report = check_gae(my_gae)        # my_gae(rewards, values, next_values, terminated, truncated, discount, lambda_)
    print(report)                     # a table: passed, failed, not expressible; then an example of each failure
    report.raise_for_failures()       # in a test suite

`check_gae` is for rollouts, `check_token_gae` for batches of tokens with a mask, and `check_relations` for a whole
training step, whose right result is unknown: it changes what must not matter. Functions may take NumPy, JAX or Torch
arrays; `array=` makes one from NumPy's. If a function has no argument for something, its adapter raises `NotSupported`,
and the case counts as not expressible.
"""

from chunked_td.testing.checks import check_gae, check_relations, check_token_gae
from chunked_td.testing.report import CheckReport, Example, NotSupported

__all__ = ["CheckReport", "Example", "NotSupported", "check_gae", "check_relations", "check_token_gae"]
