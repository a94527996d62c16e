"""The two signs of Accumulated-Charge: the stand-in's λ, the runner and the criteria."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from chunked_td.envs.dynamics import AccumulatedCharge
from chunked_td.lab.studies.charge_signs import claims
from chunked_td.lab.studies.charge_signs.protocol import BEST, PROTOCOL, WORST, simulate_sign
from chunked_td.lab.studies.charge_signs.tilted import TiltedLambda
from chunked_td.lab.study import FAILS, HOLDS, NOT_SHOWN

TIMES = CHARGES = 21


def lambdas(source, walks):
    """λ of every step of walks through (charge, time), with the numbers that the source has learned before each."""
    form = source.compiled({"S": 2 * CHARGES * TIMES, "A": 2, "d": 1, "rows": 4 * CHARGES * TIMES})
    tables, found = SimpleNamespace(nvec=np.array([2, CHARGES, TIMES])), []
    for walk in walks:
        places = [charge * TIMES + t for t, charge in enumerate(walk)]
        for s, after in pairwise(places):
            step = SimpleNamespace(state=s, next_state=after, tables=tables)
            found.append(float(TiltedLambda.lambda_t(form, step, 0)))
            TiltedLambda.after_step(form, step, np.zeros(1), np.zeros(1), 0)
    return found


def test_the_tilted_lambda_is_its_formula(monkeypatch):
    for name in ("lambda_t", "after_step"):  # as plain Python
        kernel = getattr(TiltedLambda, name)
        monkeypatch.setattr(TiltedLambda, name, staticmethod(getattr(kernel, "py_func", kernel)))
    low, high = [0, 0, 2, 2], [0, 0, 6, 6]  # a charging step at time 1, then a quiet one
    assert lambdas(TiltedLambda(0.9, 0.5, 0.1), [low, high, low]) == [0.5, 0.1, 0.9, 0.5, 0.1, 0.9, 0.5, 0.1, 0.5]
    squared = lambdas(TiltedLambda(0.9, 0.5, 0.1, expected=True), [low, high])
    np.testing.assert_allclose(squared, [0.25, 0.1, 0.81, 0.25, 0.1, 0.81])
    assert lambdas(TiltedLambda(0.9, 0.5, 0.1, trial=2), [low] * 3) == [1.0] * 6 + [0.5, 0.1, 0.5]


@pytest.mark.parametrize(("name", "value"), [("high", 1.2), ("low", -0.1), ("noisy", 2), ("trial", -1)])
def test_wrong_settings_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        TiltedLambda(**{name: value})


def test_both_signs_have_the_same_random_numbers_and_turn_the_charge_round():
    """While actions are drawn uniformly the values are linear in the rewards: the bonus stays, the charge turns."""
    common = {"learner": "sarsa", "lambda_source": 1.0, "step_sizes": 0.05, "seeds": [0, 1], "epsilon": 1.0}
    common |= {"episodes": 30, "probes": [(0, 0), (0, 1)], "threads": 1}
    dynamics = AccumulatedCharge.make(horizon=20, points=4)
    plain, mirrored = (simulate_sign(dynamics, mirrored=turned, **common).probes_at[:, -1] for turned in (False, True))
    gap = plain[:, 0] - plain[:, 1], mirrored[:, 0] - mirrored[:, 1]
    assert not np.allclose(gap[0], gap[1])
    free = simulate_sign(dynamics._replace(bonus=0.0), **common).probes_at[:, -1]
    np.testing.assert_allclose((gap[0] - gap[1]) / 2, free[:, 0] - free[:, 1])


def test_every_method_runs_on_both_signs_with_the_same_step_sizes():
    names = [arm.id for arm in PROTOCOL.arms]
    assert all((name + "-mirrored" in names) != name.endswith("-mirrored") for name in names)
    assert {arm.exponents for arm in PROTOCOL.arms} == {None}
    assert PROTOCOL.seeds >= 30
    assert (BEST, WORST) == (550.0, 1450.0)


def study(**scores):
    """A study with these scores [step sizes, seeds] by arm."""

    def runs(arm):
        found = np.array(scores[arm.replace("-", "_")], float)
        seeds = np.arange(found.shape[1])
        part = SimpleNamespace(seeds=seeds, exponents=np.array([-1, -4])[: len(found)], at=lambda: found)
        part.only = lambda _: part
        return part

    return SimpleNamespace(id="charge-signs", runs=runs, about=SimpleNamespace(step_size_base=0.1))


@pytest.mark.parametrize(("gap", "status"), [(0.0, HOLDS), (250.0, HOLDS), (302.0, NOT_SHOWN), (800.0, FAILS)])
def test_the_difference_is_judged_at_the_step_size_that_is_best_for_both(gap, status):
    noise = np.resize([-30.0, 30.0], 40)
    plain = np.stack([np.full(40, 550.0), np.full(40, 900.0)])
    mirrored = np.stack([np.full(40, 1450.0), 900.0 - abs(gap) + noise])
    found = claims.difference(study(tdc=plain, tdc_mirrored=mirrored), "tdc", -claims.MARGIN, claims.MARGIN)
    assert found.status == status, found
    assert "0.1 × 2⁻⁴" in found.evidence


def test_a_large_difference_and_what_the_cure_is_worth():
    ones = np.ones((1, 40))
    tilted = {"tilted": 550 * ones, "tilted_mirrored": 1440 * ones}
    assert claims.difference(study(**tilted), "tilted", claims.LARGE, np.inf).status == HOLDS
    assert claims.difference(study(tilted=ones, tilted_mirrored=ones), "tilted", claims.LARGE, np.inf).status == FAILS
    noise = np.random.default_rng(0).normal(0, 20, (4, 1, 40))
    for fixed, status in ((1000, HOLDS), (800, FAILS)):
        means = {"five": 900, "five_mirrored": 900, "fixed": fixed, "fixed_mirrored": fixed}
        scores = {name: mean + part for (name, mean), part in zip(means.items(), noise, strict=True)}
        assert claims.still_better(study(**scores), {}).status == status
