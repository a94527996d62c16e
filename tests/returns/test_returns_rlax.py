"""rlax's own tests run on our functions, which stand in its modules' places as they are."""

from __future__ import annotations

import inspect
import unittest
import warnings

import pytest

import chunked_td.returns as returns

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # rlax's own dependencies use what JAX has deprecated
    import rlax
    from rlax._src import multistep_test, value_learning_test, vtrace_test

pytestmark = pytest.mark.filterwarnings("ignore")

multistep_test.multistep = vtrace_test.vtrace = value_learning_test.value_learning = returns
OURS = ("TDLambdaTest", "RetraceTest", "RetraceContinuousTest")

CASES = {
    name: case
    for module in (multistep_test, vtrace_test, value_learning_test)
    for name, case in vars(module).items()
    if inspect.isclass(case) and issubclass(case, unittest.TestCase)
    if module is not value_learning_test or name in OURS
}
for case in CASES.values():
    for name in [name for name in vars(case) if "pmap" in name]:  # rlax skips these on one device
        delattr(case, name)
globals().update(CASES)

SHARED = sorted(set(returns.__all__) & set(vars(rlax)) - {"VTraceOutput"})


@pytest.mark.parametrize("name", SHARED)
def test_names_order_and_defaults_are_rlax_s(name):
    theirs = inspect.signature(getattr(rlax, name)).parameters
    ours = inspect.signature(getattr(returns, name)).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    for key, parameter in theirs.items():
        assert ours[key].kind is parameter.kind
        if parameter.default is not inspect.Parameter.empty:
            assert ours[key].default == parameter.default


def test_old_names_are_taken_with_a_warning():
    with pytest.warns(DeprecationWarning, match=r"lambda_t: the argument is called lambda_ now"):
        old = returns.lambda_returns([1.0, 2.0], 0.9, [0.0, 1.0], lambda_t=0.5)
    assert old.tolist() == returns.lambda_returns([1.0, 2.0], 0.9, [0.0, 1.0], 0.5).tolist()
