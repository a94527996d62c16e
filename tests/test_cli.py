"""The command line, as a person uses it: small runs, wrong input, what is left on disk."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from chunked_td import __version__, cli, load
from chunked_td._interrupt import is_behind
from chunked_td.cli import COMMANDS
from chunked_td.cli._shared import folder_name
from chunked_td.envs.by_name import make_environment


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    return int(stop.value.code or 0)


def test_train_saves_agent_curve_and_numbers_and_resumes(tmp_path, capsys):
    out = tmp_path / "lake"
    assert run("train", "FrozenLake-v1", "--episodes", "30", "--out", str(out)) == 0
    assert run("train", "FrozenLake-v1", "--episodes", "20", "--out", str(out), "--resume") == 0
    assert "50 episodes in all" in capsys.readouterr().out
    assert load(out / "agent.ctd").episode == 50
    assert pl.read_parquet(out / "curve.parquet").height == 50
    assert (out / "curve.png").stat().st_size > 1_000


def test_an_agent_is_not_overwritten_by_accident(tmp_path, capsys):
    command = ["train", "FrozenLake-v1", "--episodes", "5", "--out", str(tmp_path)]
    assert run(*command) == 0
    before = (tmp_path / "agent.ctd").read_bytes()
    assert run(*command, "--seed", "1") == 2
    assert "holds an agent: --resume" in capsys.readouterr().err
    assert (tmp_path / "agent.ctd").read_bytes() == before
    assert run(*command, "--seed", "1", "--overwrite") == 0
    assert (tmp_path / "agent.ctd").read_bytes() != before


def test_resumed_training_is_the_uninterrupted_one(tmp_path):
    for name, parts in (("whole", ["40"]), ("parts", ["25", "15"])):
        for k, episodes in enumerate(parts):
            more = ["--resume"] if k else []
            assert run("train", "FrozenLake-v1", "--episodes", episodes, "--out", str(tmp_path / name), *more) == 0
    frames = [pl.read_parquet(tmp_path / name / "curve.parquet") for name in ("whole", "parts")]
    assert frames[0].equals(frames[1])


def test_an_interrupted_training_ends_with_its_episode_and_can_be_resumed(tmp_path):
    (tmp_path / "pressing.py").write_text(PRESSING)  # a module in the current folder is found

    def train(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "chunked_td", "train", "pressing:Pressing-v0", "--out", "saved", *more]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")

    done = train("--episodes", "9", "--csv")
    assert done.returncode == 130, done.stderr
    assert "interrupted after 3 of 9 episodes; --resume continues from here" in done.stdout
    assert load(tmp_path / "saved/agent.ctd").episode == 3
    assert train("--resume", "--episodes", "1").returncode == 0
    written = pl.read_csv(tmp_path / "saved/curve.csv"), pl.read_parquet(tmp_path / "saved/curve.parquet")
    assert [frame.height for frame in written] == [4, 4]


PRESSING = """
import os, signal
import gymnasium as gym

class Pressing(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)
    episodes = 0
    def reset(self, *, seed=None, options=None):
        Pressing.episodes += 1
        return 0, {}
    def step(self, action):
        if Pressing.episodes == 3 and not os.path.exists("saved"):  # in the first training alone
            os.kill(os.getpid(), signal.SIGINT)
        return 1, 1.0, True, False, {}

gym.register("Pressing-v0", Pressing, max_episode_steps=5)
"""


@pytest.mark.filterwarnings("ignore:.*precision lowered:UserWarning")
@pytest.mark.filterwarnings("ignore:.*reward returned by:UserWarning")
def test_reward_weights_are_said_kept_and_used(tmp_path, capsys):
    pytest.importorskip("mo_gymnasium")
    command = ["train", "mo_gymnasium:deep-sea-treasure-v0", "--episodes", "3", "--max-steps", "20", "--out"]
    assert run(*command, str(tmp_path), "--reward-weights", "1", "0.1") == 0
    assert "2 reward components with weights 1 0.1" in capsys.readouterr().out
    assert load(tmp_path / "agent.ctd").reward_weights.tolist() == [1.0, 0.1]
    assert run(*command, str(tmp_path), "--resume", "--reward-weights", "1", "1") == 2
    assert "has --reward-weights (1.0, 0.1)" in capsys.readouterr().err


def test_a_saved_agent_is_explained_beside_copies_of_itself(tmp_path, capsys):
    command = ["train", "FrozenLake-v1", "--episodes", "20", "--learner", "SarsaLambda", "--discount", "0.9"]
    assert run(*command, "--lambda", "0.3", "--out", str(tmp_path)) == 0
    why = ["explain", "FrozenLake-v1", "--agent", str(tmp_path / "agent.ctd"), "--out", str(tmp_path / "why")]
    assert run(*why, "--against", "0.9") == 0
    said = capsys.readouterr().out
    assert "SarsaLambda, λ = 0.3: " in said
    assert "SarsaLambda, λ = 0.9: " in said
    assert run(*why, "--step-size", "0.9") == 2
    assert "--step-size is a setting of training, and --agent is trained" in capsys.readouterr().err
    assert run("explain", "FrozenLake-v1", "--agent", "nowhere.ctd") == 2
    assert "--agent: there is no file nowhere.ctd" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "FrozenLake-v1", "--learner", "ChunkedSarse"], "did you mean 'ChunkedSarsa'"),
        (["train", "FrozenLak-v1"], "FrozenLake"),
        (["train", "FrozenLake-v1", "--lambda", "0.5"], "--learner ExpectedSarsaLambda --lambda 0.5 (or SarsaLambda)"),
        (["train", "FrozenLake-v1", "--lr", "0.5"], "--lr: there is no such option; did you mean --step-size 0.5?"),
        (["train", "FrozenLake-v1", "--alpha=0.5"], "did you mean --step-size 0.5?"),
        (["compare", "FrozenLake-v1", "--lr", "0.5"], "did you mean --step-sizes 0.5?"),
        (["compare", "FrozenLake-v1", "--alpha", "0.5"], "did you mean --step-sizes 0.5?"),
        (["compare", "FrozenLake-v1", "--lambda", "0.9"], "did you mean --lambdas 0.9?"),
        (["compare", "FrozenLake-v1", "--gamma", "0.9"], "did you mean --discount 0.9?"),
        (["explain", "FrozenLake-v1", "--gamma", "0.9"], "did you mean --discount 0.9?"),
        (["train", "Pendulum-v1"], "TileCoding"),
        (["compare", "Pendulum-v1"], "LambdaRolloutBuffer"),
        (["train", "CartPole-v1"], "LambdaRolloutBuffer"),
        (["train", "FrozenLake-v1", "--learner", "NaiveTD0", "--step-size", "0.5"], "its step sizes are 1/n(s)"),
        (["train", "nopackage:Foo-v0"], "needs a package that is not installed"),
        (["compare", "FrozenLake-v1", "--step-sizes", "-1"], "step_sizes must be"),
        (["compare", "CartPole-v1"], "Discretise"),
        (["train", "FrozenLake-v1", "--step-size", "-1"], "step_size must be"),
        (["train", "CartPole-v1"], "Discretise"),
        (["train", "FrozenLake-v1", "--episodes", "0"], "--episodes must be a whole number from 1"),
        (["compare", "FrozenLake-v1", "--seeds", "0"], "--seeds must be a whole number from 1"),
        (["compare", "FrozenLake-v1", "--max-steps", "0"], "--max-steps must be a whole number from 1"),
        *(([name, "FrozenLake-v1", "--out", __file__], "--out must be a folder, got") for name in COMMANDS),
    ],
)
def test_wrong_input_is_a_sentence_and_an_exit_code(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) in (2, 3)
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())  # nothing is left behind


def test_compare_ranks_arms_and_writes_what_it_shows(tmp_path, capsys):
    settings = ["--seeds", "2", "--episodes", "20", "--lambdas", "0", "0.9", "--step-sizes", "0.1", "--extend", "0"]
    settings += ["--bootstraps", "sarsa", "expected_sarsa", "--sources", "forward"]
    assert run("compare", "FrozenLake-v1", *settings, "--out", str(tmp_path), "--csv") == 0
    said = capsys.readouterr()
    for arm in ("λ = 0 (SARSA)", "λ = 0.9 (SARSA)", "Chunked (the paper) (Expected-SARSA)"):
        assert arm in said.out
    assert "runs: compiled" in said.err
    assert "2 seeds are too few" in said.out
    assert pl.read_parquet(tmp_path / "compare.parquet").height == (6 + 1) * 2 * 20
    assert all((tmp_path / f"compare.{kind}").exists() for kind in ("png", "svg", "html", "csv", "json"))


def test_a_closed_or_ascii_output_and_a_loop_of_links_are_no_traceback(tmp_path):
    """Standard output may be closed, or unable to write λ; a file may be a link to itself."""
    loop, other = tmp_path / "loop.py", tmp_path / "other.py"
    loop.symlink_to(other)
    other.symlink_to(loop)
    explain = f"explain FrozenLake-v1 --episodes 2 --out {tmp_path / 'out'}"
    for line, code in (
        (f"{explain} >&-", 0),
        (f"PYTHONIOENCODING=ascii {sys.executable} -m chunked_td {explain}", 0),
        (f"train {loop}", 2),
        (f"compare {loop}", 2),
        (f"train FrozenLake-v1 --lambda-source {loop} --out {tmp_path / 'agent'}", 2),
    ):
        command = line if line.startswith("PYTHON") else f"{sys.executable} -m chunked_td {line}"
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr + done.stdout
        assert code == 0 or "loop of symbolic links" in done.stderr


def test_a_comparison_whose_reader_has_enough_is_written_all_the_same(tmp_path):
    """As with `compare … | head -1`: the pipe is closed before the answer is printed."""
    words = f"compare FrozenLake-v1 --episodes 5 --seeds 1 --lambdas 0 0.9 --sources --out {tmp_path}".split()
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "chunked_td", *words], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert (tmp_path / "compare.html").exists()


def test_the_package_is_a_command():
    done = subprocess.run([sys.executable, "-m", "chunked_td", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == __version__


LOADING = """
import os, signal, sys

class Press:
    def find_spec(self, name, *_):
        if name == "chunked_td._loading":
            os.kill(os.getpid(), signal.SIGINT)

sys.argv[0] = "/bin/chunked-td"
sys.meta_path.insert(0, Press())
from chunked_td.cli import main
print("loaded")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals to oneself")
def test_an_interrupt_while_the_command_loads_is_one_line():
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


COMMAND = """
from chunked_td import cli

def ready(restore=cli.restore):
    restore()
    print("ready", flush=True)

cli.restore = ready
cli.main()
"""
"""The command, which tells when Ctrl-C begins to raise KeyboardInterrupt."""


@pytest.mark.parametrize("delay", [0, 0.05, 0.4, 1.2])  # any will do: wherever it falls, there is no traceback
def test_an_interrupt_ends_in_a_sentence(tmp_path, delay):
    script = tmp_path / "chunked-td"
    script.write_text(COMMAND)
    command = [sys.executable, script, "explain", "FrozenLake-v1", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode in (0, 130), said
    assert "Traceback" not in said


def test_an_interrupt_that_python_turned_into_another_error_is_one():
    """Python 3.11 raises RuntimeError from the KeyboardInterrupt that comes while a class is made."""
    turned = RuntimeError("Error calling __set_name__")
    turned.__cause__ = KeyboardInterrupt()
    assert is_behind(turned)
    assert not is_behind(RuntimeError("something else"))


@pytest.mark.parametrize("words", [("--help",), ("train", "--help")])
def test_a_reader_that_closes_the_pipe_is_no_error(words):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "chunked_td", *words], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.stderr == b""


def test_episodes_without_a_limit_get_one():
    """On CliffWalking a poor policy can walk for ever."""
    env = make_environment("CliffWalking-v1", 7)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(7)] == [False] * 6 + [True]
    assert make_environment("FrozenLake-v1", 7).spec.max_episode_steps == 100


MAZES = """
import gymnasium as gym

class Corridor(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(5), gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 2
        return self.at, {}
    def step(self, action):
        self.at += 2 * int(action) - 1
        return self.at, float(self.at == 4), self.at in (0, 4), False, {}
"""


def test_an_environment_may_be_a_python_file(tmp_path, capsys):
    (tmp_path / "one_corridor.py").write_text(MAZES)
    (tmp_path / "two_corridors.py").write_text(MAZES + "class Other(Corridor): pass")
    (tmp_path / "no_corridor.py").write_text("import gymnasium")
    options = ["--episodes", "60", "--out", str(tmp_path / "out"), "--overwrite"]
    for name in ("one_corridor.py", "two_corridors.py:Other"):
        assert run("train", str(tmp_path / name), *options) == 0
        assert "greedy policy, 100 episodes: mean return 1 ±" in capsys.readouterr().out
    wrong = {
        "two_corridors.py": "name one of them, as in",
        "two_corridors.py:Maze": "env must be one of 'Corridor', 'Other', got 'Maze'",
        "no_corridor.py": "must define a class that derives from gymnasium.Env",
        "absent.py": "which does not exist",
    }
    for name, message in wrong.items():
        assert run("train", str(tmp_path / name), *options) == 2
        assert message in capsys.readouterr().err


HELP = re.compile(r"default: .*default: |None[|,}]|STR\b|INT\b|FLOAT\b")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_two_examples_real_metavars_and_one_default_each(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert run(command, "--help") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith(f"    chunked-td {command}")]) == 2
    assert [line for line in lines if HELP.search(line.replace("X|None", "X"))] == []


def test_the_help_of_the_program_names_its_commands(capsys):
    assert run("--help") == 0
    shown = capsys.readouterr().out
    assert all(f"  {command} " in shown for command in COMMANDS)
    assert run() == 2
    assert run("trane") == 2
    assert "did you mean 'train'?" in capsys.readouterr().err


def test_folder_names_are_safe():
    assert folder_name("pkg:Ns/Env-v0", "X", 1) == "pkg_Ns_Env-v0-X-1"
