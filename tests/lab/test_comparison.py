"""`compare`: fair selection, families of intervals, like with like, an independent sweep, the page and files."""

from __future__ import annotations

import contextlib
import os
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

import chunked_td as ctd
from chunked_td.cli._shared import keywords_of, schedule_of
from chunked_td.cli.compare import write_comparison
from chunked_td.lab.comparison import Comparison, ComparisonSettings, compare
from chunked_td.lab.comparison.advice import NO_DIFFERENCE, advice, group_text
from chunked_td.lab.comparison.arms import LearnerArm
from chunked_td.lab.comparison.ranking import PairedFamily, chosen_sizes
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


def test_the_ranking_agrees_with_an_independent_sweep():
    """Bootstrap × λ × step size on Taxi, as plain loops over the public learners in Gymnasium, with other seeds."""
    lambdas, sizes, episodes = (0.0, 0.9), (0.1, 0.4), 60
    settings = ComparisonSettings(
        "Taxi-v4", episodes=episodes, seeds=20, lambdas=lambdas, sources=(), step_sizes=sizes, extend=0
    )
    found = quiet(settings)
    assert "compiled" in found.how
    env = gym.make("Taxi-v4")
    swept: dict[str, np.ndarray] = {}
    for name, learner in (("SARSA", ctd.SarsaLambda), ("Expected-SARSA", ctd.ExpectedSarsaLambda)):
        for lambda_ in lambdas:
            runs = np.array(
                [
                    [
                        learner(env, lambda_=lambda_, step_size=size, discount=0.99, epsilon=0.1, seed=seed)
                        .learn(env, episodes, progress=False)
                        .returns.mean()
                        for seed in range(100, 106)
                    ]
                    for size in sizes
                ]
            )
            swept[f"{name}, λ = {lambda_:g}"] = runs[runs.mean(axis=1).argmax()]
    overall = found.overall
    top = overall.rows[0].outcome.arm.label
    for row in overall.rows:
        gap, label = overall.family.gap(row.place), row.outcome.arm.label
        theirs = swept[top].mean() - swept[label].mean()
        error = np.hypot(*(swept[key].std(ddof=1) / np.sqrt(6) for key in (top, label)))
        assert gap.low - 3.5 * error <= theirs <= gap.high + 3.5 * error, label
    beaten = [row.outcome.arm.label for row in overall.rows[1:] if not overall.tied(row)]
    assert max(swept, key=lambda key: swept[key].mean()) not in beaten


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


@pytest.mark.parametrize("source", ["forward", "value"])
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
    with pytest.raises(ValueError, match=r"--env-kwargs: FrozenLake-v1 does not take"):
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
    assert any(text.startswith("Why, SARSA, chunked (forward): its λ was 0.") for text in advice(found))


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
