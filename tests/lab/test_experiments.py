"""Experiments are found by listing folders; a folder of one's own is a complete experiment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chunked_td._loading import USER_MODULES
from chunked_td.lab.catalogue import catalogue, known, load, load_folder
from chunked_td.lab.errors import UsageError
from chunked_td.lab.report.choice import part
from chunked_td.lab.report.page import build_report
from chunked_td.lab.results.claims import judge_all
from chunked_td.lab.results.runs import load_results
from chunked_td.lab.running.reproduce import reproduce
from chunked_td.lab.store.batch_store import Store

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "even_split"
LAB = ROOT / "src" / "chunked_td" / "lab"


def test_every_folder_is_an_experiment_named_like_it_in_the_order_it_states():
    folders = {path.parent.name for path in (LAB / "studies").glob("*/protocol.py")}
    assert {name.replace("-", "_") for name in catalogue()} == folders
    orders = [experiment.order for experiment in catalogue().values()]
    assert orders == sorted(orders)
    assert len(set(orders)) == len(orders)


def test_every_experiment_says_what_was_published_and_claims_something():
    for experiment in catalogue().values():
        assert experiment.table or experiment.part("report", "PUBLISHED")
        assert experiment.claims
        choice = part(experiment.id, "FIGURES", catalogue())
        assert choice is None or choice.control_of in (None, *catalogue())


def test_nothing_outside_its_folder_knows_an_experiment():
    plain = [study.id for study in catalogue().values() if not study.table]  # the others are words of their own, too
    names = {spelled for name in plain for spelled in (name, name.replace("-", "_"))}
    outside = [path for path in LAB.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    folders = {LAB / "studies" / name.replace("-", "_") for name in catalogue()}
    for path in outside:
        if path == LAB.parent / "cli" / "reproduce.py":
            continue  # its examples name one
        if not folders & set(path.parents) and path.name != "identity.py":  # it has the stored names of moved code
            text = path.read_text(encoding="utf-8")
            assert not [name for name in names if name in text], path


def test_planning_imports_neither_claims_nor_figures_nor_jax():
    code = (
        "import sys\n"
        "from chunked_td.lab.running.plan import SweepOptions, make_plan\n"
        "from chunked_td.lab.catalogue import load_protocols\n"
        "assert make_plan(load_protocols(), SweepOptions('paper')).batches\n"
        "heavy = [m for m in ('jax', 'polars', 'matplotlib', 'jinja2', 'plotly', 'tyro') if m in sys.modules]\n"
        "rooms = [m for m in sys.modules if m.startswith('chunked_td.lab.studies')]\n"
        "parts = [m for m in rooms if m.endswith(('claims', 'report'))]\n"
        "sys.exit(str(heavy + parts) if heavy + parts else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_example_in_the_docs_is_a_complete_experiment(tmp_path):
    assert reproduce([str(EXAMPLE)], out=tmp_path, quiet=True) == 0
    rooms = known([str(EXAMPLE)])
    assert list(rooms)[-1] == "even-split"
    assert "even-split" not in catalogue()
    studies = load_results(Store.read(tmp_path))
    judged = {claim.id: claim for claim in judge_all(studies, rooms)}
    assert judged["even-unbiased"].status == "holds", judged["even-unbiased"]
    page = build_report(tmp_path, None, rooms).read_text(encoding="utf-8")
    for piece in (
        '<section id="even-split">',
        'id="even-split-curves"',
        'id="claim-even-unbiased"',
        "this is an example",
    ):
        assert piece in page
    assert (tmp_path / "figures" / "even-split-curves.svg").exists()


def test_without_its_folder_an_experiment_still_has_a_report(tmp_path):
    assert reproduce([str(EXAMPLE)], out=tmp_path, quiet=True, profile="smoke") == 0
    page = build_report(tmp_path).read_text(encoding="utf-8")
    assert 'id="even-split-sweep"' in page


def test_a_folder_needs_no_claims_and_no_report(tmp_path):
    (tmp_path / "protocol.py").write_text((EXAMPLE / "protocol.py").read_text())
    experiment = load_folder(tmp_path)
    assert experiment.claims == ()
    assert experiment.part("report", "PUBLISHED") is None
    assert part(experiment.id, "FIGURES", {experiment.id: experiment}) is None  # so it has the default plots


def test_an_edited_folder_is_loaded_again(tmp_path):
    text = (EXAMPLE / "protocol.py").read_text()
    for title in ("Even split", "Another title"):
        (tmp_path / "protocol.py").write_text(text.replace("Even split", title))
        (loaded,) = load(str(tmp_path))
        assert loaded.protocol.title == title


@pytest.mark.parametrize(
    ("text", "words"),
    [("PROTOCOL = 3\n", "must define PROTOCOL"), ("1 / 0\n", "ZeroDivisionError"), ("import nosuch\n", "nosuch")],
)
def test_a_folder_that_is_no_experiment(tmp_path, text, words):
    (tmp_path / "protocol.py").write_text(text)
    with pytest.raises(UsageError, match=words):
        load(str(tmp_path))


def test_a_name_that_is_nothing_lists_what_there_is():
    with pytest.raises(UsageError, match=r"did you mean 'skewed-split'\?.*accumulated-charge.*folder with a protocol"):
        load("skewd-split")


def test_one_file_has_claims_for_one_protocol_only(tmp_path):
    text = (EXAMPLE / "protocol.py").read_text()
    (tmp_path / "two.py").write_text(f"{text}\nPROTOCOLS = [PROTOCOL]\nCLAIMS = ()\n")
    with pytest.raises(UsageError, match="go with one PROTOCOL"):
        load(str(tmp_path / "two.py"))
    (tmp_path / "one.py").write_text(f"{text}\nPUBLISHED = 'a text'\n")
    assert load(str(tmp_path / "one.py"))[0].part("report", "PUBLISHED") == "a text"


def test_users_modules_have_names_that_ray_sends_along():
    assert load_folder(EXAMPLE).module.startswith(USER_MODULES)
