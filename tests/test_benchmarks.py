"""The benchmarks' rivals compute what we compute. No test here looks at a time."""

from __future__ import annotations

import numpy as np
import pytest

import chunked_td as ctd
from benchmarks import __main__ as bench
from benchmarks import agent_step, c_rivals, decisions, fused, sweep
from benchmarks import backward_pass as backward_benchmark
from benchmarks.python_rivals import DictSarsa, dense_sarsa
from chunked_td.seeding import Stream
from chunked_td.traces import backward_pass

needs_c = pytest.mark.skipif(c_rivals.library() is None, reason=c_rivals.NOTICE)


@needs_c
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("accumulated_charge", {"horizon": 12, "points": 3}),
        ("chain_and_split", {"horizon": 5, "width": 4}),
        ("key_to_door", {"horizon": 6}),
    ],
)
def test_runs_in_c_give_the_same_values_to_the_last_bit(kind, sizes):
    run = fused.make_run(kind, 200, seed=3, **sizes)
    rival = c_rivals.Rival(run, kind, 200)
    run.play_to(200)
    assert rival.play() == run.totals.misses[0]
    np.testing.assert_array_equal(rival.values, run.values)
    assert np.count_nonzero(rival.values) > 5


@needs_c
@pytest.mark.parametrize("components", [1, 3])
def test_the_backward_pass_in_c_gives_the_same_values_to_the_last_bit(components):
    ours, theirs = (backward_benchmark.episode(components, 40, rows=60) for _ in range(2))
    backward_pass(*ours, 40, 0.9, 0.1)
    c_rivals.call("backward_pass", *theirs, 40, components, 0.9, 0.1)
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert np.count_nonzero(ours[0]) == 40 * components


def test_dense_traces_give_the_same_values_up_to_rounding():
    sizes = {"horizon": 12, "points": 3}
    run = fused.make_run("accumulated_charge", 100, seed=1, **sizes)
    copies = [Stream(draws.stream.words.copy()) for draws in run.draws[:2]]
    run.play_to(100)
    values, steps = dense_sarsa(run.env, *copies, 100, 0.1, 0.9, 1.0, 0.1)
    assert steps == run.totals.steps[0] == 1_200
    np.testing.assert_allclose(values.ravel(), run.values[:, 0], rtol=1e-12, atol=1e-14)
    assert np.count_nonzero(values) > 20


@pytest.mark.parametrize("lambda_", [0.0, 0.9])
def test_sarsa_with_dictionaries_gives_the_same_values_up_to_rounding(lambda_):
    states, rng = agent_step.lake_walk(300), np.random.default_rng(0)
    settings = {"step_size": 0.1, "discount": 0.99, "epsilon": 0.1, "lambda_": lambda_}
    ours = ctd.SarsaLambda(agent_step.spaces(agent_step.SIDE**2), **settings)
    rival = DictSarsa(4, **settings)
    rival.start(states[0])
    rival.action = ours.start(states[0])
    for state in states[1:]:
        reward = rng.normal()
        rival.step(reward, state, False, action=ours.step(reward, state, False))
    visited = sorted(set(states))
    expected = [[rival.q[state, action] for action in range(4)] for state in visited]
    np.testing.assert_allclose([ours.q_values(state) for state in visited], expected, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(expected) > 50


def test_an_unknown_benchmark_is_refused(capsys):
    assert bench.main(["fuzed", "--quick"]) == 2
    message = capsys.readouterr().err
    assert all(name in message for name in ("fuzed", *bench.NAMES))


def test_the_sweep_makes_the_runs_of_the_loop():
    assert sweep.swept(100, 1) == sweep.loop(100, 1) == 6


@needs_c
def test_ratios_are_printed_and_written_down(capsys, tmp_path):
    assert bench.run(("backward_pass",), True, tmp_path) == 0
    assert "backward pass, 8 component(s)" in capsys.readouterr().out
    assert '"benchmark": "backward_pass"' in (tmp_path / "bench.json").read_text()


def test_decisions_of_compare_are_scored_against_the_truth_of_all_seeds():
    """A block of seeds that says the opposite of all others makes a wrong decision; one like the others does not."""
    rng = np.random.default_rng(0)
    settings = decisions.Settings("x", seeds=40, episodes=1, extend=0)

    def outcome(rule: str, first: float, later: float) -> decisions.Outcome:
        scores = np.append(np.full(40, first), np.full(400, later)) + 0.01 * rng.normal(size=440)
        returns = scores[None, :, None]
        arm = decisions.Candidate("expected_sarsa", rule)
        return decisions.Outcome(
            arm, np.array([0.2]), np.array([1]), returns, np.zeros_like(returns), np.zeros((1, 440), bool)
        )

    arms, random = [outcome("0", 2.0, 1.0), outcome("forward", 1.0, 2.0)], outcome("random", 0.0, 0.0)
    misled, right = (decisions.decide(arms, random, settings, first) for first in (0, 40))
    assert (misled.spoke, misled.learned, misled.wrong) == (True, False, True)
    assert misled.loss == pytest.approx(misled.naive) == pytest.approx(0.47, abs=0.1)
    assert (right.spoke, right.learned, right.wrong, right.claimed) == (True, True, False, False)
    assert right.loss == pytest.approx(0.0)


def test_families_of_equal_learners_and_thirty_problems():
    error, power = decisions.family_rates(decisions.unequal, 3)
    assert error == 0.0
    assert power == 1.0
    made = list(decisions.problems())
    assert len({name for name, _ in made}) == 30
    assert {table.n_actions for _, table in made} == {2, 3, 4}
