"""`compare`: an independent sweep, both kinds of runs, recipes that train, time, going on, files."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import polars as pl
import pytest
import tyro

import chunked_td as ctd
from chunked_td.cli._shared import keywords_of, schedule_of
from chunked_td.cli.compare import Compare
from chunked_td.cli.train import Train, learner_settings
from chunked_td.comparison.answer import bootstrap_texts, same_texts
from chunked_td.comparison.arms import BOOTSTRAPS, BY_DEFAULT, DYNA, FIXED, RANDOM, SOURCES, Candidate, make_arms
from chunked_td.comparison.ranking import PairedFamily
from chunked_td.comparison.recipe import agent_line, command, script
from chunked_td.comparison.results import Comparison, Outcome
from chunked_td.comparison.running import _gymnasium_run, compile_arms, make_learner, play, problem_of
from chunked_td.comparison.settings import Settings
from chunked_td.envs.by_name import make_indexer_for
from chunked_td.learners.inputs import learner_by_name
from chunked_td.learners.schedule import scaled
from helpers.compilation import uncompiled

LAKE = Settings(
    "FrozenLake-v1", episodes=40, seeds=4, lambdas=(0.0, 0.9), sources=(), bootstraps=("sarsa", "expected_sarsa"),
    step_sizes=(0.1, 0.2),
)  # fmt: skip


def quiet(settings: Settings, out=None, **more) -> Comparison:
    """The comparison, without words."""
    given = {name: getattr(settings, name) for name in settings.__dataclass_fields__ if name != "env"}
    return ctd.compare(settings.env, out=out, say=lambda text: None, **given, **more)


def played(settings: Settings, arm: Candidate, step_size: float, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean return and mean λ per stretch of some runs."""
    runs = [play(step_size, seed, **settings.shared, **arm.settings()) for seed in range(seeds)]
    return np.array([run["mean_return"] for run in runs]), np.array([run["mean_lambda"] for run in runs])


# ---- the numbers


def swept(settings: Settings, seeds) -> dict[str, np.ndarray]:
    """Mean return of all episodes by arm, step size and seed, from agents in Gymnasium's loop."""
    found = {}
    for bootstrap, cls in {"sarsa": ctd.SarsaLambda, "expected_sarsa": ctd.ExpectedSarsaLambda}.items():
        for value in settings.lambdas:
            rows = []
            for step_size in settings.step_sizes:
                row = []
                for seed in seeds:
                    env = gym.make(settings.env)
                    agent = cls(env, lambda_=value, step_size=step_size, discount=settings.discount, epsilon=0.1,
                                seed=seed, action_mask=True)  # fmt: skip
                    row.append(agent.learn(env, settings.episodes, progress=False).returns.mean())
                rows.append(row)
            found[Candidate(bootstrap, f"{value:g}").name] = np.array(rows)
    return found


def standard_error(scores: np.ndarray) -> np.ndarray:
    return scores.std(axis=-1, ddof=1) / np.sqrt(scores.shape[-1])


def disagreements(found: Comparison, theirs: dict[str, np.ndarray]) -> list[str]:
    """Arms whose means, and leads of the best that, are four standard errors away from an independent sweep."""
    wrong = []
    for one in found.outcomes:
        ours, other = one.all_scores, theirs[one.arm.name]
        error = np.hypot(standard_error(ours), standard_error(other))
        wrong += [one.arm.name] * bool((abs(ours.mean(axis=1) - other.mean(axis=1)) > 4 * error).any())
    scores = {name: runs[runs.mean(axis=1).argmax()] for name, runs in theirs.items()}
    top = found.rows[0]
    for row in found.rows[1:]:
        lead = found.lead(top, row)
        ours, other = scores[top.arm.name], scores[row.arm.name]
        ahead, error = ours.mean() - other.mean(), np.hypot(*map(standard_error, (ours, other)))
        wrong += [f"{row.arm.name}, behind"] * (not lead.low - 2 * error <= ahead <= lead.high + 2 * error)
    return wrong


TAXI = Settings(
    "Taxi-v4", episodes=120, seeds=20, lambdas=(0.0, 0.5, 0.9), sources=(), bootstraps=("sarsa", "expected_sarsa"),
    step_sizes=(0.1, 0.4), extend=0,
)  # fmt: skip


@pytest.fixture(scope="module")
def taxi():
    """Bootstrap × λ × step size on Taxi, by agents in Gymnasium and with other seeds."""
    return swept(TAXI, range(100, 106))


def test_the_ranking_agrees_with_an_independent_sweep(taxi):
    """And two errors that it finds."""
    found = quiet(TAXI)
    assert found.how.startswith("compiled")
    assert disagreements(found, taxi) == []
    assert found.rows[0].arm.rule == "0.9"
    behind = [row.arm.rule for row in found.rows if found.lead(found.rows[0], row).low > 0.0]
    assert [value for value in behind if value != "0.9"] == ["0.5", "0.5", "0", "0"]
    assert disagreements(quiet(replace(TAXI, epsilon=0.2)), taxi)
    names = {" 0.5": " 0.9", " 0.9": " 0.5"}
    exchanged = {re.sub(" 0.[59]", lambda at: names[at[0]], label): runs for label, runs in taxi.items()}
    assert len(disagreements(found, exchanged)) >= 4


@pytest.mark.long
@pytest.mark.parametrize("change", [{"action_mask": False}, {"discount": 0.9}], ids=["mask", "discount"])
def test_an_independent_sweep_finds_other_errors(taxi, change):
    assert disagreements(quiet(replace(TAXI, **change)), taxi), change


@pytest.mark.parametrize("mask", [True, False])
def test_compiled_and_gymnasium_runs_have_the_same_distribution(mask):
    settings = Settings("Taxi-v4", episodes=25, action_mask=mask)
    arm = Candidate("expected_sarsa", "0.5")
    found = [played(replace(settings, compiled=compiled), arm, 0.4, 12)[0].mean(axis=1) for compiled in (True, False)]
    error = np.hypot(*(scores.std(ddof=1) / np.sqrt(12) for scores in found))
    assert abs(found[0].mean() - found[1].mean()) < 4 * error


def test_wrappers_bins_and_indexers_play_in_gymnasium():
    assert problem_of(LAKE.problem()).dynamics is not None
    for change in ({"compiled": False}, {"indexer": "hash"}, {"wrappers": ("gymnasium.wrappers:TransformReward",)}):
        if "wrappers" not in change:
            assert problem_of(replace(LAKE, **change).problem()).dynamics is None
    cart = Settings("CartPole-v1", 2, bins=(3, 4, 8, 6), low=(None, -2, None, -2), high=(None, 2, None, 2))
    agent = make_learner(cart, "sarsa", 0.1, 0, {})[1]
    assert agent.indexer.size == 3 * 4 * 8 * 6


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # states without legal actions
@pytest.mark.parametrize("rule", ["forward", uncompiled("value")])
def test_lambda_over_training_is_the_mean_of_the_learners_own(rule):
    """Both kinds of runs play the same episodes of this environment, and add up the λ of every step but the first."""
    settings = Settings("ChunkedTD/KeyToDoor-v0", 60, env_settings={"horizon": 5}, bonus=0.5)
    arm, seeds = Candidate("expected_sarsa", rule), 2
    assert problem_of(settings.problem()).compiles(arm)
    compiled = played(settings, arm, 0.3, seeds)[1]
    assert compiled.shape == (seeds, 30)
    options = {"lambda_source": arm.made[0], "discount": 0.99, "epsilon": 0.1, "exploration": ctd.CountBonus(0.5)}
    for seed in range(seeds):
        env, agent = make_learner(settings, "expected_sarsa", 0.3, seed, options)
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
        problem = problem_of(settings.problem())
        assert _gymnasium_run(problem, "expected_sarsa", 0.3, seed, settings.marks, options, None)[1] == pytest.approx(
            expected
        )


def test_initial_values_and_schedules_reach_both_kinds_of_runs():
    greedy, arm = replace(LAKE, episodes=200, epsilon=0.0), Candidate("expected_sarsa", "0")
    optimistic = played(replace(greedy, initial_value=1.0), arm, 0.1, 4)[0].mean()
    assert optimistic > 0.0  # without exploration and with values of 0, nothing is ever found on this lake
    assert optimistic != played(greedy, arm, 0.1, 4)[0].mean()
    agent = make_learner(LAKE, "sarsa", ctd.linear(0.5, 0.1, 10), 0, {"initial_value": 1.0})[1]
    assert agent.q_values(0).tolist() == [1.0] * 4
    halves = ctd.Schedule(((0, 0.5), (1, 0.5)))
    half = played(replace(LAKE, step_size_schedule=halves, compiled=False), arm, 0.4, 2)
    assert np.array_equal(half[0], played(replace(LAKE, compiled=False), arm, 0.2, 2)[0])


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
    ours = played(replace(LAKE, episodes=500, bonus=0.5), Candidate("sarsa", RANDOM), 0.1, 6)[0].mean(axis=1)
    error = np.hypot(ours.std(ddof=1) / np.sqrt(6), np.std(theirs) / np.sqrt(2_000))
    assert abs(ours.mean() - np.mean(theirs)) < 4 * error


@pytest.mark.parametrize("compiled", [True, False])
def test_arms_that_diverge_are_shown_and_the_others_ranked(compiled):
    cliff = Settings(
        "CliffWalking-v1", episodes=40, seeds=2, lambdas=(0.0, 1.0), sources=(), bootstraps=("sarsa",), max_steps=300,
        step_sizes=(0.9,), extend=0, compiled=compiled,
    )  # fmt: skip
    found = quiet(cliff)
    assert [row.arm.rule for row in found.rows] == ["0"]
    assert [one.arm.rule for one in found.diverged] == ["1"]
    assert "Not ranked, diverged: λ = 1 at α = 0.9 (2 of 2 runs)." in str(found)


def test_compare_extends_the_grid_and_says_where_it_may_not():
    said: list[str] = []
    found = ctd.compare(
        "CliffWalking-v1", episodes=60, seeds=4, lambdas=(0.0, 0.5), sources=(), step_sizes=(0.005, 0.01),
        max_steps=300, extend=2, say=said.append,
    )  # fmt: skip
    assert [text for text in said if "edge of the grid" in text]
    assert all(one.step_sizes[-1] == 0.04 for one in found.outcomes)
    assert "at the edge of the grid; a better one may be beyond" in " ".join(str(found).split())


def test_a_deterministic_world_has_one_row_for_what_is_the_same():
    """Expected TD errors are the TD errors if nothing is random; found by the runs, not by the name."""
    settings = Settings(
        "FrozenLake-v1", episodes=300, seeds=6, lambdas=(0.9,), sources=("0.9+expected-error", "forward"),
        step_sizes=(0.2,), extend=0, env_settings={"is_slippery": False},
    )  # fmt: skip
    found = quiet(settings)
    assert found.facts is not None
    assert found.facts.deterministic
    assert [[arm.rule for arm in one.arms] for one in found.outcomes] == [["0.9", "0.9+expected-error"], ["forward"]]
    assert "your world is deterministic: the expected TD error is the TD error" in " ".join(str(found).split())


# ---- like with like


def test_if_bootstraps_differ_and_lambda_does_not_matter_there_is_one_row_each():
    settings = Settings(
        "helpers.one_step:OneStep-v0", episodes=1_000, seeds=10, lambdas=(0.0, 0.5, 1.0), sources=("forward",),
        step_sizes=(0.2, 0.4), extend=0, epsilon=0.3, bootstraps=("expected_sarsa", "q_learning"),
    )  # fmt: skip
    found = quiet(settings)
    assert [len(one.arms) for one in found.outcomes] == [4, 4]  # λ has no part in it: not one bit differs
    assert any(text.startswith("Expected-SARSA is better than Q-learning") for text in bootstrap_texts(found))
    assert any("nothing that they did" in said or "their λ is the same" in said for said in same_texts(found))


def test_if_lambda_changes_runs_but_no_expectation_there_is_no_difference():
    """One family in twenty would show a difference by chance; these seeds are not among them."""
    settings = Settings(
        "helpers.one_step:CoinFirst-v0", episodes=1_000, seeds=10, lambdas=(0.0, 0.5, 1.0), sources=("forward",),
        step_sizes=(0.2, 0.4), extend=0, epsilon=0.3, bootstraps=("expected_sarsa", "q_learning"),
    )  # fmt: skip
    found = quiet(settings)
    for name in settings.bootstraps:
        scores = np.array([one.scores for one in found.outcomes if one.arm.bootstrap == name])
        assert PairedFamily.of(scores).no_difference
        assert len(scores) == 4  # no two λs have the same runs
    assert any(text.startswith("Expected-SARSA is better than Q-learning") for text in bootstrap_texts(found))
    assert found.headline.startswith("No λ is clearly better")


# ---- arms, and how to train them


def test_the_default_arms():
    arms = make_arms(Settings("x"), features=False)
    assert {arm.bootstrap for arm in arms} == {"expected_sarsa"}
    rules = [arm.rule for arm in arms]
    assert rules[:6] == ["0", "0.5", "0.8", "0.9", "0.95", "1"]
    assert {"0.9+expected-error", "lineage+expected-error", "forward", "expected", DYNA} <= set(rules)
    by_rule = {arm.rule: arm for arm in arms}
    for rule in ("0.9+expected-error", "lineage+expected-error"):
        assert by_rule[rule].made[1]["reward_source"] == ctd.ExpectedError(1.0)
    rivals = {id for id in SOURCES if not ctd.lambdas.SOURCES[id].by_default}
    assert not rivals & set(rules)
    features = [arm.rule for arm in make_arms(Settings("x"), features=True)]
    assert not [rule for rule in features if "error" in rule or rule == DYNA]


def test_a_fixed_lambda_keeps_all_its_digits():
    arms = make_arms(Settings("x", lambdas=(0.9999999, 0.5, 1.0), sources=()), features=False)
    assert [arm.rule for arm in arms] == ["0.9999999", "0.5", "1"]
    assert [arm.value for arm in arms] == [0.9999999, 0.5, 1.0]
    assert "lambda_=0.9999999" in agent_line(outcome(arms[0]), LAKE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sources": ("forwrad",)}, "sources must be among.*did you mean 'forward'"),
        ({"sources": ("0.9+expected-error=2",)}, "expected-error must be followed by a number"),
        ({"bootstraps": ("sarsa", "td")}, "bootstraps must be one of"),
        ({"lambdas": (0.5,), "sources": ()}, "two learners or more"),
        ({"lambdas": (1.5,)}, "lambdas must be"),
        ({"step_sizes": ()}, "step_sizes must be"),
        ({"env_settings": {"slipery": False}}, "--env-kwargs: FrozenLake-v1 cannot be made with"),
        ({"wrappers": ("nowhere:X",)}, "--wrappers must be module:Class each, got 'nowhere:X'"),
        ({"env": "Pendulum-v1"}, "action_space must be Discrete.*TileCoding.*LambdaRolloutBuffer"),
        ({"env": "CartPole-v1"}, "Box of real numbers.*Discretise.*TileCoding.*LambdaRolloutBuffer"),
    ],
)
def test_wrong_settings_are_refused_before_anything_runs(change, message, tmp_path):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        quiet(replace(LAKE, **{"sources": (), "bootstraps": ("sarsa",), **change}), tmp_path / "there")
    assert not (tmp_path / "there" / "runs").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"minutes": 0}, "minutes must be positive"),
        ({"minutes": -1.0}, "minutes must be positive"),
        ({"colour": "red"}, "compare has no setting 'colour'$"),
        ({"alpha": 0.1}, "compare has no setting 'alpha'; did you mean step_sizes?"),
        ({"gamma": 0.9}, "compare has no setting 'gamma'; did you mean discount?"),
    ],
)
def test_wrong_arguments_of_compare(given, said):
    with pytest.raises((ValueError, TypeError), match=said):
        ctd.compare("FrozenLake-v1", **given)
    with pytest.raises(ValueError, match="env must be an id, a Python file or an environment"):
        ctd.compare(object())


SETTINGS = {
    "plain": {},
    "bonus": {"bonus": 0.5, "epsilon": ctd.linear(1.0, 0.1, 20), "action_mask": False, "initial_value": 1.0},
    "schedule": {"step_size_schedule": ctd.linear(1.0, 0.1, 20), "indexer": "hash", "discount": 0.9},
}


def outcome(arm: Candidate) -> Outcome:
    ones = np.ones((1, 4, 1))
    return Outcome(arm, np.array([0.2]), np.array([1]), ones, ones, np.zeros((1, 4), bool))


def same(first, second) -> bool:
    names = (
        "bootstrap", "planner", "reward_source", "step_size", "discount", "epsilon", "exploration", "view",
        "initial_value",
    )  # fmt: skip
    one, two = ([getattr(agent, name) for name in names] for agent in (first, second))
    zero = [getattr(agent.lambda_source, "value", None) == 0.0 for agent in (first, second)]  # cut or not
    alike = all(zero) or first.lambda_source == second.lambda_source
    return one == two and alike and type(first.indexer) is type(second.indexer)


@pytest.mark.parametrize("change", SETTINGS.values(), ids=SETTINGS)
def test_every_arm_can_be_made_in_python_and_in_the_shell(change):
    rules = ("lineage", "lineage+expected-error", "value+lineage", "0.5+expected-error=0.25")
    sources = (*SOURCES, DYNA, *rules)
    settings = replace(LAKE, sources=sources, bootstraps=tuple(BOOTSTRAPS), **change)
    env, in_shell = gym.make("FrozenLake-v1"), set()
    for arm in make_arms(settings, features=False):
        source, options = arm.made
        exploration = None if settings.bonus is None else ctd.CountBonus(settings.bonus)
        given = {
            "lambda_source": source, "discount": settings.discount, "epsilon": settings.exploring,
            "exploration": exploration, "initial_value": settings.initial_value, **options,
        }  # fmt: skip
        step_size = scaled(settings.step_size_schedule, 0.2)
        agent = make_learner(settings, arm.bootstrap, step_size, 0, given)[1]
        space = {"ctd": ctd, "env": env}
        exec(agent_line(outcome(arm), settings), space)
        assert same(space["agent"], agent), arm.label
        words = command(outcome(arm), settings)
        if words is not None:
            train = tyro.cli(Train, args=shlex.split(words)[2:])
            learner = learner_by_name(train.learner)
            assert same(learner(env, **learner_settings(learner, train, env)), agent), words
            in_shell.add(arm.rule if arm.kind != FIXED else FIXED)
    assert in_shell == {FIXED, *sources}


MAZE = '''
"""A corridor with a drift, shown as a real number."""

import gymnasium as gym
import numpy as np


class Corridor(gym.Env):
    observation_space = gym.spaces.Box(0.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0.1, 0
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.x = float(np.clip(self.x + (0.1 if action else -0.1) + 0.02 * self.np_random.normal(), 0.0, 1.0))
        self.t += 1
        done = self.x > 0.95
        return np.array([self.x], np.float32), 10.0 * done - 0.1, done, self.t >= 40, {}
'''


@pytest.mark.parametrize("problem", ["lake", "file"])
def test_the_recommendation_can_be_trained_in_python_and_in_the_shell(problem, tmp_path):
    """Both are run as they are printed, and train the same agent, which has learned something."""
    settings = {
        "lake": Settings(
            "FrozenLake-v1", episodes=400, seeds=8, lambdas=(0.0,), sources=("lineage+expected-error",), extend=0,
            step_sizes=(0.2, 0.8), env_settings={"is_slippery": False}, epsilon=ctd.linear(1.0, 0.05, 200),
        ),
        "file": Settings(
            "corridor.py", episodes=60, seeds=8, lambdas=(0.0, 0.9), sources=(), step_sizes=(0.2, 0.8), bins=(12,),
            initial_value=0.5, extend=0,
        ),
    }[problem]  # fmt: skip
    (tmp_path / "corridor.py").write_text(MAZE)
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        found = quiet(settings, tmp_path / "out")
        assert found.recommended is not None
        python, shell = found.python, found.command
    finally:
        os.chdir(here)
    assert python is not None
    assert shell is not None
    (tmp_path / "train.py").write_text(f"{python}\nagent.save('python.ctd')\nprint(repr(history))\n")
    told = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, text=True, capture_output=True, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(f"History({settings.episodes} episodes, ")
    words = [sys.executable, "-m", "chunked_td", *shlex.split(shell)[1:], "--out", "shell"]
    told = subprocess.run(words, cwd=tmp_path, text=True, capture_output=True, check=False)
    assert told.returncode == 0, told.stderr
    agents = [ctd.load(tmp_path / name) for name in ("python.ctd", "shell/agent.ctd")]
    assert np.array_equal(agents[0].tables.values, agents[1].tables.values)
    assert np.abs(agents[0].tables.values).max() > 0.0


def test_the_script_of_other_problems_runs():
    settings = Settings("CartPole-v1", 1, bins=(3, 4, 8, 6), low=(None, -2, None, -2), high=(None, 2, None, 2))
    settings = replace(settings, wrappers=("gymnasium.wrappers:RecordEpisodeStatistics",))
    one, space = outcome(Candidate("expected_sarsa", "0.9")), {}
    exec(script(one, settings), space)
    assert space["agent"].indexer.size == 3 * 4 * 8 * 6
    assert "from gymnasium.wrappers import RecordEpisodeStatistics\n" in script(one, settings)
    for change in ({}, {"indexer": "tiles", "bins": (4, 5)}, {"bins": (6,)}):
        car, space = Settings("MountainCar-v0", 1, **change), {}
        exec(script(one, car), space)
        made = make_indexer_for(gym.make("MountainCar-v0"), car.bins, car.low, car.high, car.indexer)
        assert repr(space["agent"].indexer) == repr(made)
    cliff = replace(LAKE, env="CliffWalking-v1", env_settings={"is_slippery": True}, max_steps=70)
    assert "env = gym.make('CliffWalking-v1', is_slippery=True, max_episode_steps=70)" in script(one, cliff)
    words = command(one, cliff)
    assert words is not None
    assert words.endswith("--episodes 40 --max-steps 70 --env-kwargs is_slippery=True")


def test_settings_as_text():
    assert keywords_of("env-kwargs", ["is_slippery=False", "map_name=8x8"]) == {"is_slippery": False, "map_name": "8x8"}
    assert schedule_of("epsilon-schedule", ["0=1", "500=0.1"]) == ctd.linear(1.0, 0.1, 500)
    with pytest.raises(ValueError, match=r"--env-kwargs must be key=value each, got 'slippery'"):
        keywords_of("env-kwargs", ["slippery"])
    with pytest.raises(ValueError, match=r"--epsilon-schedule must be episode=value each"):
        schedule_of("epsilon-schedule", ["0=1", "later=0.1"])


def test_an_environment_object_is_named_by_its_id():
    env = gym.make("FrozenLake-v1", is_slippery=False)
    found = ctd.compare(env, episodes=10, seeds=2, lambdas=(0.0, 0.9), sources=(), step_sizes=(0.2,), extend=0,
                        say=lambda text: None)  # fmt: skip
    assert found.settings.env == "FrozenLake-v1"
    assert found.settings.env_settings["is_slippery"] is False


def test_the_command_has_the_defaults_of_the_function():
    command = Compare("x")
    given = Settings("x", **command.settings())
    assert given == Settings("x")
    assert command.minutes is None
    assert set(BY_DEFAULT) <= {arm.rule for arm in make_arms(given, features=False)}


# ---- time


def test_seeds_are_added_until_the_answer_is_clear():
    """Interim analyses share the error; nothing is added if the first one is clear, nor if the time is used."""
    said: list[str] = []
    settings = {
        "episodes": 30,
        "lambdas": (0.0, 0.5),
        "sources": (),
        "max_steps": 200,
        "step_sizes": (0.2,),
        "extend": 0,
    }
    found = ctd.compare("CliffWalking-v1", say=said.append, minutes=60.0, **settings)
    assert found.seeds in (10, 20, 40)
    assert found.looks == 3
    assert found.family.error == pytest.approx(0.05 / 3)
    assert found.family.clear or found.seeds == 40
    assert ctd.compare("CliffWalking-v1", say=said.append, seeds=6, **settings).family.error == 0.05


def test_minutes_are_kept_to():
    """Two seconds for a comparison that would take much longer: only the first seed always runs, and that is said."""
    said: list[str] = []
    settings = {"lambdas": (0.0, 0.9), "sources": (), "step_sizes": (0.2,), "extend": 0, "compiled": False}
    ctd.compare("FrozenLake-v1", episodes=5, seeds=2, say=said.append, **settings)  # the processes have started
    begun = time.monotonic()
    found = ctd.compare("FrozenLake-v1", episodes=400, minutes=2 / 60, say=said.append, **settings)
    assert time.monotonic() - begun < 60  # a busy machine; unlimited it would be ten seeds and more
    assert 1 <= found.seeds <= 40
    assert found.seeds == 40 or any("minutes are used after" in text for text in said)


def test_without_time_there_is_one_seed_and_the_next_step_is_said():
    said: list[str] = []
    settings = {"lambdas": (0.0, 0.9), "sources": (), "step_sizes": (0.1, 0.2), "episodes": 5, "compiled": False}
    found = ctd.compare("FrozenLake-v1", minutes=1e-6, say=said.append, **settings)
    assert found.seeds == 1
    assert all(one.step_sizes.size == 2 for one in found.outcomes)  # no grid has grown
    assert any("after 1 seed; a verdict needs 6, about " in text for text in said)
    assert "--seeds 6, or with more --minutes: finished runs are kept" in found.headline


def test_episodes_fit_into_the_time_unless_they_are_named(tmp_path):
    said: list[str] = []
    settings = {"lambdas": (0.0, 0.9), "sources": (), "step_sizes": (0.2,), "extend": 0, "compiled": False, "seeds": 1}
    found = ctd.compare("FrozenLake-v1", minutes=0.001, say=said.append, out=tmp_path, **settings)
    episodes = found.settings.episodes  # as many as a machine as fast as this one plays in the time, at least 50
    assert 50 <= episodes < 1_000
    assert any(text.startswith("1,000 episodes a run would take about") and f"have {episodes}" in text for text in said)
    again = ctd.compare("FrozenLake-v1", say=said.append, out=tmp_path, **settings)
    assert again.settings.episodes == episodes  # those of the folder: the same call continues
    assert again.runs.equals(found.runs)


@pytest.mark.parametrize("slow", [True, False])
def test_what_takes_longer_than_a_minute_is_said_before_it_begins(slow):
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 2:
            raise KeyboardInterrupt  # nothing has to be run

    settings = replace(LAKE, episodes=50_000 if slow else 2, extend=0, compiled=not slow)
    try:
        given = {name: getattr(settings, name) for name in settings.__dataclass_fields__ if name != "env"}
        ctd.compare(settings.env, say=say, **given)
    except KeyboardInterrupt:
        assert slow
    assert ["take about" in text for text in said] == ([False, True] if slow else [False])


# ---- what is left on disk


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> tuple[Path, Comparison]:
    folder = tmp_path_factory.mktemp("compared")
    found = quiet(replace(LAKE, sources=("forward",), seeds=6, episodes=300, initial_value=1.0, epsilon=0.02), folder)
    assert found.recommended is not None
    found.save(folder)
    return folder, found


def test_runs_are_stored_and_give_the_scores(lake):
    folder, found = lake
    frame = pl.read_parquet(folder / "compare.parquet")
    assert frame.columns == ["arm", "step_size", "seed", "episode", "mean_return", "mean_lambda", "diverged"]
    row = found.rows[0]
    own = frame.filter(pl.col("arm") == row.arm.name)
    by_run = own.group_by("step_size", "seed").agg(pl.col("mean_return").mean())
    for place, size in enumerate(row.step_sizes):
        runs = by_run.filter(pl.col("step_size") == size).sort("seed")["mean_return"]
        assert runs.to_numpy() == pytest.approx(row.all_scores[place])
    fixed = frame.filter(pl.col("arm") == "sarsa 0.9")["mean_lambda"].drop_nans()
    assert fixed.to_list() == pytest.approx([0.9] * fixed.len())
    kept = json.loads((folder / "compare.json").read_text("utf-8"))
    assert (kept["env"], kept["episodes"]) == ("FrozenLake-v1", 300)


def test_the_page_is_small_answers_first_and_needs_no_script_and_no_network(lake):
    folder, found = lake
    page = (folder / "compare.html").read_text(encoding="utf-8")
    assert (folder / "compare.html").stat().st_size < 1_000_000
    assert "<script" not in page
    assert "javascript:" not in page
    loaded = re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*\"|@import[^;]*|url\((?!#)[^)]*\)", page)
    assert loaded == []
    places = [page.index(text) for text in ('class="answer"', "<svg", "<table", "<pre>", "<details>")]
    assert places == sorted(places)
    assert found.headline.split(" (")[0] in page
    assert (folder / "compare.svg").stat().st_size > 1_000
    width = int.from_bytes((folder / "compare.png").read_bytes()[16:20], "big")
    assert width > 1_200  # 6.75 inches at 200 dpi
    ids = re.findall(r"\bid=\"([^\"]+)\"", page)
    assert len(ids) == len(set(ids))  # two pictures on one page do not mix
    assert set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", page)) <= set(ids)


def test_finished_runs_are_kept_and_the_same_call_continues(tmp_path):
    settings = replace(LAKE, seeds=2, extend=0)
    first, whole = quiet(settings, tmp_path), quiet(settings)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("part-*")}
    assert kept
    again = quiet(settings, tmp_path)
    assert again.runs.equals(first.runs)
    assert again.runs.equals(whole.runs)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("part-*")} == kept
    with pytest.raises(ValueError, match=r"discount of .* was 0\.99, is 0\.5.*--overwrite"):
        quiet(replace(settings, discount=0.5), tmp_path)
    assert quiet(replace(settings, discount=0.5), tmp_path, overwrite=True).settings.discount == 0.5
    assert not any(path.exists() for path in kept)
    quiet(replace(settings, discount=0.5, lambdas=(0.0, 0.9, 0.5)), tmp_path)  # more arms are no other settings


def test_an_edited_file_is_another_problem(tmp_path):
    path = tmp_path / "corridor.py"
    path.write_text(MAZE)
    settings = Settings(str(path), episodes=3, seeds=2, lambdas=(0.0, 0.9), sources=(), step_sizes=(0.2,), bins=(8,),
                        extend=0)  # fmt: skip
    quiet(settings, tmp_path / "out")
    path.write_text(MAZE.replace("0.02 *", "0.2 *"))
    with pytest.raises(ValueError, match=r"problem of .*--overwrite"):
        quiet(settings, tmp_path / "out")


@pytest.mark.parametrize("more", [[], ["--no-compiled"]])
def test_an_interrupted_comparison_keeps_its_runs(tmp_path, more):
    command = [
        sys.executable, "-m", "chunked_td", "compare", "FrozenLake-v1", "--episodes", "1000000", "--seeds", "2",
        "--sources", "forward", "--out", str(tmp_path), *more,
    ]  # fmt: skip
    started = subprocess.Popen(
        command, start_new_session=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert started.stderr is not None
    assert started.stderr.readline().startswith("comparing on")  # at once
    while "learners" not in (line := started.stderr.readline()):
        assert line
    time.sleep(2)
    os.killpg(started.pid, signal.SIGINT)
    try:
        _, said = started.communicate(timeout=300)
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode == 130
    assert "interrupted; finished runs are kept, the same command continues" in said
    assert "Traceback" not in said, said


def test_the_command_prints_forty_lines_at_most(tmp_path):
    words = [
        sys.executable, "-m", "chunked_td", "compare", "FrozenLake-v1", "--episodes", "30", "--seeds", "6", "--out",
        str(tmp_path), "--sources", "forward", "0.9+expected-error", "dyna", "--bootstraps", "sarsa", "expected_sarsa",
    ]  # fmt: skip
    told = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert told.returncode == 0, told.stdout
    assert len(told.stdout.splitlines()) <= 40
    assert told.stdout.startswith("comparing on FrozenLake-v1")
    assert "saved: " in told.stdout


@pytest.mark.long
def test_ray_gives_the_same_runs(tmp_path):
    settings = replace(LAKE, seeds=2, extend=0)
    assert quiet(settings, tmp_path, engine="ray").runs.equals(quiet(settings).runs)


def test_runs_find_their_programs_compiled(monkeypatch):
    settings, link = Settings("FrozenLake-v1", episodes=60), sys.modules["chunked_td._link.link"]
    arms = [Candidate("expected_sarsa", rule).settings() for rule in ("0.5", "expected")]
    compile_arms(arms, settings.shared)

    def refuse(*arguments):
        raise AssertionError("a run compiled another program than compile_arms did")

    monkeypatch.setattr(link, "_compiled", refuse)
    for arm in (*arms, Candidate("expected_sarsa", "0.9").settings()):
        assert play(0.1, 3, **{**settings.shared, **arm})["episode"][-1] == 60
