"""`compare`: fair selection, families of intervals, like with like, an independent sweep, the page and files."""

from __future__ import annotations

import contextlib
import html
import itertools
import math
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import polars as pl
import pytest
import tyro

import chunked_td as ctd
from chunked_td.cli._shared import keywords_of, schedule_of
from chunked_td.cli.compare import Compare, print_ranking, write_comparison
from chunked_td.cli.train import Train, learner_settings
from chunked_td.indexing import make_indexer
from chunked_td.lab.comparison import Comparison, ComparisonSettings, compare
from chunked_td.lab.comparison.answer import (
    NOT_LEARNED,
    answer,
    best_of,
    bootstrap_texts,
    direct_texts,
    groups_text,
    headline,
    headline_text,
    named,
    points,
    recommended,
    verdict,
)
from chunked_td.lab.comparison.arms import (
    BOOTSTRAPS,
    SOURCES,
    arms_of,
    learner_for,
    make_arm,
    protocol_of,
    source_label,
)
from chunked_td.lab.comparison.facts import Facts, _chance, _played, _same, _Step, facts_of
from chunked_td.lab.comparison.page import (
    TOP,
    curves_plot,
    ranked_rows,
    ranking_plot,
    ranking_table,
    render_page,
    step_size_plot,
)
from chunked_td.lab.comparison.ranking import LEAST, PairedFamily, chosen_sizes, own_interval
from chunked_td.lab.comparison.recipe import agent_line, command, script
from chunked_td.lab.comparison.running import ComparisonProblem, _one_run, _Run, play
from chunked_td.lab.comparison.sweep import ArmOutcome, _plain
from chunked_td.lab.errors import DirectoryError
from chunked_td.lab.gym_environments import make_indexer_for
from chunked_td.lab.identity import check_id
from chunked_td.lab.results.runs import RunArrays
from chunked_td.lab.running.plan import SweepOptions, make_plan
from chunked_td.lab.running.reproduce import RunOptions
from chunked_td.lab.study import Arm
from chunked_td.lab.wording import rounded_text
from chunked_td.learners.inputs import learner_by_name
from chunked_td.simulation.simulate import simulate
from helpers import browser
from helpers.compilation import AtOnce, uncompiled

LAKE = ComparisonSettings("FrozenLake-v1", episodes=40, seeds=4, lambdas=(0.0, 0.9), sources=(), step_sizes=(0.1, 0.2))


def quiet(settings: ComparisonSettings, out=None, **more):
    return compare(settings, out, say=lambda text: None, how=RunOptions(quiet=True), **more)


def exploring(arm: Arm, settings: ComparisonSettings) -> Arm:
    """The arm, with the exploration of these settings."""
    return make_arm(arm.learner, arm.group, getattr(arm.lambda_source, "value", 0.0), settings)


def played(settings: ComparisonSettings, arm: Arm, step_size: float, seeds: int):
    """Mean return and mean λ per stretch of some runs of an arm, by the runner of the comparison."""
    made = exploring(arm, settings)
    found = play(
        ComparisonProblem.of(settings), learner=made.learner, lambda_source=made.source(), model=made.model,
        seeds=np.arange(seeds), step_sizes=np.full(seeds, step_size), episodes=settings.episodes, probes=[],
        record_at=settings.marks.tolist(), discount=0.99, **made.options,
    )  # fmt: skip
    return found.returns_at / np.diff(settings.marks, prepend=0), found.lambda_at


# ---- the question of values


@pytest.mark.uncompiled
def test_values_are_judged_by_exact_ones_from_the_same_transitions():
    """The error of a run is found again from FrozenLake's own table and a simulation of its own."""
    settings = replace(LAKE, seeds=6, bootstraps=("expected_sarsa",), step_sizes=(0.2,), extend=0, question="values")
    found = quiet(settings)
    table = gym.make("FrozenLake-v1").unwrapped.P  # type: ignore[attr-defined]
    v = np.zeros(16)
    for _ in range(2_000):
        v = np.array([np.mean([sum(p * (r + 0.99 * v[t] * (not end)) for p, t, r, end in table[s][a])
                               for a in range(4)]) for s in range(16)])  # fmt: skip
    acted = [s for s in range(16) if s not in (5, 7, 11, 12, 15)]
    runs = {}
    for value in (0.0, 0.9):
        runs[value] = simulate(
            ctd.dynamics_of(gym.make("FrozenLake-v1")), learner="expected_sarsa", lambda_source=value, epsilon=1.0,
            discount=0.99, seeds=range(6), step_sizes=[0.2] * 6, episodes=40, record_at=[40], view="traces",
            probes=[(s, a) for s in acted for a in range(4)],
        )  # fmt: skip
    np.testing.assert_array_equal(runs[0.0].returns_at, runs[0.9].returns_at)
    np.testing.assert_array_equal(runs[0.0].steps, runs[0.9].steps)
    for one, value in zip(found.outcomes, (0.0, 0.9), strict=True):
        learned = runs[value].probes_at[:, 0].reshape(6, len(acted), 4).mean(axis=-1)
        errors = np.sqrt(((learned - v[acted]) ** 2).mean(axis=1))
        np.testing.assert_allclose(-one.column("mean_return")[0, :, -1], errors, rtol=1e-9)
    assert found.reference is None
    page = render_page(found)
    assert "chunked-td train" not in page
    assert "negated error of values" in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"env": "CartPole-v1", "bins": (3,)}, "question: exact values are not available here"),
        ({"bootstraps": ("q_learning",)}, "question: values are those of acting at random"),
        ({"epsilon": 0.1}, "no exploration"),
        ({"question": "policies"}, "question must be"),
    ],
)
def test_what_has_no_exact_values_is_refused(change, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        quiet(replace(LAKE, **{"question": "values", **change}), tmp_path / "there")
    assert not (tmp_path / "there").exists()


# ---- statistics


def test_step_sizes_are_chosen_on_the_other_half_of_the_seeds():
    scores = np.array([[9.0, 0.0, 9.0, 0.0], [1.0, 1.0, 1.0, 1.0]])  # the first is better on even seeds
    assert chosen_sizes(scores).tolist() == [1, 0, 1, 0]
    assert chosen_sizes(np.array([[1.0], [2.0]])).tolist() == [1]


def test_choosing_among_step_sizes_flatters_no_arm():
    """Pure noise: the best of many on the same seeds has a mean well above 0, the cross-chosen one has not."""
    rng = np.random.default_rng(1)
    crossed, same = [], []
    for _ in range(400):
        scores = rng.normal(size=(8, 10))
        crossed.append(scores[chosen_sizes(scores), np.arange(10)].mean())
        same.append(scores.mean(axis=1).max())
    assert abs(np.mean(crossed)) < 4 * np.std(crossed) / 20  # error rate 1 in 16,000, with a fixed seed
    assert np.mean(same) > 0.3


@pytest.mark.parametrize("seeds", [6, 10])
def test_equal_arms_show_a_difference_in_one_family_of_twenty(seeds):
    rng, found = np.random.default_rng(seeds), 0
    for _ in range(200):
        scores = rng.normal(size=(8, seeds)) * rng.exponential(size=(8, 1)) + 5 * rng.normal(size=seeds)
        found += not PairedFamily.of(scores).no_difference
    assert found <= 21  # 200 × 5 % and three standard deviations and a half


def test_intervals_are_those_of_the_definition():
    """Two arms: the critical value lies among those of all sign patterns, and the spread is the sample's."""
    rng = np.random.default_rng(4)
    difference = rng.normal(size=10)
    family = PairedFamily.of(np.stack([difference + 1.0, np.zeros(10)]))
    residuals = difference - difference.mean()
    found = []
    for signs in itertools.product((-1.0, 1.0), repeat=10):
        drawn = np.array(signs) * residuals
        found.append(abs(drawn.mean()) / (statistics.stdev(drawn) / 10**0.5))
    low, high = np.quantile(found, [0.94, 0.96])
    assert low < family.critical < high
    half = family.critical * statistics.stdev(difference) / 10**0.5
    assert family.gap(1).high == pytest.approx(min(difference.mean() + 1.0 + half, family.spread))
    assert family.gap(1).low == pytest.approx(difference.mean() + 1.0 - half)


def test_an_arm_with_outliers_hides_no_difference_between_the_others():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 12)) + np.array([[3.0], [0.0], [0.0], [-500.0]])
    scores[3, 5] -= 1e5
    family = PairedFamily.of(scores)
    assert family.best == 0
    assert family.gap(1).shown
    assert family.gap(2).shown
    assert not family.gap(1, 2).shown


def test_too_few_seeds_give_no_verdict_and_no_interval():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, LEAST - 1)) + np.array([[9.0], [0.0], [-9.0]])
    family = PairedFamily.of(scores)
    assert family.no_difference
    assert np.isnan([family.gap(2).low, family.gap(2).high, *own_interval(scores[0], -9.0, 9.0)[1:]]).all()
    assert PairedFamily.of(np.concatenate([scores, scores[:, :1] + 0.1], axis=1)).gap(2).shown


def test_no_interval_has_zero_width_or_is_wider_than_scores_can_differ():
    family = PairedFamily.of(np.array([[1.0] * 6, [0.0] * 6]))  # the same in every run
    gap = family.gap(1)
    assert gap.shown
    assert 0.0 < gap.low < gap.value == gap.high == 1.0
    _, low, high = own_interval(np.ones(6), 0.0, 1.0)
    assert 0.0 < low < 1.0 == high
    rng = np.random.default_rng(0)
    family = PairedFamily.of(rng.uniform(size=(20, 6)))
    spread = np.ptp(family.scores)
    gaps = [family.gap(i, j) for i in range(20) for j in range(i)]
    assert all(-spread <= gap.low < gap.high <= spread for gap in gaps)
    same = PairedFamily.of(np.ones((3, 8)))  # nothing differs anywhere: there is nothing to give an interval of
    assert same.no_difference
    assert np.isnan(same.gap(1).low)


def test_a_bound_on_what_was_not_seen_holds_by_simulation():
    """An outcome of probability p is missed by n runs with probability (1 − p)^n; at the bound, that is the error."""
    rng, p = np.random.default_rng(0), 1.0 - 0.05 ** (1 / 6)
    missed = (rng.uniform(size=(20_000, 6)) > p).all(axis=1).mean()
    assert abs(missed - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 20_000)
    assert own_interval(np.ones(6), 0.0, 1.0).low == pytest.approx(1.0 - p)


# ---- grids and divergence


def outcome(means: dict[float, float], diverged: tuple[float, ...] = ()) -> ArmOutcome:
    scores = np.repeat([[-np.inf if size in diverged else mean] for size, mean in means.items()], 4, axis=1)
    return made_up(make_arm("sarsa", "fixed", 0.5), scores, tuple(means))


def test_a_grid_extends_itself_at_the_edge_that_is_best():
    assert outcome({0.1: 1, 0.2: 2, 0.4: 1}).at_edge == (False, False)
    assert outcome({0.1: 1, 0.2: 2, 0.4: 3}).at_edge == (False, True)
    assert outcome({0.1: 3, 0.2: 2, 0.4: 1}).at_edge == (True, False)
    assert outcome({0.5: 1, 1.0: 3}).at_edge == (False, False)  # no further than 1
    assert outcome({0.1: 2, 0.2: 2, 0.4: 2}).at_edge == (False, False)  # ties are no reason
    assert outcome({0.1: 0, 0.2: 0}, diverged=(0.1, 0.2)).at_edge == (True, False)
    sizes, grid = replace(LAKE, step_sizes=(0.1, 0.2, 0.8), extend=2).ladder
    assert sizes == pytest.approx((0.025, 0.05, 0.1, 0.2, 0.8, 1.0))
    assert [sizes[place] for place in grid] == [0.1, 0.2, 0.8]
    assert replace(LAKE, step_sizes=(0.5,), extend=1).ladder == ((0.25, 0.5, 1.0), (1,))


def test_compare_extends_the_grid_and_warns_where_it_may_not():
    cliff = ComparisonSettings(
        "CliffWalking-v1", episodes=60, seeds=4, lambdas=(0.0, 0.5), sources=(), bootstraps=("expected_sarsa",),
        step_sizes=(0.005, 0.01), max_steps=300,
    )  # fmt: skip
    said: list[str] = []
    found = compare(replace(cliff, extend=2), say=said.append, how=RunOptions(quiet=True))
    assert len(said) == 3
    assert "edge of the grid" in said[1]
    assert all(one.step_sizes[-1] == 0.04 for one in found.outcomes)
    assert any("Warning: the best step size lies at the edge" in text for text in answer(found))


@pytest.mark.parametrize("compiled", [True, False])
def test_arms_that_diverge_are_shown_and_the_others_ranked(compiled):
    cliff = ComparisonSettings(
        "CliffWalking-v1", episodes=40, seeds=2, lambdas=(0.0, 1.0), sources=(), bootstraps=("sarsa",), max_steps=300,
        step_sizes=(0.9,), extend=0, compiled=compiled,
    )  # fmt: skip
    found = quiet(cliff)
    assert [row.arm.lambda_source.value for row in found.rows] == [0.0]
    assert [one.arm.lambda_source.value for one in found.diverged] == [1.0]
    assert any(text.startswith("Not ranked: SARSA, λ = 1 at α = 0.9 (2 of 2 runs)") for text in answer(found))
    assert "SARSA, λ = 1" in render_page(found)


# ---- the answer


def compared(scores: Sequence[tuple[Arm, np.ndarray]], random: float | None = None, **more) -> Comparison:
    """Made-up scores, one checkpoint per run."""
    outcomes = [made_up(arm, row) for arm, row in scores]
    seeds = outcomes[0].scores.size
    lost = None if random is None else made_up(make_arm("sarsa", "random"), random + 0.01 * np.arange(seeds))
    settings = replace(LAKE, episodes=1, step_sizes=(0.1, 0.2, 0.4), seeds=seeds)
    return Comparison(settings, tuple(outcomes), "made up", lost, **more)


def made_up(arm: Arm, scores: np.ndarray, sizes: tuple[float, ...] = (0.2,)) -> ArmOutcome:
    """An arm with these scores, by step size and seed; −∞ where runs diverged."""
    scores = np.atleast_2d(scores)[..., None]
    columns = {
        "score": scores,
        "mean_return": scores,
        "mean_lambda": np.zeros_like(scores),
        "diverged": np.isneginf(scores),
    }
    exponents, seeds = -np.arange(len(sizes)), np.arange(scores.shape[1])
    return ArmOutcome(arm, RunArrays(exponents, np.array(sizes), seeds, np.array([1]), columns))


KINDS = (("fixed", 0.0), ("fixed", 0.9), ("forward", 0.0), ("value", 0.0), ("dyna", 0.0))
ARMS = [make_arm(bootstrap, *kind) for bootstrap in ("sarsa", "expected_sarsa") for kind in KINDS]
LEVELS = {"fixed": 2.0, "forward": 5.0, "value": 1.0, "dyna": 9.0}


def made_up_answer(seeds: int = 20, **more) -> Comparison:
    """forward is the best λ, λ = 0.9 behind it by 1, Dyna ahead of both."""
    rng = np.random.default_rng(3)
    levels = [LEVELS[arm.group] + 2.0 * (arm.group == "fixed" and arm.lambda_source.value > 0) for arm in ARMS]
    scores = [(arm, level + 0.2 * rng.normal(size=seeds)) for arm, level in zip(ARMS, levels, strict=True)]
    return compared(scores, random=0.0, **more)


def test_the_answer_names_the_best_lambda_planning_apart_and_what_is_not_worth_trying():
    found = made_up_answer()
    best, planned = best_of(found), best_of(found, plans=True)
    assert best is not None
    assert planned is not None
    assert (best.arm.group, planned.arm.group) == ("forward", "dyna")
    assert recommended(found) is best
    assert all(word in headline(found)["Use"] for word in (named(best.arm), best.text, "step size 0.2"))
    ahead = found.family.gap(best.place, planned.place).span()
    assert all(word in headline(found)["Planning is better"] for word in (named(planned.arm), ahead))
    worse = headline(found)["How sure"].partition("shown to be worse: ")[2]
    assert ctd.ValueLambda.label in worse
    assert "λ = 0, 0.9" in worse
    assert ctd.ForwardLambda.label not in worse
    assert "Dyna" not in worse
    (direct,) = direct_texts(found)
    fixed = next(r for r in found.rows if r.arm == make_arm(best.arm.learner, "fixed", 0.9))
    assert found.family.gap(fixed.place, best.place).span() in direct
    assert "chance" not in direct
    table = ranking_table(found, [row for row in found.rows if not row.plans], "ranking")
    assert all("Dyna" not in row[0] for row in table.rows)
    assert {row[1] for row in table.rows} == {"use this", "as good", "worse"}


@pytest.mark.parametrize(("lead", "simpler"), [(0.0, True), (5.0, False), (-5.0, False)])
def test_where_no_lambda_is_shown_to_be_better_the_best_fixed_one_is_recommended(lead, simpler):
    rng = np.random.default_rng(0)
    arms = [arm for arm in ARMS if arm.group in ("fixed", "forward")]
    found = compared([(arm, lead * (arm.group == "forward") + rng.normal(size=10)) for arm in arms])
    (direct,) = direct_texts(found)
    assert ("may be chance" in direct) == simpler
    used = recommended(found)
    assert used is not None
    assert (used.arm.group == "fixed") == (lead <= 0.0)
    assert headline(found)["How sure"].startswith("a tie") == simpler


def test_a_fixed_lambda_that_is_shown_to_be_as_good_is_recommended_though_its_mean_is_lower():
    rng = np.random.default_rng(0)
    levels = {"forward": 10.0, "value": 0.0, "dyna": 0.0}
    found = compared([(arm, levels.get(arm.group, 9.97) + 0.1 * rng.normal(size=20)) for arm in ARMS])
    used, best = recommended(found), best_of(found)
    assert used is not None
    assert best is not None
    assert (used.arm.group, best.arm.group) == ("fixed", "forward")
    assert {verdict(found, row) for row in (best, found.rows[-1])} == {"as good", "worse"}


def test_a_learned_lambda_is_recommended_only_where_it_is_shown_to_be_better():
    """Not shown to be worse is not the same as as good: what has the higher mean is unclear, and said to be."""
    rng = np.random.default_rng(0)
    levels = {"forward": (10.0, 0.01), "value": (0.0, 0.01), "dyna": (0.0, 0.01)}
    rows = [(arm, levels.get(arm.group, (9.7, 1.0))) for arm in ARMS]
    found = compared([(arm, mean + spread * rng.permutation(np.linspace(-1, 1, 20))) for arm, (mean, spread) in rows])
    used, best = recommended(found), best_of(found)
    assert used is not None
    assert best is not None
    assert (used.arm.group, best.arm.group) == ("fixed", "forward")
    assert verdict(found, best) == "unclear"
    assert source_label(best.arm) in headline(found)["How sure"].partition("undecided")[2]


FACTS = Facts(
    length=20.0, paid=0.05, last=1.0, chance=0.3, back=0.0, legal=1.5, n_actions=2, hidden=""
)  # fmt: skip


@pytest.mark.parametrize(
    ("levels", "why"), [((1.0, 2.0, 2.0), "late"), ((2.0, 2.0, 1.0), "random"), ((1.0, 3.0, 1.0), "both")]
)
def test_the_reason_names_what_fits_the_fixed_lambda_that_loses(levels, why):
    rng = np.random.default_rng(0)
    arms = [make_arm("sarsa", "fixed", value) for value in (0.0, 0.5, 1.0)]
    scores = [(arm, level + 0.05 * rng.normal(size=20)) for arm, level in zip(arms, levels, strict=True)]
    text = headline(compared(scores, random=0.0, facts=FACTS))["Why"]
    assert (FACTS.late in text) == (why in ("late", "both"))
    assert (FACTS.random in text) == (why in ("random", "both"))
    middle = compared(
        [(arm, row - 9 * (arm.lambda_source.value == 0.5)) for arm, row in scores], random=0.0, facts=FACTS
    )
    assert "0.5" in headline(middle)["How sure"].partition("shown to be worse: ")[2]
    assert (headline(middle)["Why"] == "it has the highest mean.") == (why == "both")
    hidden = replace(FACTS, hidden="the same looks different")
    assert "KeptPercepts" in headline_text(compared(scores, random=0.0, facts=hidden))
    assert any(FACTS.masked in point for point in points(compared(scores, random=0.0, facts=FACTS)))


@pytest.mark.parametrize("lead", [0.0, 9.0])
def test_one_lambda_with_two_bootstraps_has_an_answer(lead):
    rng = np.random.default_rng(0)
    arms = [make_arm(bootstrap, "fixed", 0.9) for bootstrap in ("sarsa", "expected_sarsa")]
    found = compared([(arm, lead * k + rng.normal(size=10)) for k, arm in enumerate(arms)], random=-50.0)
    assert headline(found).get("How sure", "").startswith("a tie") == (lead == 0.0)
    assert all(len(text) > 1 for text in headline(found).values())


def test_where_a_learned_lambda_wins_only_the_worse_end_of_the_fixed_ones_has_a_cause():
    rng = np.random.default_rng(0)
    arms = [make_arm("sarsa", "fixed", 0.0), make_arm("sarsa", "fixed", 1.0), make_arm("sarsa", "forward", 0.0)]
    scores = [(arm, k + 0.05 * rng.normal(size=20)) for k, arm in enumerate(arms)]
    text = headline(compared(scores, random=-1.0, facts=FACTS))["Why"]
    assert FACTS.late in text
    assert FACTS.random not in text


def test_one_fixed_lambda_is_neither_the_lowest_nor_the_highest():
    """Late rewards are a reason against λ = 0, not against the only fixed λ there is, which is 1 here."""
    rng = np.random.default_rng(0)
    arms = (make_arm("sarsa", "fixed", 1.0), 1.0), (make_arm("sarsa", "forward"), 2.0)
    scores = [(arm, level + 0.05 * rng.normal(size=20)) for arm, level in arms]
    text = headline(compared(scores, random=0.0, facts=FACTS))["Why"]
    assert "λ = 1 earns 1" in text
    assert FACTS.late not in text


@pytest.mark.parametrize(("n", "first", "second"), [(40, 20, 20), (4000, 2000, 2000), (5000, 250, 250)])
@pytest.mark.parametrize("level", [1e-3, 1e-6, 1e-8])
def test_a_sign_of_a_hidden_state_is_as_rare_as_it_says(n, first, second, level):
    """All tables with these sums, by their definition: those at most as likely as the level have that much, together.

    With a normal tail of z the share would be up to 55 times the level.
    """
    ways = [math.comb(first, k) * math.comb(n - first, second - k) for k in range(min(first, second) + 1)]
    rare = sum(way for k, way in enumerate(ways) if _chance(n, first, second, k) <= level)
    assert 0.0 < rare / sum(ways) <= level


class Ring(gym.Env):
    """Four cells in a ring, of which action 1 goes on and action 0 stays; an episode has six steps."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cells = [0]
        return 0, {}

    def step(self, action):
        self.cells.append((self.cells[-1] + int(action)) % 4)
        return self.cells[-1], 0.0, len(self.cells) == 7, False, {}


def test_the_facts_know_where_an_episode_comes_back():
    steps = _played(Ring(), make_indexer(Ring.observation_space), masks=False)
    begins = [k for k, step in enumerate(steps) if step.previous < 0]
    assert begins == list(range(0, len(steps), 6))
    for k in begins:
        seen = [steps[k].state, *(step.target for step in steps[k : k + 6])]
        assert [step.back for step in steps[k : k + 6]] == [cell in seen[: j + 1] for j, cell in enumerate(seen[1:])]


@pytest.mark.parametrize("targets", [[1, 1, 2], [3, 3], [1, 2], [5, 1, 5, 2, 5, 1]])
def test_facts_are_about_pairs_of_different_tries(targets):
    """Of all pairs of tries with one action in one state, the share that lead to the same state; times their number."""
    steps = [_Step(0, -1, 0, 0, target, 0.0, False, False, math.nan) for target in targets]
    alike = statistics.mean(a == b for a, b in itertools.combinations(targets, 2))
    assert _same(steps) == pytest.approx(alike * len(targets))


def settled(env: str, **more) -> Facts:
    found = facts_of(ComparisonSettings(env, episodes=1, **more))
    assert found is not None
    return found


def test_facts_are_those_of_the_problem():
    """Slippery ice leads to one of three cells, a third each: two tries differ 2/3 of the time, less at the rim."""
    lake = settled("FrozenLake-v1")
    assert 0.5 < lake.chance < 2 / 3
    assert lake.last == 1.0
    assert np.isnan(lake.legal)
    sure = settled("FrozenLake-v1", env_settings={"is_slippery": False})
    assert sure.chance == 0.0
    taxi = settled("Taxi-v4")
    assert 1.0 < taxi.legal < taxi.n_actions
    assert np.isnan(settled("Taxi-v4", action_mask=False).legal)
    assert (lake.hidden, sure.hidden, taxi.hidden) == ("", "", "")


@pytest.mark.parametrize("hidden", [True, False])
def test_a_state_that_observations_hide_is_noticed(hidden):
    """The T-maze shows its signal at the start only; with hidden=False it shows it everywhere."""
    found = settled("ChunkedTD/TMaze-v0", env_settings={"corridor": 2, "hidden": hidden})
    assert bool(found.hidden) == hidden


def test_where_nothing_is_better_than_acting_at_random_that_is_the_answer():
    rng = np.random.default_rng(0)
    scores = [(arm, rng.normal(size=10)) for arm in ARMS]
    assert NOT_LEARNED in headline_text(compared(scores, random=0.0))
    nothing = compared(scores, random=0.0)
    assert {verdict(nothing, row) for row in nothing.rows} == {""}
    assert "Use" not in headline(compared(scores, random=5.0))
    assert "Use" in headline(compared(scores))
    assert "KeptPercepts" in headline_text(compared(scores, random=5.0, facts=replace(FACTS, hidden="so it is")))
    same = compared([(arm, np.ones(10)) for arm in ARMS])
    assert "same return, 1.000" in headline(same)["No answer"]
    assert direct_texts(same) == []


def test_acting_at_random_far_away_changes_neither_the_picture_nor_what_is_as_good():
    rng = np.random.default_rng(0)
    scores = [(arm, k + 0.1 * rng.normal(size=10)) for k, arm in enumerate(ARMS)]
    near, far = (compared(scores, random=where) for where in (-1.0, -1e3))
    assert far.family.close == near.family.close
    shown = [ranking_plot(found) for found in (near, far)]
    ends = [plot.layout["xaxis"]["range"] for plot in shown]
    used = recommended(near)
    assert used is not None
    assert ends[0][0] < -0.9 - used.score.value < ends[1][0]
    assert [len(plot.layout["shapes"]) for plot in shown] == [2, 1]
    assert "−1,010" in shown[1].caption


def test_the_picture_shows_the_intervals_that_verdicts_are_made_by():
    found = made_up_answer()
    rows, used = ranked_rows(found), recommended(found)
    lines = [trace for trace in ranking_plot(found).data if trace["mode"] == "lines"][::-1]
    assert rows[0] is used
    assert lines[0]["x"] == []
    for row, line in zip(rows[1:], lines[1:], strict=True):
        low, high = line["x"]
        assert verdict(found, row) == ("better" if low > 0 else "worse" if high < 0 else verdict(found, row))
        assert (low <= 0 <= high) == (verdict(found, row) in ("as good", "unclear"))
    assert [row.plans for row in rows[1:]] == sorted(row.plans for row in rows[1:])


def test_runs_that_fall_into_two_groups_are_said():
    split, noise = np.where(np.arange(10) < 3, 0.0, 1.0), 0.001 * np.arange(10)
    two, one, same = (
        compared([(arm, k * lift + shape + noise) for k, arm in enumerate(ARMS[:2])])
        for shape, lift in ((split, 1), (0.0, 1), (split, 0))
    )
    assert "3 of 10 near 1.0, 7 near 2.0" in groups_text(two)[0]
    assert groups_text(one) == []
    assert groups_text(same) == ["Every λ gave the very same returns."]


def test_too_few_seeds_are_said_and_give_no_interval_anywhere():
    found = made_up_answer(seeds=LEAST - 1)
    assert headline(found)["No verdict"].startswith(f"{LEAST - 1} seeds are too few")
    text = render_page(found)
    assert "inf" not in " ".join(cell for row in ranking_table(found, found.rows, "ranking").rows for cell in row)
    assert "nan" not in text.partition("<script>")[0].lower()
    assert all(row[1] == "" and "to" not in row[3] for row in ranking_table(found, found.rows, "rest").rows)


def test_seeds_are_added_until_the_answer_is_clear():
    """Looks share the error; nothing is added where the first look is clear, nor where the time is used."""
    cliff = ComparisonSettings(
        "CliffWalking-v1", episodes=30, lambdas=(0.0, 0.5), sources=(), bootstraps=("sarsa",), max_steps=200,
        step_sizes=(0.2,), extend=0,
    )  # fmt: skip
    said: list[str] = []
    found = compare(cliff, say=said.append, how=RunOptions(quiet=True), minutes=60.0)
    assert found.seeds in (10, 20, 40)
    assert found.looks == 3
    assert found.family.error == pytest.approx(0.05 / 3)
    assert found.family.clear or found.seeds == 40
    assert len(said) == 1 + (10, 20, 40).index(found.seeds)
    assert quiet(cliff, minutes=1e-9).seeds == 10


@pytest.mark.parametrize("slow", [True, False])
def test_a_comparison_that_takes_longer_than_its_minutes_says_so_before_it_begins(slow):
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 2:
            raise KeyboardInterrupt  # nothing has to be run

    with pytest.raises(KeyboardInterrupt) if slow else contextlib.nullcontext():
        settings = replace(LAKE, episodes=2, seeds=None, extend=0, compiled=not slow)
        compare(settings, say=say, how=RunOptions(quiet=True), minutes=1e-9)
    assert ["--episodes" in text for text in said] == ([False, True] if slow else [False])


# ---- arms by name, and how to train them


def test_rivals_are_compared_where_they_are_named():
    assert Compare("FrozenLake-v1").settings().sources == ComparisonSettings("FrozenLake-v1", 1).sources
    by_default = {arm.group for arm in arms_of(replace(LAKE, sources=ComparisonSettings("x", 1).sources))}
    apart = {"watkins", "mature"}
    rivals = tuple(cls.id for cls in ctd.lambdas.SOURCES.values() if not cls.by_default and cls.id not in apart)
    assert not by_default & {*rivals, "watkins"}
    assert by_default == {*SOURCES, "fixed"} - {*rivals, "watkins"}
    rules = ("lineage", "lineage+luck", "value+mature", "0.9+mature+lineage")
    named = arms_of(replace(LAKE, sources=("watkins", *rivals, *rules), bootstraps=("sarsa", "q_learning")))
    assert [arm.label for arm in named if arm.group in rules][:4] == [
        "SARSA, λ = 1, lineage",
        "SARSA, λ = 1, lineage, luck",
        "SARSA, Value kernel, mature",
        "SARSA, λ = 0.9, mature, lineage",
    ]
    for arm in named:
        check_id("arm", arm.id)
    assert [arm.label for arm in named if arm.group == "watkins"] == ["Q-learning, Watkins (λ = 0.9)"]
    assert [arm.label for arm in named if arm.group == "signal"] == [
        f"{bootstrap}, {ctd.SignalLambda.label}" for bootstrap in ("SARSA", "Q-learning")
    ]
    assert len({arm.id for arm in named}) == len({arm.label for arm in named}) == len(named)
    with pytest.raises(ValueError, match=r"sources: watkins .* goes with the bootstrap q_learning and a λ above 0"):
        arms_of(replace(LAKE, sources=("watkins",)))


@pytest.mark.long
@pytest.mark.parametrize(
    "source", ["adaptive", "meta-gradient", "signal", "visit", "watkins", "value+mature+lineage+luck"]
)
def test_rivals_run_compiled_and_in_gymnasium(source):
    arm = make_arm("q_learning" if source == "watkins" else "expected_sarsa", source, 0.9 * (source == "watkins"))
    assert np.isfinite(played(LAKE, arm, 0.2, 2)[0]).all()
    made = exploring(arm, LAKE)
    one = _Run(LAKE, {"learner": made.learner, "lambda_source": made.source(), "discount": 0.9, **made.options}, 0.2, 0,
               LAKE.marks)  # fmt: skip
    assert np.isfinite(_one_run(one)[0]).all()


SETTINGS = {
    "plain": {},
    "softmax": {"exploration": ctd.Softmax(ctd.linear(1.0, 0.1, 20)), "initial_value": 1.0},
    "bonus": {"exploration": ctd.CountBonus(0.5), "epsilon": ctd.linear(1.0, 0.1, 20), "action_mask": False},
    "schedule": {"step_size_schedule": ctd.linear(1.0, 0.1, 20), "indexer": "hash"},
}


def agent_of(env, settings: ComparisonSettings, arm: Arm, step_size: float, seed: int):
    made = exploring(arm, settings)
    return learner_for(
        env, settings, learner=made.learner, lambda_source=made.source(), step_size=step_size, seed=seed,
        discount=settings.discount, **made.options,
    )  # fmt: skip


def same(first, second) -> bool:
    names = (
        "bootstrap",
        "planner",
        "reward_source",
        "step_size",
        "discount",
        "epsilon",
        "exploration",
        "view",
        "initial_value",
    )
    one, two = ([getattr(agent, name) for name in names] for agent in (first, second))
    zero = [getattr(agent.lambda_source, "value", None) == 0.0 for agent in (first, second)]  # cut or not
    alike = all(zero) or first.lambda_source == second.lambda_source
    return one == two and alike and type(first.indexer) is type(second.indexer)


@pytest.mark.parametrize("change", SETTINGS.values(), ids=SETTINGS)
def test_every_arm_can_be_made_in_python_and_in_the_shell(change):
    rules = ("lineage", "lineage+luck", "value+mature", "0.5+mature+lineage", "0.9+luck")
    settings = replace(LAKE, sources=(*SOURCES, *rules), bootstraps=tuple(BOOTSTRAPS), **change)
    env, in_shell = gym.make("FrozenLake-v1"), set()
    for arm in arms_of(settings):
        one = replace(outcome({0.2: 1.0}), arm=arm)
        agent = agent_of(env, settings, arm, 0.2, 0)
        space = {"ctd": ctd, "env": env}
        exec(agent_line(one, settings), space)
        assert same(space["agent"], agent), arm.label
        words = command(one, settings)
        if words is not None:
            train = tyro.cli(Train, args=shlex.split(words)[2:])
            learner = learner_by_name(train.learner)
            assert same(learner(env, **learner_settings(learner, train, env)), agent), words
            in_shell.add(arm.group)
    assert in_shell == {"fixed", *SOURCES, *rules}


def test_the_script_runs():
    settings = ComparisonSettings(
        "CartPole-v1", 1, bins=(3, 4, 8, 6), low=(None, -2, None, -2), high=(None, 2, None, 2)
    )
    settings = replace(settings, wrappers=("gymnasium.wrappers:RecordEpisodeStatistics",))
    one, space = outcome({0.2: 1.0}), {}
    exec(script(one, settings), space)
    assert space["agent"].indexer.size == 3 * 4 * 8 * 6
    assert "from gymnasium.wrappers import RecordEpisodeStatistics\n" in script(one, settings)
    for change in ({}, {"indexer": "tiles", "bins": (4, 5)}, {"indexer": "fourier"}, {"bins": (6,)}):
        car, space = ComparisonSettings("MountainCar-v0", 1, **change), {}
        exec(script(one, car), space)
        made = make_indexer_for(gym.make("MountainCar-v0"), car.bins, car.low, car.high, car.indexer)
        assert repr(space["agent"].indexer) == repr(made)
    cliff = replace(LAKE, env="CliffWalking-v1", env_settings={"is_slippery": True}, max_steps=70)
    assert "env = gym.make('CliffWalking-v1', is_slippery=True, max_episode_steps=70)" in script(one, cliff)
    words = command(one, cliff)
    assert words is not None
    assert words.endswith("--episodes 40 --max-steps 70 --env-kwargs is_slippery=True")


def test_the_screen_says_what_is_compiled_also_when_piped(monkeypatch, capsys):
    from chunked_td._numba import caching
    from chunked_td.lab.running import engines

    monkeypatch.setattr(caching.threading, "Timer", AtOnce)
    monkeypatch.setattr(engines, "attempt", lambda program, *_: _pretend_to_compile(program))
    settings = replace(LAKE, sources=("junction",))
    protocol = protocol_of(settings, [replace(arm, exponents=(-3,)) for arm in arms_of(settings)], 2)
    batches = make_plan([protocol], SweepOptions("paper")).batches
    list(engines.LocalEngine().run(batches))
    shown = capsys.readouterr().err
    assert "chunked_td: compiling 1 of 2: SARSA, λ = 0 …" in shown
    assert "chunked_td: compiling 2 of 2: Expected-SARSA, Junctions …" in shown
    assert "play_block" not in shown


def _pretend_to_compile(program):
    from chunked_td._numba.caching import NOTICE

    with NOTICE.compiling("play_block"):
        return program


# ---- like with like


def test_where_bootstraps_differ_and_lambda_does_not_matter_there_is_no_difference():
    settings = ComparisonSettings(
        "helpers.one_step:OneStep-v0", episodes=1_000, seeds=10, lambdas=(0.0, 0.5, 1.0), sources=("forward",),
        step_sizes=(0.2, 0.4), extend=0, epsilon=0.3, bootstraps=("expected_sarsa", "q_learning"),
    )  # fmt: skip
    found = quiet(settings)
    for name in settings.bootstraps:
        alone = [row.scores for row in found.outcomes if row.arm.learner == name]
        assert np.ptp(alone, axis=0).max() == 0.0  # λ has no part in it: not one bit differs
    assert any(text.startswith("Expected-SARSA beats Q-learning") for text in bootstrap_texts(found))


def test_where_lambda_changes_runs_but_no_expectation_there_is_no_difference():
    """One family in twenty would show a difference by chance; these seeds are not among them."""
    settings = ComparisonSettings(
        "helpers.one_step:CoinFirst-v0", episodes=1_000, seeds=10, lambdas=(0.0, 0.5, 1.0), sources=("forward",),
        step_sizes=(0.2, 0.4), extend=0, epsilon=0.3, bootstraps=("expected_sarsa", "q_learning"),
    )  # fmt: skip
    found = quiet(settings)
    for name in settings.bootstraps:
        scores = np.array([one.scores for one in found.outcomes if one.arm.learner == name])
        assert PairedFamily.of(scores).no_difference
        assert len(np.unique(scores, axis=0)) == 4  # no two λs have the same runs
    assert any(text.startswith("Expected-SARSA beats Q-learning") for text in bootstrap_texts(found))
    assert "may be chance" in direct_texts(found)[0]


def swept(settings: ComparisonSettings, seeds: range) -> dict[str, np.ndarray]:
    """float64[step sizes, seeds] by arm: mean return of all episodes, by plain loops over learners in Gymnasium."""
    env = gym.make(settings.env)
    return {
        f"{name}, λ = {lambda_:g}": np.array(
            [
                [
                    learner(
                        env, lambda_=lambda_, step_size=size, discount=0.99, epsilon=0.1, seed=seed, action_mask=True
                    )
                    .learn(env, settings.episodes, progress=False)
                    .returns.mean()
                    for seed in seeds
                ]
                for size in settings.step_sizes
            ]
        )
        for name, learner in (("SARSA", ctd.SarsaLambda), ("Expected-SARSA", ctd.ExpectedSarsaLambda))
        for lambda_ in settings.lambdas
    }


def disagreements(found: Comparison, theirs: dict[str, np.ndarray]) -> list[str]:
    """Arms whose mean at a step size, or whose distance to the best, is not that of the sweep."""
    wrong = []
    for one in found.outcomes:
        ours, other = one.all_scores, theirs[one.arm.label]
        error = np.hypot(standard_error(ours), standard_error(other))
        wrong += [one.arm.label] * bool((abs(ours.mean(axis=1) - other.mean(axis=1)) > 4 * error).any())
    scores = {label: runs[runs.mean(axis=1).argmax()] for label, runs in theirs.items()}
    top = found.rows[0].arm.label
    for row in found.rows[1:]:
        gap, label = found.family.gap(row.place), row.arm.label
        behind, error = (
            scores[top].mean() - scores[label].mean(),
            np.hypot(*map(standard_error, (scores[top], scores[label]))),
        )
        wrong += [f"{label}, behind"] * (not gap.low - 2 * error <= behind <= gap.high + 2 * error)
    return wrong


def standard_error(scores: np.ndarray) -> np.ndarray:
    return scores.std(axis=-1, ddof=1) / np.sqrt(scores.shape[-1])


TAXI = ComparisonSettings(
    "Taxi-v4", episodes=120, seeds=20, lambdas=(0.0, 0.5, 0.9), sources=(), step_sizes=(0.1, 0.4), extend=0
)


@pytest.fixture(scope="module")
def taxi():
    """Bootstrap × λ × step size on Taxi, by agents in Gymnasium and with other seeds."""
    return swept(TAXI, range(100, 106))


def test_the_ranking_agrees_with_an_independent_sweep(taxi):
    """And two errors that it finds."""
    found = quiet(TAXI)
    assert "compiled" in found.how
    assert disagreements(found, taxi) == []
    assert found.rows[0].arm.lambda_source.value == 0.9
    behind = [row.arm.lambda_source.value for row in found.rows if not found.tied(row)]
    assert [value for value in behind if value < 0.9] == [0.5, 0.5, 0.0, 0.0]
    assert disagreements(quiet(replace(TAXI, epsilon=0.2)), taxi)
    names = {"λ = 0.5": "λ = 0.9", "λ = 0.9": "λ = 0.5"}
    exchanged = {re.sub("λ = 0.[59]", lambda found: names[found[0]], label): runs for label, runs in taxi.items()}
    assert len(disagreements(found, exchanged)) >= 4


@pytest.mark.long
@pytest.mark.parametrize("change", [{"action_mask": False}, {"discount": 0.9}], ids=["mask", "discount"])
def test_an_independent_sweep_finds_other_errors(taxi, change):
    assert disagreements(quiet(replace(TAXI, **change)), taxi), change


@pytest.mark.parametrize("mask", [True, False])
def test_compiled_and_gymnasium_runs_have_the_same_distribution(mask):
    settings = ComparisonSettings("Taxi-v4", episodes=25, lambdas=(0.5,), sources=(), action_mask=mask)
    arm = make_arm("expected_sarsa", "fixed", 0.5)
    found = [played(replace(settings, compiled=compiled), arm, 0.4, 12)[0].mean(axis=1) for compiled in (True, False)]
    error = np.hypot(*(scores.std(ddof=1) / np.sqrt(12) for scores in found))
    assert abs(found[0].mean() - found[1].mean()) < 4 * error


def test_wrappers_bins_and_schedules_play_in_gymnasium():
    assert ComparisonProblem.of(LAKE).dynamics is not None
    for change in ({"compiled": False}, {"step_size_schedule": ctd.linear(1.0, 0.1, 20)}, {"indexer": "hash"}):
        assert ComparisonProblem.of(replace(LAKE, **change)).dynamics is None
    cart = ComparisonSettings("CartPole-v1", 2, bins=(3, 4, 8, 6), low=(None, -2, None, -2), high=(None, 2, None, 2))
    agent = agent_of(gym.make("CartPole-v1"), cart, make_arm("sarsa", "forward"), 0.1, 0)
    assert agent.indexer.size == 3 * 4 * 8 * 6


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # states without legal actions
@pytest.mark.parametrize("source", ["forward", uncompiled("value")])
def test_lambda_over_training_is_the_mean_of_the_learners_own(source):
    """Both kinds of runs play the same episodes of this environment, and add up the λ of every step but the first."""
    settings = ComparisonSettings(
        "ChunkedTD/KeyToDoor-v0", 60, env_settings={"horizon": 5}, exploration=ctd.Softmax(0.5)
    )
    arm, seeds = make_arm("expected_sarsa", source), 2
    assert ComparisonProblem.of(settings).dynamics is not None
    compiled = played(settings, arm, 0.3, seeds)[1]
    assert compiled.shape == (seeds, 30)
    for seed in range(seeds):
        env = gym.make(settings.env, horizon=5)
        agent = agent_of(env, settings, arm, 0.3, seed)
        found = [[] for _ in range(60)]
        for episode in range(60):
            observation, info = env.reset(seed=seed if episode == 0 else None)
            action, first = agent.start(observation, info), True
            while action is not None:
                observation, reward, terminated, truncated, info = env.step(action)
                action = agent.step(reward, observation, terminated, truncated, info)
                if not first:
                    found[episode].append(agent.memory.lambda_t.mean())
                first = False
        stretches = np.split(np.arange(60), settings.marks[:-1])
        expected = [np.mean([number for episode in stretch for number in found[episode]]) for stretch in stretches]
        assert compiled[seed] == pytest.approx(expected)
        made = exploring(arm, settings)
        one = {"learner": made.learner, "lambda_source": made.source(), "discount": 0.99, **made.options}
        assert _one_run(_Run(settings, one, 0.3, seed, settings.marks))[2] == pytest.approx(expected)


def test_initial_values_reach_both_kinds_of_runs():
    greedy, arm = replace(LAKE, episodes=200, epsilon=0.0), make_arm("expected_sarsa", "fixed", 0.0)
    optimistic = played(replace(greedy, initial_value=1.0), arm, 0.1, 4)[0].mean()
    assert optimistic > 0.0  # without exploration and with values of 0, nothing is ever found on this lake
    assert optimistic != played(greedy, arm, 0.1, 4)[0].mean()
    agent = agent_of(gym.make("FrozenLake-v1"), replace(LAKE, initial_value=1.0), make_arm("sarsa", "fixed"), 0.1, 0)
    assert agent.q_values(0).tolist() == [1.0] * 4


def test_acting_at_random_is_what_it_says():
    """The mean return of the uniform policy on FrozenLake, by Monte Carlo in Gymnasium."""
    env, rng = gym.make("FrozenLake-v1"), np.random.default_rng(0)
    theirs = []
    for episode in range(2_000):
        env.reset(seed=episode)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(int(rng.integers(4)))
            total, over = total + float(reward), terminated or truncated
        theirs.append(total)
    ours = played(replace(LAKE, episodes=500), make_arm("sarsa", "random"), 0.1, 6)[0].mean(axis=1)
    error = np.hypot(ours.std(ddof=1) / np.sqrt(6), np.std(theirs) / np.sqrt(2_000))
    assert abs(ours.mean() - np.mean(theirs)) < 4 * error


def test_settings_as_text():
    assert keywords_of("env-kwargs", ["is_slippery=False", "map_name=8x8"]) == {"is_slippery": False, "map_name": "8x8"}
    assert schedule_of("epsilon-schedule", ["0=1", "500=0.1"]) == ctd.linear(1.0, 0.1, 500)
    with pytest.raises(ValueError, match=r"--env-kwargs must be key=value each, got 'slippery'"):
        keywords_of("env-kwargs", ["slippery"])
    with pytest.raises(ValueError, match=r"--epsilon-schedule must be episode=value each"):
        schedule_of("epsilon-schedule", ["0=1", "later=0.1"])
    with pytest.raises(ValueError, match=r"--env-kwargs: FrozenLake-v1 cannot be made with"):
        ComparisonProblem.of(replace(LAKE, env_settings={"slipery": False}))
    with pytest.raises(ValueError, match=r"--wrappers must be module:Class each, got 'nowhere:X'"):
        ComparisonProblem.of(replace(LAKE, wrappers=("nowhere:X",)))


# ---- what is left on disk


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> tuple[Path, Comparison]:
    folder = tmp_path_factory.mktemp("compared")
    found = quiet(replace(LAKE, sources=("forward",)), folder)
    write_comparison(folder, found, csv=True)
    return folder, found


def test_curves_are_stored_and_give_the_scores(lake):
    folder, found = lake
    frame = pl.read_parquet(folder / "compare.parquet")
    assert frame.columns == [
        "arm", "bootstrap", "lambda_source", "step_size", "seed", "episode", "mean_return", "mean_lambda", "diverged",
        "chosen",
    ]  # fmt: skip
    assert pl.read_csv(folder / "compare.csv").height == frame.height
    row = found.rows[0]
    chosen = frame.filter((pl.col("arm") == row.outcome.arm.label) & pl.col("chosen"))
    assert chosen["seed"].n_unique() == 4
    assert chosen["mean_return"].mean() == pytest.approx(row.score.value)  # checkpoints are one episode each here
    assert (folder / "compare.png").stat().st_size > 1_000
    fixed = frame.filter(pl.col("lambda_source") == "λ = 0.9")["mean_lambda"]
    assert fixed.drop_nans().to_list() == pytest.approx([0.9] * fixed.drop_nans().len())


def test_the_page_answers_first_and_shows_the_best_of_each_kind(lake):
    folder, found = lake
    page = html.unescape((folder / "compare.html").read_text(encoding="utf-8"))
    best = best_of(found)
    assert best is not None
    assert f"<code>{command(best.outcome, found.settings)}</code>" in page
    assert f"<code>{script(best.outcome, found.settings)}</code>" in page
    assert f"Ranking by the {found.settings.score}, 4 seeds." in page
    lines = list(headline(found).values())
    places = [page.index(text) for text in (*lines, 'id="ranking"', 'id="table-ranking"', "</pre>")]
    assert places == sorted(places)
    for plot in (curves_plot(found), step_size_plot(found)):
        assert sum(trace["visible"] is True for trace in plot.data if trace.get("meta") == "band") == 2
        assert plot.is_on("bands")


def test_the_first_table_has_ten_rows_and_the_others_are_folded_away():
    pairs = [(b, v) for b in ("sarsa", "q_learning") for v in np.arange(1, 10) / 9]
    scores = [(make_arm(b, "fixed", v), np.arange(8) * v) for b, v in pairs]
    found = compared(scores)
    text = render_page(found)
    first, rest = text.index('id="table-ranking"'), text.index('id="table-rest"')
    assert text[first:rest].count('<th scope="row">') == TOP
    assert text[rest:].count('<th scope="row">') == len(scores) - TOP
    assert "<details><summary>The other learners" in text[first:rest]


@browser.needed
def test_the_page_in_a_browser(lake, tmp_path):
    folder, found = lake
    with browser.Browser(tmp_path / "profile") as page:
        for width in (1280, 390):
            page.size(width)
            page.open(folder / "compare.html")
            page.wait_for("document.documentElement.dataset.plots !== undefined")
            empty = "[...document.querySelectorAll('.plot')].filter(p => !p.querySelector('.main-svg .trace')).length"
            assert page.ask(empty) == 0
            assert page.ask("document.documentElement.scrollWidth") <= width
            shown = page.ask("[...document.querySelectorAll('.headline dd')].map(e => e.textContent)")
            assert shown == list(headline(found).values())
        assert page.errors == []
        assert all(address.startswith(("file:", "data:", "blob:", "about:")) for address in page.requests)


def test_finished_arms_are_kept_and_the_same_call_goes_on(tmp_path, monkeypatch):
    from chunked_td.lab.running import engines

    settings, attempt, done = replace(LAKE, seeds=2, extend=0), engines.attempt, []

    def interrupted(batch):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(batch.name)
        return attempt([batch], 1)[0]

    with monkeypatch.context() as patch:
        patch.setattr(engines.LocalEngine, "run", lambda self, batches: (interrupted(one) for one in batches))
        with pytest.raises(KeyboardInterrupt):
            quiet(settings, tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "batches" / "compare").iterdir()}
    assert len(kept) == 2
    found, whole = quiet(settings, tmp_path), quiet(settings)
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())
    for one, other in zip(found.outcomes, whole.outcomes, strict=True):
        np.testing.assert_array_equal(one.at_chosen("mean_return"), other.at_chosen("mean_return"))
    with pytest.raises(DirectoryError, match=r"other settings \(discount\).*--overwrite"):
        quiet(replace(settings, discount=0.5), tmp_path)
    assert quiet(replace(settings, discount=0.5), tmp_path, overwrite=True).settings.discount == 0.5
    assert not any(path.exists() for path in kept)
    quiet(replace(settings, discount=0.5, lambdas=(0.0, 0.9, 0.5)), tmp_path)  # more arms are no other settings


def test_a_folder_that_cannot_be_used_is_refused_before_anything_runs(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    command = tyro.cli(Compare, args=["FrozenLake-v1", "--episodes", "1000000", "--out", str(tmp_path / "taken")])
    assert command.run() == 4
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(("more", "wait"), [([], 2), (["--no-compiled"], 2), (["--no-compiled"], 0.05)])
def test_an_interrupted_comparison_says_how_to_go_on(tmp_path, more, wait):
    command = [sys.executable, "-m", "chunked_td", "compare", "FrozenLake-v1", "--episodes", "1000000", "--seeds", "2"]
    started = subprocess.Popen(
        [*command, "--sources", "forward", "--out", str(tmp_path), *more],
        start_new_session=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert started.stdout is not None
    assert "seeds" in started.stdout.readline()  # the runs begin
    time.sleep(wait)  # the shorter one falls into the start of the worker processes
    os.killpg(started.pid, signal.SIGINT)
    try:
        _, said = started.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode == 130
    assert said.strip().splitlines()[-1].startswith("interrupted; every finished batch is kept, the same command")
    assert "Traceback" not in said


def test_a_narrow_terminal_breaks_no_number(lake, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    found = lake[1]
    print_ranking(found)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 40
    for row in found.rows:
        assert {rounded_text(row.score.value, 4), *row.arm.label.split()} <= set(shown.split())


def test_arms_in_plain_python_are_not_called_compiled(tmp_path):
    (tmp_path / "half.py").write_text(
        "from dataclasses import dataclass\nimport chunked_td as ctd\n\n@dataclass(frozen=True)\n"
        "class Half(ctd.LambdaSource):\n    def lambda_t(self, step):\n        return 0.5\n"
    )
    arm = make_arm("sarsa", f"{tmp_path / 'half.py'}:Half")
    told = ComparisonProblem.of(LAKE).describe(_plain([make_arm("sarsa", "fixed", 0.5), arm]))
    assert f"compiled, but those of {arm.label}, which are plain Python" in told


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(-1076.3, 3, "−1,080"), (99.96, 3, "100"), (0.2512, 2, "0.25"), (0.0, 2, "0"), (1e9, 1, "1e+09")],
)
def test_numbers_in_sentences_have_no_exponent_unless_they_are_huge_or_tiny(value, digits, text):
    assert rounded_text(value, digits) == text
