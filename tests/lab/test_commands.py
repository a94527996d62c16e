"""The command: exit codes, messages, plans, Ctrl-C."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from chunked_td.lab.running import reproduce as reproduce_module
from chunked_td.lab.store.batch_store import Store
from helpers.lab_helpers import TOY, contents, finish, start


def test_the_second_time_there_is_nothing_to_do(tmp_path):
    assert finish(start(tmp_path / "run"))[0] == 0
    before = contents(tmp_path / "run")
    code, said, _ = finish(start(tmp_path / "run", environment={"TOY_FAIL": "0.5", "TOY_HOLD": "0.0"}))
    assert code == 0  # no batch was asked for
    assert "nothing to do: all 120 runs" in said
    assert contents(tmp_path / "run") == before


def test_a_dry_run_changes_nothing(reproduce, tmp_path, capsys):
    assert reproduce(dry_run=True) == 0
    said = capsys.readouterr().out
    assert "toy sarsa-0.5" in said
    assert "120 of 120 runs to do in 6 batches; estimate: " in said
    assert not (tmp_path / "run").exists()
    assert reproduce(seeds=10) == 0
    assert reproduce(dry_run=True) == 0
    assert "60 of 120 runs to do in 3 batches" in capsys.readouterr().out


def test_lines_elsewhere_than_on_a_terminal(reproduce, capsys):
    assert reproduce() == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert "toy SARSA(0) seeds 0–9" in lines[0]
    assert "arms 3/3 · runs 120/120" in lines[-1]
    assert "left" in lines[-1]


def test_a_bar_on_a_terminal(toy, monkeypatch):
    import io

    from chunked_td.lab.running.engines import attempt
    from chunked_td.lab.running.plan import SweepOptions, make_plan
    from chunked_td.lab.running.progress import SweepProgress

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    batches = make_plan([toy], SweepOptions(networks=False)).batches
    progress = SweepProgress(batches, lambda some: float(len(some)), stream)
    for batch in batches:
        progress.batch_done(attempt([batch], 1)[0])
    progress.close()
    assert "runs 120/120" in stream.getvalue()


def test_quiet_is_quiet(reproduce, capsys):
    assert reproduce(quiet=True) == 0
    assert capsys.readouterr() == ("", "")


def test_an_error_in_a_batch_does_not_stop_the_others(reproduce, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TOY_FAIL", "0.5")
    assert reproduce() == 1
    said = capsys.readouterr().err
    assert "2 of 6 batches failed" in said
    assert "ValueError: asked to fail at λ = 0.5" in said
    assert len(contents(tmp_path / "run")) == 4
    monkeypatch.delenv("TOY_FAIL")
    assert reproduce() == 0
    assert len(contents(tmp_path / "run")) == 6


@pytest.mark.parametrize(
    ("experiments", "options", "words"),
    [
        (["key-to-dor"], {}, "did you mean 'key-to-door'"),
        (["no/such.py"], {}, "no study file"),
        (["skewed-split", "skewed-split"], {}, "named twice"),
        ([TOY], {"arms": ["sarsa-7"]}, "matches no arm"),
        ([TOY], {"seeds": 0}, "--seeds must be a whole number from 1, got 0"),
        ([TOY], {"episodes": -1}, "--episodes must be a whole number from 1, got -1"),
        ([TOY], {"threads": 0, "dry_run": True}, "--threads must be a whole number from 1, got 0"),
        ([TOY], {"arms": ["fixd"]}, "did you mean 'fixed'"),
        ([TOY], {"profile": "slow"}, "--profile must be one of quick, paper, smoke, got 'slow'"),
        ([TOY], {"engine": "slurm", "networks": False}, "--engine must be local or ray, got 'slurm'"),
        ([TOY], {"address": "auto", "networks": False}, "--engine ray"),
    ],
)
def test_requests_that_make_no_sense(tmp_path, capsys, experiments, options, words):
    assert reproduce_module.reproduce(experiments, out=tmp_path / "run", **options) == 2
    assert words in capsys.readouterr().err


def test_a_protocol_file_that_is_none(tmp_path, capsys):
    file = tmp_path / "mine.py"
    for text, words in (
        ("PROTOCOL = 3\n", "must define PROTOCOL"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("", "must define"),
    ):
        file.write_text(text)
        assert reproduce_module.reproduce([str(file)], out=tmp_path / "run") == 2
        assert words in capsys.readouterr().err


def test_adding_an_arm_to_a_file_keeps_what_is_there(tmp_path, capsys):
    """The two-line edit: arms that did not change are not run again."""
    file = tmp_path / "mine.py"
    text = Path(TOY).read_text()
    file.write_text(text)
    assert reproduce_module.reproduce([str(file)], out=tmp_path / "run", networks=False) == 0
    file.write_text(text.replace("(0.0, 0.5, 1.0)", "(0.0, 0.5, 0.7, 1.0)"))
    capsys.readouterr()
    assert reproduce_module.reproduce([str(file)], out=tmp_path / "run", networks=False) == 0
    assert "40 runs in 2 batches, 120 runs are there already" in capsys.readouterr().out
    file.write_text(text.replace("0.3 + 0.4", "0.2 + 0.4"))  # another experiment now
    assert reproduce_module.reproduce([str(file)], out=tmp_path / "run", networks=False) == 0
    assert "120 runs in 6 batches, 0 runs" in capsys.readouterr().out


def test_ctrl_c_stops_soon_and_keeps_what_is_finished(tmp_path, reproduce):
    process = start(tmp_path / "run", environment={"TOY_HOLD": "0.5"})
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.readline()  # the batches before are done, and that of λ = 0.5 lasts an hour
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "interrupted; every finished batch is kept" in said
    kept = contents(tmp_path / "run")
    assert 1 <= len(kept) <= 2
    assert reproduce() == 0
    assert kept.items() <= contents(tmp_path / "run").items()


def test_the_log_says_how_it_was_made(reproduce, tmp_path):
    assert reproduce() == 0
    log = Store.read(tmp_path / "run").directory.log.lines()
    assert [line["event"] for line in log] == ["session", *["batch"] * 6, "end"]
    assert {"command", "commit", "versions", "processor", "cores"} <= log[0].keys()
    assert log[1]["steps"] == 20 * 40 * 10


def test_a_network_arm_stored_in_full_is_not_asked_for_in_less(toy, tmp_path, monkeypatch):
    from dataclasses import replace

    from chunked_td.lab.running.batches import Batch
    from chunked_td.lab.running.engines import attempt
    from chunked_td.lab.running.plan import SweepOptions, make_plan
    from chunked_td.lab.store.directory import RunDirectory
    from chunked_td.lab.study import Size

    monkeypatch.setattr("chunked_td.lab.running.plan.missing_packages", lambda batch: "")
    net = replace(toy, arms=(toy.arm("net"),), network_quick=Size(1, 10), seeds=10)
    pairs = tuple((seed, exponent) for seed in range(10) for exponent in net.exponents)
    full = Batch(net, net.arms[0], pairs, net.episodes, net.record_at(net.episodes))
    stand_in = replace(net, arms=(replace(net.arms[0], model=None),))  # the numbers do not matter here
    columns = attempt([replace(full, protocol=stand_in, arm=stand_in.arms[0])], 1)[0].columns
    assert columns is not None
    with RunDirectory.for_writing(tmp_path) as directory:
        store = Store(directory)
        before = make_plan([net], SweepOptions("quick"), store)
        assert (before.runs_wanted, before.runs_left) == (2, 2)
        store.write(full.settings, columns)
        after = make_plan([net], SweepOptions("quick"), store)
        assert (after.runs_wanted, after.runs_left) == (20, 0)


class FakeBatch:
    """As much of a batch as the progress looks at."""

    def __init__(self, kind, steps, arm=None):
        from types import SimpleNamespace

        self.protocol = SimpleNamespace(id="toy")
        self.arm = SimpleNamespace(id=arm or kind, kind=kind, label=kind)
        self.kind, self.pairs, self.steps = kind, ((0, 0),), steps


def test_time_left_of_networks_does_not_follow_the_pace_of_tables(monkeypatch):
    import io

    from chunked_td.lab.running import progress as module
    from chunked_td.lab.running.engines import BatchResult

    clock = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])
    batches = [FakeBatch("fixed", 1), FakeBatch("fixed", 1), FakeBatch("network", 600), FakeBatch("network", 600)]
    progress = module.SweepProgress(batches, lambda some: float(sum(b.steps for b in some)), io.StringIO())
    assert progress.time_left() == pytest.approx(1202)
    clock[0] = 60.0  # the first batch was compiled: sixty times slower than expected
    progress.batch_done(BatchResult(batches[0], None, None, 60.0))
    assert 1200 < progress.time_left() < 1220
    clock[0] = 61.0
    progress.batch_done(BatchResult(batches[1], None, None, 1.0))
    clock[0] = 61.0 + 300.0  # half-way through the first batch with a network
    assert progress.time_left() == pytest.approx(900)
    clock[0] = 61.0 + 1200.0  # it takes twice as long as expected
    assert progress.time_left() == pytest.approx(630)
    progress.batch_done(BatchResult(batches[2], None, None, 1200.0))
    assert progress.time_left() == pytest.approx(600 * 1210 / 610)


def test_time_left_counts_the_compilation_of_every_arm(monkeypatch):
    """Ten small arms, a second each once compiled, and nine seconds to compile."""
    import io

    from chunked_td.lab.running import progress as module
    from chunked_td.lab.running.engines import BatchResult

    clock = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])
    batches = [FakeBatch("counts", 1, f"arm-{i}") for i in range(10)]
    progress = module.SweepProgress(batches, lambda some: float(len(some)), io.StringIO())
    for done in range(1, 10):
        clock[0] += 10.0
        progress.batch_done(BatchResult(batches[done - 1], None, None, 10.0))
        assert progress.time_left() == pytest.approx(10.0 * (10 - done), rel=0.35)


def test_an_old_report_is_mentioned(tmp_path, capsys):
    from chunked_td import cli

    command = ["reproduce", TOY, "--no-networks", "--no-report", "--out", str(tmp_path / "run")]
    for seeds in ("2", "3", "3"):
        with pytest.raises(SystemExit):
            cli.main([*command, "--seeds", seeds])
        said = capsys.readouterr().out
        old = (tmp_path / "run" / "report.html").exists()
        assert ("report.html is older than the stored runs; chunked-td report" in said) == old
        if not old:
            (tmp_path / "run" / "report.html").touch()
    (tmp_path / "run" / "report.html").touch()
    with pytest.raises(SystemExit):
        cli.main([part for part in command if part != "--no-report"] + ["--seeds", "3"])
    assert "report.html (left as it was: no run is newer; chunked-td report" in capsys.readouterr().out
