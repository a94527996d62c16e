"""Batches on a bare host, and the way home."""

from __future__ import annotations

import subprocess
import sys

from lab_helpers import TOY, contents

from chunked_td.lab import commands
from chunked_td.lab.store import Store

BARE = """
import sys
ABSENT = ("polars", "gymnasium", "scipy", "rich", "tyro", "matplotlib", "plotly", "ray", "numba", "jax")
class Without:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
from chunked_td.lab import remote
sys.exit(remote.main(sys.argv[1:]))
"""


def on_a_bare_host(*arguments):
    command = [sys.executable, "-c", BARE, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_results_come_home(tmp_path, reproduce, capsys):
    away = tmp_path / "away"
    first = on_a_bare_host("--protocol", TOY, "--arms", "fixed", "--out", str(away))
    assert first.returncode == 0, first.stderr
    assert len(list(away.glob("*.npz"))) == 6
    again = on_a_bare_host("--protocol", TOY, "--arms", "fixed", "--out", str(away))
    assert "0 of 6 batches to do" in again.stdout
    assert commands.import_batches(away, out=tmp_path / "home", experiments=[TOY]) == 0
    assert "6 batches imported" in capsys.readouterr().out
    assert reproduce(out=tmp_path / "straight") == 0
    assert contents(tmp_path / "home") == contents(tmp_path / "straight")
    assert Store.read(tmp_path / "home").table("toy").equals(Store.read(tmp_path / "straight").table("toy"))
    assert reproduce(out=tmp_path / "home") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert commands.import_batches(away, out=tmp_path / "home", experiments=[TOY]) == 0
    assert "0 batches imported" in capsys.readouterr().out
    diary = Store.read(tmp_path / "home").directory.diary()
    assert sum(line["event"] == "batch" for line in diary) == 6


def test_what_comes_later_joins_what_is_there(tmp_path):
    away = tmp_path / "away"
    on_a_bare_host("--protocol", TOY, "--arms", "sarsa-0", "--seeds", "20", "--out", str(away))
    files = sorted(away.glob("*.npz"))
    assert len(files) > 1
    for number, file in enumerate(files):  # one at a time
        portion = tmp_path / f"portion{number}"
        portion.mkdir()
        file.rename(portion / file.name)
        assert commands.import_batches(portion, out=tmp_path / "home", experiments=[TOY]) == 0
    assert Store.read(tmp_path / "home").table("toy")["seed"].n_unique() == 20


def test_a_damaged_result_is_named_and_the_others_are_taken(tmp_path, capsys):
    away = tmp_path / "away"
    on_a_bare_host("--protocol", TOY, "--arms", "sarsa-0", "--out", str(away))
    victim, _ = sorted(away.glob("*.npz"))
    victim.write_bytes(victim.read_bytes()[:-50])
    assert commands.import_batches(away, out=tmp_path / "home", experiments=[TOY]) == 1
    said = capsys.readouterr()
    assert str(victim) in said.err
    assert "1 batches imported" in said.out
    again = on_a_bare_host("--protocol", TOY, "--arms", "sarsa-0", "--out", str(away))
    assert "1 of 2 batches to do" in again.stdout


def test_results_of_other_settings_are_kept_but_not_shown(tmp_path, capsys):
    from pathlib import Path

    other = tmp_path / "toy.py"
    other.write_text(Path(TOY).read_text().replace("hold=10", "hold=20"))
    on_a_bare_host("--protocol", str(other), "--arms", "sarsa-0", "--out", str(tmp_path / "away"))
    assert commands.import_batches(tmp_path / "away", out=tmp_path / "home", experiments=[TOY]) == 0
    assert "made with other settings" in capsys.readouterr().err
    assert len(contents(tmp_path / "home")) == 2


def test_one_folder_holds_one_precision(tmp_path, capsys):
    from chunked_td.lab import remote
    from chunked_td.lab.directory import Directory
    from chunked_td.lab.experiments import load_all
    from chunked_td.lab.sweep import Options, make_plan

    out, asked = tmp_path / "away", ["--protocol", "key-to-door", "--arms", "c-default", "--out"]
    name = make_plan(load_all(["key-to-door"]), Options("paper", ("c-default",), None, None)).batches[0].name
    with Directory.for_writing(out) as directory:
        directory.log("batch", file=f"{name}.npz", precision="tf32")
    assert remote.main([*asked, str(out), "--precision", "float32"]) == 2
    assert f"holds {name}.npz in tf32: name another folder for float32" in capsys.readouterr().err


def test_nothing_to_import(tmp_path, capsys):
    assert commands.import_batches(tmp_path, out=tmp_path / "home") == 2
    assert "no .npz files" in capsys.readouterr().err


def test_arms_that_ask_networks_different_questions_do_not_share_a_program():
    from chunked_td.lab.batches import together_key
    from chunked_td.lab.experiments import load
    from chunked_td.lab.sweep import Options, batches_of, size_of

    def keys(name, *arms):
        (protocol,) = load(name)
        chosen = [protocol.arm(arm) for arm in arms]
        return {together_key(batches_of(protocol, arm, size_of(protocol, arm, Options("paper")))[0]) for arm in chosen}

    assert len(keys("key-to-door", "c-default", "c-factored")) == 1
    assert len(keys("accumulated-charge", "chunked", "expected")) == 2


def test_networks_that_share_a_program_bring_a_result_per_arm(tmp_path, monkeypatch):
    """A stand-in for the networks: what it is given and what becomes of its answers."""
    import sys
    from dataclasses import dataclass, replace
    from types import SimpleNamespace
    from typing import Any

    import numpy as np

    from chunked_td.lab.experiments import load
    from chunked_td.lab.remote import run_networks
    from chunked_td.lab.sweep import Options, make_plan

    @dataclass
    class Crew:
        lambda_source: Any
        seeds: Any
        step_sizes: Any

    calls = []

    def run_together(dynamics, crews, *, model, record_at, report, **shared):
        calls.append((model, [crew.lambda_source for crew in crews]))
        report(record_at[-1])
        shape = (len(crews[0].seeds), len(record_at))
        made = [np.full(shape, 10.0 * crew.lambda_source) for crew in crews]
        return [SimpleNamespace(misses_at=m, returns_at=m, diagnostics={"loss": m + 1}) for m in made]

    monkeypatch.setitem(sys.modules, "chunked_td.lab.neural", SimpleNamespace(Crew=Crew, run_together=run_together))
    toy = load(TOY)[0]
    net = toy.arm("net")
    both = replace(toy, arms=(net, replace(net, id="other", lambda_source=0.3)), seeds=10)
    monkeypatch.setattr("chunked_td.lab.sweep.network_support", lambda: True)
    results = list(run_networks(make_plan([both], Options("paper")).batches))
    assert calls == [("toy", [0.2, 0.3])]
    assert [result.batch.arm.id for result in results] == ["net", "other"]
    assert all(result.columns is not None for result in results)
    np.testing.assert_allclose(results[1].columns["score"], 3.0)
    np.testing.assert_allclose(results[1].columns["loss"], 4.0)
