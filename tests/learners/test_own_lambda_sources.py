"""λ sources written by a user: plain Python and kernels, saved and loaded, learning, and beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td import cli
from chunked_td.bootstraps import SARSA
from chunked_td.envs.dynamics import KeyToDoor, TransitionTable
from chunked_td.lambdas.reading import read_source
from chunked_td.lambdas.step import WHOLE, chance, choice, mixture
from chunked_td.observations import HashedIndexer
from chunked_td.simulation import simulate
from helpers.compilation import COMPILED, uncompiled
from helpers.worlds import World


@dataclass(frozen=True)
class PlainForward(ctd.LambdaSource):
    """The paper's λ, as anyone would write it down."""

    def asks(self, bootstrap):
        return ("mixture",)

    def lambda_t(self, step):
        return step.chance() * step.choice() if step.bootstrap == SARSA else step.mixture()


@dataclass(frozen=True)
class CompiledForward(ctd.LambdaSource):
    """The same as a kernel, with a setting."""

    factor: float = 1.0

    def asks(self, bootstrap):
        return ("mixture",)

    @staticmethod
    @ctd.kernel
    def lambda_t(source, step, i):
        if step.bootstrap == SARSA:
            return source.factor * chance(step, step.action, WHOLE) * choice(step)
        return source.factor * mixture(step, WHOLE)


@dataclass(frozen=True)
class PlainExpected(ctd.LambdaSource):
    """Σ P̂(x'|x,a)² of the action taken, by listing what may come."""

    def asks(self, bootstrap):
        return ("outcomes",)

    def lambda_t(self, step):
        return sum(p * p for _, p in step.outcomes(step.action))


@dataclass(frozen=True)
class Surprise(ctd.LambdaSource):
    """λ(x) = 1/(1 + number of visits so far): learns an array of its own."""

    arrays: ClassVar[dict[str, str]] = {"number": "float64[S]", "seen": "int64[S, A]"}

    @staticmethod
    @ctd.kernel
    def lambda_t(source, step, i):
        return 1.0 / (1.0 + source.number[step.state])

    @staticmethod
    @ctd.kernel
    def after_step(source, step, reward, td_error, ended):
        source.number[step.state] += 1.0


@dataclass(frozen=True)
class PlainCalm(ctd.LambdaSource):
    """λ falls with |r| and |δ| of the step itself; δ is checked against its definition."""

    def lambda_t(self, step):
        ahead = 0.0 if step.terminated else step.next_policy @ step.values(step.next_state)
        delta = step.reward[0] + 0.9 * ahead - step.values(step.state)[step.action]
        np.testing.assert_allclose(step.td_error, [delta], rtol=1e-12, atol=1e-12)
        return 1.0 / (1.0 + abs(step.reward[0]) + abs(step.td_error[0]))


@dataclass(frozen=True)
class Calm(ctd.LambdaSource):
    """The same as a kernel."""

    @staticmethod
    @ctd.kernel
    def lambda_t(source, step, i):
        return 1.0 / (1.0 + abs(step.reward[0]) + abs(step.td_error[0]))


def play(agent, world, episodes=8):
    for _ in range(episodes):
        s = world.reset()
        action, ended = agent.start(world.observe(s), world.info(s)), 0
        while not ended:
            reward, s, ended = world.step(action)
            action = agent.step(float(reward[0]), world.observe(s), ended == 1, ended == 2, world.info(s))
    return agent.tables.values.copy()


@pytest.mark.parametrize("cls", [ctd.ChunkedSarsa, *map(uncompiled, (ctd.ChunkedTD, ctd.ChunkedExpectedSarsa))])
def test_ours_written_by_a_user_is_ours(cls):
    values = []
    for source in (ctd.ForwardLambda(), PlainForward(), CompiledForward()):
        agent = cls(World(4, (3, 2), actions=3), lambda_source=source, epsilon=0.3, seed=2)
        values.append(play(agent, World(4, (3, 2), actions=3)))
    np.testing.assert_allclose(values[1], values[0], rtol=1e-12)
    np.testing.assert_array_equal(values[2], values[0])
    assert values[0].any()


def test_a_plain_source_may_list_outcomes_with_counts_and_with_a_model():
    world = World(4, (6,), actions=2)
    table = {s: {a: [(p, t, 0.0, False) for p, t, _ in world.table[s, a]] for a in range(2)} for s in range(6)}
    for model in (None, ctd.TableModel(table, 2)):
        agent = ctd.ChunkedSarsa(World(4, (6,), actions=2), lambda_source=PlainExpected(), model=model, seed=1)
        assert play(agent, World(4, (6,), actions=2)).any()


def test_a_subclass_of_ours_is_a_source_of_its_own():
    @dataclass(frozen=True)
    class Halved(ctd.ConstantLambda):
        @staticmethod
        @ctd.kernel
        def lambda_t(source, step, i):
            return 0.5 * source.value

    values = [
        play(ctd.SarsaLambda(World(4, (6,)), lambda_source=source, seed=1), World(4, (6,)))
        for source in (Halved(0.8), ctd.ConstantLambda(0.4))
    ]
    np.testing.assert_array_equal(*values)


def test_a_source_sees_the_reward_and_the_td_error_of_the_step():
    values = [
        play(ctd.ChunkedExpectedSarsa(World(4, (6,)), lambda_source=source, discount=0.9, seed=1), World(4, (6,)))
        for source in (PlainCalm(), Calm())
    ]
    np.testing.assert_array_equal(*values)
    assert values[0].any()


def test_exact_analysis_refuses_a_lambda_of_the_step_s_own_td_error():
    table = TransitionTable.from_outcomes([[[(1.0, 0, 1.0, True)]]], starts=0)
    with pytest.raises(ValueError, match="lambda_source Calm"):
        ctd.fixed_point(table, Calm())


def test_settings_of_a_kernel_reach_it():
    values = [
        play(ctd.ChunkedSarsa(World(4, (6,)), lambda_source=CompiledForward(factor), seed=1), World(4, (6,)))
        for factor in (0.0, 1.0)
    ]
    zero = play(ctd.SarsaLambda(World(4, (6,)), lambda_=0.0, seed=1), World(4, (6,)))
    np.testing.assert_array_equal(values[0], zero)
    assert not np.array_equal(values[0], values[1])


@pytest.mark.parametrize("model", ["counts", uncompiled("oracle")])
def test_a_kernel_runs_in_the_simulation(model):
    problem = KeyToDoor.make(horizon=5, distractors=2, scalar_reward=True)
    common: dict[str, Any] = {"learner": "expected_sarsa", "model": model, "step_sizes": 0.3, "seeds": [1, 2]}
    runs = [
        simulate(problem, lambda_source=source, episodes=20, keep_values=True, **common)
        for source in (ctd.ForwardLambda(), CompiledForward())
    ]
    np.testing.assert_array_equal(runs[0].values, runs[1].values)


@pytest.mark.parametrize("learner", ["sarsa", uncompiled("expected_sarsa")])
def test_a_plain_source_runs_in_the_simulation_with_the_results_of_a_kernel(learner):
    problem = KeyToDoor.make(horizon=5, distractors=2, scalar_reward=True)
    common: dict[str, Any] = {"step_sizes": [0.3, 0.1], "seeds": [1, 2], "episodes": 20, "record_at": [7]}
    common |= {"epsilon": np.linspace(1.0, 0.1, 20), "keep_values": True, "keep_lambda": True, "probes": [(0, 0)]}
    compiled, plain = (
        simulate(problem, learner=learner, lambda_source=source, view="traces", initial_value=0.5, **common)
        for source in (ctd.ForwardLambda(), PlainForward())
    )
    for name in ("misses", "misses_at", "steps", "diverged"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(compiled, name))
    for name in ("values", "returns_at", "lambda_at", "probes_at"):
        np.testing.assert_allclose(getattr(plain, name), getattr(compiled, name), rtol=1e-12)
    oracle: dict[str, Any] = common | {"learner": learner, "model": "oracle"}
    compiled, plain = (
        simulate(problem, lambda_source=source, **oracle) for source in (ctd.ForwardLambda(), PlainForward())
    )
    np.testing.assert_allclose(plain.values, compiled.values, rtol=1e-12)


def test_a_source_that_learns_grows_with_the_states_and_is_saved(tmp_path):
    world = World(7, (300,), actions=2, sudden=0.02)
    world.limit = 40
    agent = ctd.ChunkedSarsa(world, lambda_source=Surprise(), indexer=HashedIndexer(), epsilon=0.5, seed=3)
    play(agent, world, 40)
    number = agent._state.source.number
    assert number.size >= agent.indexer.size > 64
    assert number.sum() > 100
    agent.save(tmp_path / "a.ctd")
    with pytest.raises(
        ValueError, match=r"uses .*Surprise, which is not part of chunked_td.*load\(…, lambda_source=…\)"
    ):
        ctd.load(tmp_path / "a.ctd")
    with pytest.raises(ValueError, match=r"lambda_source: the saved learner uses .*Surprise.*got .*ConstantLambda"):
        ctd.load(tmp_path / "a.ctd", lambda_source=ctd.ConstantLambda(0.5))
    twin = ctd.load(tmp_path / "a.ctd", lambda_source=Surprise())
    np.testing.assert_array_equal(twin.learned["number"], agent.learned["number"])
    first, second = World(9, (300,), actions=2), World(9, (300,), actions=2)
    values, others = play(agent, first, 3), play(twin, second, 3)
    rows = 2 * agent.indexer.size  # the room for more may differ
    np.testing.assert_array_equal(others[:rows], values[:rows])


@pytest.mark.parametrize("given", [1.5, float("nan"), "0.5", [0.1, 0.2], None])
def test_what_a_plain_source_gives_is_checked(given):
    @dataclass(frozen=True)
    class Wrong(ctd.LambdaSource):
        def lambda_t(self, step):
            return given

    agent = ctd.ChunkedSarsa(World(4, (6,)), lambda_source=Wrong(), seed=1)
    agent.start(0)
    before = agent.tables.values.copy()
    with pytest.raises((ValueError, TypeError)):
        agent.step(1.0, 1, False)
    np.testing.assert_array_equal(agent.tables.values, before)


def test_a_source_without_a_formula_and_a_class_instead_of_an_instance_are_refused():
    class Nothing(ctd.LambdaSource):
        pass

    with pytest.raises(ValueError, match="must have a method lambda_t"):
        ctd.ChunkedSarsa(World(4, (6,)), lambda_source=Nothing())
    with pytest.raises(ValueError, match=r"did you mean ForwardLambda\(\)\?"):
        ctd.ChunkedSarsa(World(4, (6,)), lambda_source=ctd.ForwardLambda)


def test_questions_that_no_count_model_answers():
    @dataclass(frozen=True)
    class Both(ctd.LambdaSource):
        def asks(self, bootstrap):
            return ("chance", "came_from")

        def lambda_t(self, step):
            return 0.5

    with pytest.raises(ValueError, match="requires chance, came_from, which no single count model provides"):
        ctd.ChunkedSarsa(World(4, (6,)), lambda_source=Both())


# ---- by file, in every command

PLAIN = """
import chunked_td as ctd

class Halfway(ctd.LambdaSource):
    def asks(self, bootstrap):
        return ("mixture",)

    def lambda_t(self, step):
        return 0.5 * step.mixture()
"""
KERNEL = """
import chunked_td as ctd
from chunked_td.lambdas.step import WHOLE, mixture

class Halfway(ctd.LambdaSource):
    def asks(self, bootstrap):
        return ("mixture",)

    @staticmethod
    @ctd.kernel
    def lambda_t(source, step, i):
        return 0.5 * mixture(step, WHOLE)
"""


@pytest.mark.parametrize("text", [PLAIN, pytest.param(KERNEL, marks=pytest.mark.long)], ids=["plain", "kernel"])
def test_a_source_in_a_file_runs_in_every_command_and_leaves_nothing_behind(text, tmp_path, capsys, monkeypatch):
    """With no colour, label or id of its own; at the smallest size."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(text)
    lake = ["FrozenLake-v1", "--episodes", "4", "--lambda-source", "mine.py:Halfway"]
    small = ["--bootstraps", "expected_sarsa", "--lambdas", "0", "--seeds", "2", "--step-sizes", "0.1", "--extend", "0"]
    for command in (
        ["train", *lake, "--learner", "ChunkedExpectedSarsa", "--out", "trained"],
        ["train", *lake, "--learner", "ChunkedExpectedSarsa", "--out", "trained", "--resume"],
        ["explain", *lake, "--against", "0.9", "mine.py", "--out", "explained"],
        ["explain", "FrozenLake-v1", "--agent", "trained/agent.ctd", "--lambda-source", "mine.py", "--out", "again"],
        ["compare", *lake, *small, "--sources", "forward", "--out", "compared"],
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main(command)
        assert stop.value.code == 0, (command, capsys.readouterr())
    said = capsys.readouterr()
    assert said.err.count("Halfway is plain Python: slow") == (text == PLAIN)
    assert "λ: Halfway()" in said.out
    for page in ("explained/explain.html", "compared/compare.html"):
        assert "Halfway" in (tmp_path / page).read_text(encoding="utf-8"), page
    (tmp_path / "mine.py").unlink()
    assert "halfway" not in ctd.lambdas.SOURCES
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *lake])
    assert stop.value.code == 2
    assert "--lambda-source must be a Python file, got 'mine.py', which does not exist" in capsys.readouterr().err


BROKEN = """
from dataclasses import dataclass
import chunked_td as ctd

@dataclass(frozen=True)
class Mine(ctd.LambdaSource):
    def asks(self, bootstrap):
        return ("mixture",)

    @staticmethod
    @ctd.kernel
    def lambda_t(source, step, i):
        return {}
"""


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("source.nothing", r"mine\.py, line 13: .*'return source\.nothing'.* attribute 'nothing' of type Mine"),
        ("step.reward[i] + 'a'", r"mine\.py, line 13: .*reward\[i\] \+ 'a'.*: add\(float64"),
        ("[0.5]", r"mine\.py, line 13: .*'return \[0\.5\]': .* a kernel allocates nothing"),
        ("'a'", "lambda_t must return a number, got unicode"),
        ("0.5 if i else None", "lambda_t must return a number, got Optional"),
        ("never(step)", "name 'never' is not defined"),
    ],
)
def test_an_error_in_a_kernel_is_one_sentence_about_its_line(tmp_path, text, said):
    """Numba's own text has thousands of characters, most of them about code of ours."""
    (tmp_path / "mine.py").write_text(BROKEN.format(text))
    source = read_source(str(tmp_path / "mine.py"))
    table = TransitionTable.from_env("FrozenLake-v1")
    for call in (
        lambda: ctd.ChunkedExpectedSarsa(gym.make("FrozenLake-v1"), lambda_source=source).start(0),
        lambda: ctd.fixed_point(table, lambda_source=source, discount=0.9),
    ):
        with pytest.raises(ValueError, match=said) as found:
            call()
        assert len(str(found.value)) < 250
        assert found.value.__suppress_context__  # a traceback does not show the long text either
