"""The two signs of Accumulated-Charge: the stand-in's λ, and what the mirror image changes."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from chunked_td.envs.dynamics import AccumulatedCharge
from chunked_td.simulation import simulate
from studies.accumulated_charge.tilted import TiltedLambda

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


def test_the_tilted_lambda_is_its_formula():
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

    def probed(**settings):
        return simulate(AccumulatedCharge.make(horizon=20, points=4, **settings), **common).probes_at[:, -1]

    plain, mirrored = probed(mirrored=False), probed(mirrored=True)
    gap = plain[:, 0] - plain[:, 1], mirrored[:, 0] - mirrored[:, 1]
    assert not np.allclose(gap[0], gap[1])
    free = probed(bonus=0.0)
    np.testing.assert_allclose((gap[0] - gap[1]) / 2, free[:, 0] - free[:, 1])
