"""Batches on a bare host, and the way home."""

from __future__ import annotations

import subprocess
import sys

from chunked_td.lab.store.batch_store import Store
from helpers.lab_helpers import TOY, contents, import_batches

BARE = """
import sys
ABSENT = (
    "polars", "gymnasium", "scipy", "rich", "tyro", "matplotlib", "plotly", "ray", "numba", "jax", "jinja2", "filelock",
)
class Without:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
from chunked_td.lab.running import remote
sys.exit(remote.main(sys.argv[1:]))
"""


def on_a_bare_host(*arguments):
    command = [sys.executable, "-c", BARE, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_results_come_home(tmp_path, reproduce, capsys):
    away = tmp_path / "away"
    first = on_a_bare_host("--protocol", TOY, "--arms", "fixed", "--out", str(away))
    assert first.returncode == 0, first.stderr
    assert len(list(away.glob("*.npz"))) == 6
    again = on_a_bare_host("--protocol", TOY, "--arms", "fixed", "--out", str(away))
    assert "0 of 6 batches to do" in again.stdout
    assert import_batches(away, out=tmp_path / "home", experiments=[TOY]) == 0
    assert "6 batches imported" in capsys.readouterr().out
    assert reproduce(out=tmp_path / "straight") == 0
    assert contents(tmp_path / "home") == contents(tmp_path / "straight")
    assert Store.read(tmp_path / "home").table("toy").equals(Store.read(tmp_path / "straight").table("toy"))
    assert reproduce(out=tmp_path / "home") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert import_batches(away, out=tmp_path / "home", experiments=[TOY]) == 0
    assert "0 batches imported" in capsys.readouterr().out
    assert len(Store.read(tmp_path / "home").directory.log.batches()) == 6


def test_what_comes_later_joins_what_is_there(tmp_path):
    away = tmp_path / "away"
    on_a_bare_host("--protocol", TOY, "--arms", "sarsa-0", "--seeds", "20", "--out", str(away))
    files = sorted(away.glob("*.npz"))
    assert len(files) > 1
    for number, file in enumerate(files):  # one at a time
        portion = tmp_path / f"portion{number}"
        portion.mkdir()
        file.rename(portion / file.name)
        assert import_batches(portion, out=tmp_path / "home", experiments=[TOY]) == 0
    assert Store.read(tmp_path / "home").table("toy")["seed"].n_unique() == 20


def test_a_damaged_result_is_named_and_the_others_are_taken(tmp_path, capsys):
    away = tmp_path / "away"
    on_a_bare_host("--protocol", TOY, "--arms", "sarsa-0", "--out", str(away))
    victim, _ = sorted(away.glob("*.npz"))
    victim.write_bytes(victim.read_bytes()[:-50])
    assert import_batches(away, out=tmp_path / "home", experiments=[TOY]) == 1
    said = capsys.readouterr()
    assert str(victim) in said.err
    assert "1 batches imported" in said.out
    again = on_a_bare_host("--protocol", TOY, "--arms", "sarsa-0", "--out", str(away))
    assert "1 of 2 batches to do" in again.stdout


def test_results_of_other_settings_are_kept_but_not_shown(tmp_path, capsys):
    from pathlib import Path

    other = tmp_path / "toy.py"
    other.write_text(Path(TOY).read_text().replace("(10, 0.5)", "(20, 0.5)"))
    on_a_bare_host("--protocol", str(other), "--arms", "sarsa-0", "--out", str(tmp_path / "away"))
    assert import_batches(tmp_path / "away", out=tmp_path / "home", experiments=[TOY]) == 0
    assert "made with other settings" in capsys.readouterr().err
    assert len(contents(tmp_path / "home")) == 2


def test_one_folder_holds_one_precision(tmp_path, capsys):
    from chunked_td.lab.catalogue import load_protocols
    from chunked_td.lab.running import remote
    from chunked_td.lab.running.plan import SweepOptions, make_plan
    from chunked_td.lab.store.directory import RunDirectory

    out, asked = tmp_path / "away", ["--protocol", "key-to-door", "--arms", "c-default", "--out"]
    name = make_plan(load_protocols(["key-to-door"]), SweepOptions("paper", ("c-default",), None, None)).batches[0].name
    with RunDirectory.for_writing(out) as directory:
        directory.log.write("batch", file=f"{name}.npz", precision="tf32")
    assert remote.main([*asked, str(out), "--precision", "float32"]) == 2
    assert f"holds {name}.npz in tf32: name another folder for float32" in capsys.readouterr().err


def test_nothing_to_import(tmp_path, capsys):
    assert import_batches(tmp_path, out=tmp_path / "home") == 2
    assert "no .npz files" in capsys.readouterr().err


def test_arms_that_ask_networks_different_questions_do_not_share_a_program():
    from chunked_td.lab.catalogue import load_protocols
    from chunked_td.lab.running.batches import NetworkRunner, programs_of
    from chunked_td.lab.running.plan import SweepOptions, make_plan

    def programs(name, *arms):
        batches = make_plan(load_protocols([name]), SweepOptions("paper", arms)).batches
        return [[batch.arm.id for batch in program] for program in programs_of(batches, NetworkRunner(together=True))]

    assert programs("key-to-door", "c-default", "c-factored") == [["c-default", "c-factored"]]
    assert programs("accumulated-charge", "chunked", "expected") == [["chunked"], ["expected"]]


def test_networks_that_share_a_program_bring_a_result_per_arm(monkeypatch):
    """A stand-in for the networks: what it is given and what becomes of its answers."""
    from dataclasses import replace
    from types import SimpleNamespace

    import numpy as np

    from chunked_td.lab.catalogue import load_protocols
    from chunked_td.lab.running.batches import NetworkRunner
    from chunked_td.lab.running.engines import LocalEngine
    from chunked_td.lab.running.plan import SweepOptions, make_plan
    from chunked_td.lambdas import FactoredLambda, ForwardLambda
    from chunked_td.simulation import networks as neural

    calls, sources = [], [ForwardLambda(), FactoredLambda()]

    def run_together(dynamics, crews, *, config, noisy_steps, record_at, report, **shared):
        calls.append((config, noisy_steps, [crew.lambda_source for crew in crews]))
        report(record_at[-1])
        shape = (len(crews[0].seeds), len(record_at))
        made = [np.full(shape, 2.0 + sources.index(crew.lambda_source)) for crew in crews]
        return [SimpleNamespace(misses_at=m, returns_at=m, diagnostics={"loss": m + 1}) for m in made]

    monkeypatch.setattr(neural, "run_together", run_together)
    monkeypatch.setattr(neural, "can_share", lambda *_: True)
    (toy,) = load_protocols([TOY])
    arms = (
        replace(toy.arm("net"), lambda_source=sources[0]),
        replace(toy.arm("net"), id="other", lambda_source=sources[1]),
    )
    plan = make_plan([replace(toy, arms=arms, seeds=10)], SweepOptions("paper"))
    results = list(LocalEngine(1, NetworkRunner(together=True)).run(plan.batches))
    assert calls == [(toy.arm("net").model.config, None, sources)]
    assert [result.batch.arm.id for result in results] == ["net", "other"]
    assert all(result.columns is not None for result in results)
    np.testing.assert_allclose(results[1].columns["score"], 3.0)
    np.testing.assert_allclose(results[1].columns["loss"], 4.0)
