"""`compare`: fair selection, families of intervals, like with like, an independent sweep, the page and files."""

from __future__ import annotations

import contextlib
import html
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import browser
import gymnasium as gym
import numpy as np
import polars as pl
import pytest
import tyro

import chunked_td as ctd
from chunked_td.cli._shared import keywords_of, schedule_of
from chunked_td.cli.compare import Compare, write_comparison
from chunked_td.cli.train import Train, learner_settings
from chunked_td.lab.comparison import Comparison, ComparisonSettings, compare
from chunked_td.lab.comparison.advice import NO_DIFFERENCE, SCORE, advice, group_text, headline, recommended
from chunked_td.lab.comparison.arms import BOOTSTRAPS, SOURCES, LearnerArm, arms_of
from chunked_td.lab.comparison.page import curves_plot, ranking_table, step_size_plot
from chunked_td.lab.comparison.ranking import PairedFamily, chosen_sizes
from chunked_td.lab.comparison.recipe import agent_line, command, script
from chunked_td.lab.comparison.running import (
    ArmRuns,
    CompiledRuns,
    Curves,
    GymnasiumRuns,
    _Job,
    _one_run,
    runs_for,
)
from chunked_td.lab.comparison.sweep import ArmOutcome
from chunked_td.learners.inputs import learner_by_name
from compilation import uncompiled

LAKE = ComparisonSettings("FrozenLake-v1", episodes=40, seeds=4, lambdas=(0.0, 0.9), sources=(), step_sizes=(0.1, 0.2))


def quiet(settings: ComparisonSettings):
    return compare(settings, say=lambda text: None)


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


@pytest.mark.parametrize("seeds", [4, 10])
def test_equal_arms_show_a_difference_in_one_family_of_twenty(seeds):
    rng, found = np.random.default_rng(seeds), 0
    for _ in range(200):
        scores = rng.normal(size=(8, seeds)) * rng.exponential(size=(8, 1)) + 5 * rng.normal(size=seeds)
        found += not PairedFamily.of(scores).no_difference
    assert found <= 21  # 200 × 5 % and three standard deviations and a half


def test_an_arm_with_outliers_hides_no_difference_between_the_others():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 12)) + np.array([[3.0], [0.0], [0.0], [-500.0]])
    scores[3, 5] -= 1e5
    family = PairedFamily.of(scores)
    assert family.best == 0
    assert family.gap(1).shown
    assert family.gap(2).shown
    assert not family.gap(1, 2).shown


def test_equal_scores_and_a_single_seed():
    same = PairedFamily.of(np.ones((3, 5)))
    assert same.no_difference
    assert same.tied() == [0, 1, 2]
    assert PairedFamily.of(np.array([[1.0], [2.0]])).no_difference  # nothing can be said
    assert PairedFamily.of(np.array([[1.0] * 6, [2.0] * 6])).gap(0).shown  # differs by the same in every seed


# ---- grids and divergence


def outcome(means: dict[float, float], diverged: tuple[float, ...] = ()) -> ArmOutcome:
    runs = {
        size: Curves(np.full((4, 1), mean), np.full(4, size in diverged), np.zeros((4, 1)))
        for size, mean in means.items()
    }
    return ArmOutcome(LearnerArm("sarsa", "fixed", 0.5), runs, np.ones(1))


def test_a_grid_extends_itself_at_the_edge_that_is_best():
    assert outcome({0.1: 1, 0.2: 2, 0.4: 1}).beyond((0.1, 0.2, 0.4)) == []
    assert outcome({0.1: 1, 0.2: 2, 0.4: 3}).beyond((0.1, 0.2, 0.4)) == [0.8]
    assert outcome({0.1: 3, 0.2: 2, 0.4: 1}).beyond((0.1, 0.2, 0.4)) == [0.05]
    assert outcome({0.1: 1, 0.2: 2, 0.8: 3}).beyond((0.1, 0.2, 0.8)) == [1.0]
    assert outcome({0.5: 1, 1.0: 3}).beyond((0.5, 1.0)) == []  # no further than 1
    assert outcome({0.1: 2, 0.2: 2, 0.4: 2}).beyond((0.1, 0.2, 0.4)) == []  # ties are no reason
    assert outcome({0.1: 0, 0.2: 0}, diverged=(0.1, 0.2)).beyond((0.1, 0.2)) == [0.05]


def test_compare_extends_the_grid_and_warns_where_it_may_not():
    cliff = ComparisonSettings(
        "CliffWalking-v1", episodes=60, seeds=4, lambdas=(0.0, 0.5), sources=(), bootstraps=("expected_sarsa",),
        step_sizes=(0.005, 0.01), max_steps=300,
    )  # fmt: skip
    said: list[str] = []
    found = compare(replace(cliff, extend=2), say=said.append)
    assert len(said) == 3
    assert "edge of the grid" in said[1]
    assert all(one.step_sizes[-1] == 0.04 for one in found.outcomes)
    assert any("Warning: the best step size lies at the edge" in text for text in advice(found))


@pytest.mark.parametrize("compiled", [True, False])
def test_arms_that_diverge_are_shown_and_the_others_ranked(compiled):
    cliff = ComparisonSettings(
        "CliffWalking-v1", episodes=40, seeds=2, lambdas=(0.0, 1.0), sources=(), bootstraps=("sarsa",), max_steps=300,
        step_sizes=(0.9,), extend=0, compiled=compiled,
    )  # fmt: skip
    found = quiet(cliff)
    assert [row.outcome.arm.value for row in found.overall.rows] == [0.0]
    assert [one.arm.value for one in found.overall.diverged] == [1.0]
    assert any(text.startswith("Not ranked: SARSA, λ = 1 at α = 0.9 (2 of 2 runs)") for text in advice(found))


# ---- advice


def compared(scores: dict[LearnerArm, np.ndarray], lambdas: np.ndarray | None = None) -> Comparison:
    """Made-up scores, one checkpoint per run."""
    outcomes = []
    for arm, row in scores.items():
        kept = np.zeros((row.size, 1)) if lambdas is None else lambdas
        means = np.repeat(row[:, None], kept.shape[1], axis=1)
        curves = {0.2: Curves(means, np.zeros(row.size, bool), kept)}
        outcomes.append(ArmOutcome(arm, curves, np.full(kept.shape[1], 1 / kept.shape[1])))
    return Comparison(replace(LAKE, step_sizes=(0.1, 0.2, 0.4), seeds=row.size), tuple(outcomes), "made up")


def arms(*kinds: tuple[str, float]) -> list[LearnerArm]:
    return [LearnerArm(bootstrap, *kind) for bootstrap in ("sarsa", "expected_sarsa") for kind in kinds]


def test_of_many_that_tie_the_simplest_with_the_better_bootstrap_is_recommended():
    rng, found = np.random.default_rng(3), {}
    for arm in arms(("fixed", 0.0), ("fixed", 0.5), ("fixed", 0.9), ("forward", 0.0), ("dyna", 0.0)):
        noise = rng.normal(size=20)
        better = 0.3 * (arm.bootstrap == "expected_sarsa") - 9.0 * (arm.source == "fixed" and arm.value == 0.0)
        found[arm] = 10.0 + better + 0.5 * (noise - noise.mean())
    found[LearnerArm("sarsa", "fixed", 0.5)] += 0.4  # the best mean, with the bootstrap that is worse on average
    result = compared(found)
    assert headline(result) == (
        "8 of 10 arms are not told apart; SARSA, λ = 0.5 (10.4) has the best mean. Avoid λ = 0. A fixed λ is simplest, "
        "and Expected-SARSA is better on average; the best mean of those is that of Expected-SARSA, λ = 0.5 (10.3). "
        f"Scores: {SCORE}."
    )
    chosen = recommended(result)
    assert chosen is not None
    assert chosen.outcome.arm == LearnerArm("expected_sarsa", "fixed", 0.5)
    assert any(text.startswith("Expected-SARSA beats SARSA") for text in advice(result))
    assert advice(result)[1].startswith("To train Expected-SARSA, λ = 0.5: chunked-td train FrozenLake-v1 --learner E")
    assert "Dyna (λ = 0)" in group_text(result.groups[0])


def test_an_arm_that_is_better_than_all_is_used_whatever_it_costs():
    rng = np.random.default_rng(0)
    found = {arm: rng.normal(size=12) + 9.0 * (arm.source == "value") for arm in arms(("fixed", 0.9), ("value", 0.0))}
    found[LearnerArm("sarsa", "value")] -= 4.0
    result = compared(found)
    assert headline(result).startswith("Use Expected-SARSA, Value kernel (")
    assert "--learner ChunkedExpectedSarsa --lambda-source value" in advice(result)[1]
    assert "Nothing to choose" in headline(compared({arm: np.ones(3) for arm in found}))


def test_episodes_without_a_lambda_and_too_few_seeds_are_said(recwarn):
    rng = np.random.default_rng(0)
    lambdas = np.array([[np.nan, 0.25, np.nan], [np.nan, 0.75, 0.5]])
    found = compared({arm: rng.normal(size=2) for arm in arms(("fixed", 0.9), ("forward", 0.0))}, lambdas)
    assert "its λ was 0.50 on average in the first tenth" in " ".join(advice(found))
    assert found.overall.family.gap(1).text.endswith("(too few seeds)")
    assert "inf" not in " ".join(cell for row in ranking_table(found.overall, "overall").rows for cell in row)
    assert any("with 2 seeds only large differences can be shown; take 10 or more" in text for text in advice(found))
    assert not recwarn.list


# ---- arms by name, and how to train them


def test_rivals_are_compared_where_they_are_named():
    assert Compare("x").settings().sources == ComparisonSettings("x", 1).sources
    by_default = {arm.source for arm in arms_of(replace(LAKE, sources=ComparisonSettings("x", 1).sources))}
    rivals = tuple(cls.id for cls in ctd.lambdas.SOURCES.values() if not cls.by_default and cls.id != "watkins")
    assert not by_default & {*rivals, "watkins"}
    assert by_default == {*SOURCES, "fixed"} - {*rivals, "watkins"}
    named = arms_of(replace(LAKE, sources=("watkins", *rivals), bootstraps=("sarsa", "q_learning")))
    assert [arm.label for arm in named if arm.source == "watkins"] == ["Q-learning, Watkins (λ = 0.9)"]
    assert [arm.label for arm in named if arm.source == "signal"] == [
        f"{bootstrap}, {ctd.SignalLambda.label}" for bootstrap in ("SARSA", "Q-learning")
    ]
    assert len({arm.tag for arm in named}) == len({arm.label for arm in named}) == len(named)
    with pytest.raises(ValueError, match=r"sources: watkins .* goes with the bootstrap q_learning and a λ above 0"):
        arms_of(replace(LAKE, sources=("watkins",)))


@pytest.mark.long
@pytest.mark.parametrize("source", ["adaptive", "meta-gradient", "signal", "visit", "watkins"])
def test_rivals_run_compiled_and_in_gymnasium(source):
    arm = LearnerArm("q_learning" if source == "watkins" else "expected_sarsa", source, 0.9 * (source == "watkins"))
    for compiled in (True, False):
        runs = runs_for(replace(LAKE, compiled=compiled))
        curves = next(iter(_in_this_process(runs, ArmRuns(arm, (0.2,)))))
        assert np.isfinite(curves.means).all()


SETTINGS = {
    "plain": {},
    "softmax": {"exploration": ctd.Softmax(ctd.linear(1.0, 0.1, 20)), "initial_value": 1.0},
    "bonus": {"exploration": ctd.CountBonus(0.5), "epsilon": ctd.linear(1.0, 0.1, 20), "action_mask": False},
    "schedule": {"step_size_schedule": ctd.linear(1.0, 0.1, 20), "indexer": "hash"},
}


def same(first, second) -> bool:
    names = ("bootstrap", "planner", "step_size", "discount", "epsilon", "exploration", "view", "initial_value")
    one, two = ([getattr(agent, name) for name in names] for agent in (first, second))
    zero = [getattr(agent.lambda_source, "value", None) == 0.0 for agent in (first, second)]  # cut or not
    alike = all(zero) or first.lambda_source == second.lambda_source
    return one == two and alike and type(first.indexer) is type(second.indexer)


@pytest.mark.parametrize("change", SETTINGS.values(), ids=SETTINGS)
def test_every_arm_can_be_made_in_python_and_in_the_shell(change):
    settings = replace(LAKE, sources=tuple(SOURCES), bootstraps=tuple(BOOTSTRAPS), **change)
    env, in_shell = gym.make("FrozenLake-v1"), set()
    for arm in arms_of(settings):
        one = replace(outcome({0.2: 1.0}), arm=arm)
        agent = arm.agent(env, settings, 0.2, 0)
        space = {"ctd": ctd, "env": env}
        exec(agent_line(one, settings), space)
        assert same(space["agent"], agent), arm.label
        words = command(one, settings)
        if words is not None:
            train = tyro.cli(Train, args=shlex.split(words)[2:])
            learner = learner_by_name(train.learner)
            assert same(learner(env, **learner_settings(learner, train, env)), agent), words
            in_shell.add(arm.source)
    assert in_shell == {"fixed", *SOURCES}


def test_the_script_runs():
    settings = ComparisonSettings(
        "CartPole-v1", 1, bins=(3, 4, 8, 6), low=(None, -2, None, -2), high=(None, 2, None, 2)
    )
    settings = replace(settings, wrappers=("gymnasium.wrappers:RecordEpisodeStatistics",))
    one, space = outcome({0.2: 1.0}), {}
    exec(script(one, settings), space)
    assert space["agent"].indexer.size == 3 * 4 * 8 * 6
    assert "from gymnasium.wrappers import RecordEpisodeStatistics\n" in script(one, settings)
    cliff = replace(LAKE, env="CliffWalking-v1", env_settings={"is_slippery": True}, max_steps=70)
    assert "env = gym.make('CliffWalking-v1', is_slippery=True, max_episode_steps=70)" in script(one, cliff)
    words = command(one, cliff)
    assert words is not None
    assert words.endswith("--episodes 40 --max-steps 70 --env-kwargs is_slippery=True")


def _in_this_process(runs, job):
    if isinstance(runs, CompiledRuns):
        return [next(iter(runs.run([job], 2)))[0.2]]
    rows = [_one_run(_Job(runs.settings, job.arm, 0.2, seed)) for seed in range(2)]
    return [Curves(*map(np.array, zip(*rows, strict=True)))]


def test_the_screen_says_what_is_compiled(monkeypatch, capsys):
    from chunked_td._numba import caching

    monkeypatch.setattr(caching, "_watched", lambda: True)
    monkeypatch.setattr(caching.Notice, "patience", 0.0)
    monkeypatch.setattr(CompiledRuns, "_run", lambda self, job, seeds: _pretend_to_compile(job))
    runs, said = runs_for(LAKE), []
    jobs = [ArmRuns(arm, (0.1, 0.2)) for arm in arms_of(replace(LAKE, sources=("junction",)))]
    said.append(runs.check(jobs))
    list(runs.run(jobs, 2))
    assert said == ["4 combinations to compile, some seconds each, once per machine"]
    shown = capsys.readouterr().err
    assert "chunked_td: compiling 1 of 4: SARSA, fixed λ …" in shown
    assert "chunked_td: compiling 4 of 4: Expected-SARSA, Junctions …" in shown
    assert "play_block" not in shown


def _pretend_to_compile(job):
    from chunked_td._numba.caching import NOTICE

    with NOTICE.compiling("play_block"):
        time.sleep(0.05)
    return {}


# ---- like with like


def test_where_bootstraps_differ_and_lambda_does_not_matter_there_is_no_difference():
    settings = ComparisonSettings(
        "one_step:OneStep-v0", episodes=1_000, seeds=10, lambdas=(0.0, 0.5, 1.0), sources=("forward",),
        step_sizes=(0.2, 0.4), extend=0, epsilon=0.3, bootstraps=("expected_sarsa", "q_learning"),
    )  # fmt: skip
    found = quiet(settings)
    for group in found.groups:
        assert f"{NO_DIFFERENCE} between λ sources" in group_text(group)
        assert group.family.widest == 0.0  # λ has no part in it: not one bit differs
    assert any(text.startswith("Expected-SARSA beats Q-learning") for text in advice(found))


def test_where_lambda_changes_runs_but_no_expectation_there_is_no_difference():
    """One family in twenty would show a difference by chance; these seeds are not among them."""
    settings = ComparisonSettings(
        "one_step:CoinFirst-v0", episodes=1_000, seeds=10, lambdas=(0.0, 0.5, 1.0), sources=("forward",),
        step_sizes=(0.2, 0.4), extend=0, epsilon=0.3, bootstraps=("expected_sarsa", "q_learning"),
    )  # fmt: skip
    found = quiet(settings)
    for group, name in zip(found.groups, settings.bootstraps, strict=True):
        assert f"{NO_DIFFERENCE} between λ sources; a difference of up to 0." in group_text(group)
        assert len(np.unique(group.family.scores, axis=0)) == 4  # no two λs have the same runs
        alone = replace(found, outcomes=tuple(one for one in found.outcomes if one.arm.bootstrap == name))
        assert headline(alone).startswith(
            f"There is {NO_DIFFERENCE} between the arms that 10 seeds can show. A fixed λ"
        )
    assert any(text.startswith("Expected-SARSA beats Q-learning") for text in advice(found))
    assert headline(found).startswith("4 of 8 arms are not told apart; Expected-SARSA, ")
    assert "The other 4 are worse. A fixed λ is simplest; the best mean of those is that of Expected" in headline(found)


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
    top = found.overall.rows[0].outcome.arm.label
    for row in found.overall.rows[1:]:
        gap, label = found.overall.family.gap(row.place), row.outcome.arm.label
        behind, error = (
            scores[top].mean() - scores[label].mean(),
            np.hypot(*map(standard_error, (scores[top], scores[label]))),
        )
        wrong += [f"{label}, behind"] * (not gap.low - 2 * error <= behind <= gap.high + 2 * error)
    return wrong


def standard_error(scores: np.ndarray) -> np.ndarray:
    return scores.std(axis=-1, ddof=1) / np.sqrt(scores.shape[-1])


def test_the_ranking_agrees_with_an_independent_sweep():
    """Bootstrap × λ × step size on Taxi, with other seeds; and four errors that it finds."""
    settings = ComparisonSettings(
        "Taxi-v4", episodes=120, seeds=20, lambdas=(0.0, 0.5, 0.9), sources=(), step_sizes=(0.1, 0.4), extend=0
    )
    found, theirs = quiet(settings), swept(settings, range(100, 106))
    assert "compiled" in found.how
    assert disagreements(found, theirs) == []
    assert found.overall.rows[0].outcome.arm.value == 0.9
    assert [row.outcome.arm.value for row in found.overall.rows if not found.overall.tied(row)] == [0.5, 0.5, 0.0, 0.0]
    for change in ({"epsilon": 0.2}, {"action_mask": False}, {"discount": 0.9}):
        assert disagreements(quiet(replace(settings, **change)), theirs), change
    names = {"λ = 0.5": "λ = 0.9", "λ = 0.9": "λ = 0.5"}
    exchanged = {re.sub("λ = 0.[59]", lambda found: names[found[0]], label): runs for label, runs in theirs.items()}
    assert len(disagreements(found, exchanged)) >= 4


@pytest.mark.parametrize("mask", [True, False])
def test_compiled_and_gymnasium_runs_have_the_same_distribution(mask):
    settings = ComparisonSettings("Taxi-v4", episodes=25, lambdas=(0.5,), sources=(), action_mask=mask)
    job = [ArmRuns(LearnerArm("expected_sarsa", "fixed", 0.5), (0.4,))]
    found = []
    for runs in (runs_for(settings), GymnasiumRuns(settings, "to compare")):
        found.append(next(iter(runs.run(job, 12)))[0.4].means.mean(axis=1))
    error = np.hypot(*(scores.std(ddof=1) / np.sqrt(12) for scores in found))
    assert abs(found[0].mean() - found[1].mean()) < 4 * error


def test_wrappers_bins_and_schedules_play_in_gymnasium():
    for change in ({"wrappers": ("gymnasium.wrappers:TransformReward",)}, {"bins": (4,)}, {"compiled": False}):
        if "wrappers" not in change:
            assert isinstance(runs_for(replace(LAKE, **change)), GymnasiumRuns)
    assert isinstance(runs_for(replace(LAKE, step_size_schedule=ctd.linear(1.0, 0.1, 20))), GymnasiumRuns)
    assert isinstance(runs_for(LAKE), CompiledRuns)
    cart = ComparisonSettings("CartPole-v1", 2, bins=(3, 4, 8, 6), low=(None, -2, None, -2), high=(None, 2, None, 2))
    assert LearnerArm("sarsa", "forward").agent(gym.make("CartPole-v1"), cart, 0.1, 0).indexer.size == 3 * 4 * 8 * 6


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # states without legal actions
@pytest.mark.parametrize("source", ["forward", uncompiled("value")])
def test_lambda_over_training_is_the_mean_of_the_learners_own(source):
    """Both kinds of runs play the same episodes of this environment, and add up the λ of every step but the first."""
    settings = ComparisonSettings(
        "ChunkedTD/KeyToDoor-v0", 60, env_settings={"horizon": 5}, exploration=ctd.Softmax(0.5)
    )
    job, seeds = ArmRuns(LearnerArm("expected_sarsa", source), (0.3,)), 2
    runs = runs_for(settings)
    assert isinstance(runs, CompiledRuns)
    compiled = next(iter(runs.run([job], seeds)))[0.3].lambdas
    assert compiled.shape == (seeds, 50)
    for seed in range(seeds):
        env = gym.make(settings.env, horizon=5)
        agent = job.arm.agent(env, settings, 0.3, seed)
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
        assert _one_run(_Job(settings, job.arm, 0.3, seed))[2] == pytest.approx(expected)


def test_initial_values_reach_both_kinds_of_runs():
    runs = runs_for(replace(LAKE, initial_value=1.0, episodes=200, epsilon=0.0))
    job = [ArmRuns(LearnerArm("expected_sarsa", "fixed", 0.0), (0.1,))]
    optimistic = next(iter(runs.run(job, 4)))[0.1].means.mean()
    assert optimistic > 0.0  # without exploration and with values of 0, nothing is ever found on this lake
    plain = next(iter(runs_for(replace(LAKE, episodes=200, epsilon=0.0)).run(job, 4)))[0.1].means.mean()
    assert optimistic != plain
    agent = LearnerArm("sarsa", "fixed").agent(gym.make("FrozenLake-v1"), replace(LAKE, initial_value=1.0), 0.1, 0)
    assert agent.q_values(0).tolist() == [1.0] * 4


def test_settings_as_text():
    assert keywords_of("env-kwargs", ["is_slippery=False", "map_name=8x8"]) == {"is_slippery": False, "map_name": "8x8"}
    assert schedule_of("epsilon-schedule", ["0=1", "500=0.1"]) == ctd.linear(1.0, 0.1, 500)
    with pytest.raises(ValueError, match=r"--env-kwargs must be key=value each, got 'slippery'"):
        keywords_of("env-kwargs", ["slippery"])
    with pytest.raises(ValueError, match=r"--epsilon-schedule must be episode=value each"):
        schedule_of("epsilon-schedule", ["0=1", "later=0.1"])
    with pytest.raises(ValueError, match=r"--env-kwargs: FrozenLake-v1 cannot be made with"):
        runs_for(replace(LAKE, env_settings={"slipery": False}))
    with pytest.raises(ValueError, match=r"--wrappers must be module:Class each, got 'nowhere:X'"):
        runs_for(replace(LAKE, wrappers=("nowhere:X",)))


# ---- what is left on disk


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> tuple[Path, Comparison]:
    folder = tmp_path_factory.mktemp("compared")
    found = quiet(replace(LAKE, sources=("forward",)))
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
    row = found.overall.rows[0]
    chosen = frame.filter((pl.col("arm") == row.outcome.arm.label) & pl.col("chosen"))
    assert chosen["seed"].n_unique() == 4
    assert chosen["mean_return"].mean() == pytest.approx(row.mean)  # checkpoints are one episode each here
    assert (folder / "compare.png").stat().st_size > 1_000
    fixed = frame.filter(pl.col("lambda_source") == "λ = 0.9")["mean_lambda"]
    assert fixed.drop_nans().to_list() == pytest.approx([0.9] * fixed.drop_nans().len())
    assert any(text.startswith("Why, SARSA, Chunked (the paper): its λ was 0.") for text in advice(found))


def test_the_page_says_what_is_recommended_and_has_few_bands(lake):
    folder, found = lake
    page = html.unescape((folder / "compare.html").read_text(encoding="utf-8"))
    chosen = recommended(found)
    assert chosen is not None
    assert f"<code>{command(chosen.outcome, found.settings)}</code>" in page
    assert f"<code>{script(chosen.outcome, found.settings)}</code>" in page
    assert f"All arms: ranking by the {SCORE}." in page
    for plot in (curves_plot(found, found.groups[0], "a"), step_size_plot(found.groups[0], "b")):
        visible = [trace["visible"] for trace in plot.data if trace.get("meta") == "band"]
        assert visible == [True, True, False]
        assert plot.is_on("bands")
        assert [trace["visible"] for trace in plot.data if trace.get("meta") != "band"] == [True] * 3


@pytest.mark.skipif(browser.find() is None, reason="needs Chromium (apt-get install chromium)")
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
            assert page.ask("document.querySelector('.headline').textContent") == advice(found)[0]
        assert page.errors == []
        assert all(address.startswith(("file:", "data:", "blob:", "about:")) for address in page.requests)


@pytest.mark.parametrize(("more", "wait"), [([], 2), (["--no-compiled"], 2), (["--no-compiled"], 0.05)])
def test_an_interrupted_comparison_ends_without_warnings(tmp_path, more, wait):
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
        _, said = started.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode == 130
    assert said.strip() == "interrupted"
    assert not list(tmp_path.iterdir())
