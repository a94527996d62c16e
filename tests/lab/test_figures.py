"""Figures: every one is drawn, readable, tells arms apart, and has the same bytes each time."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from scipy import stats

from chunked_td.lab.catalogue import catalogue
from chunked_td.lab.errors import WriteError
from chunked_td.lab.report import networks, plots, style
from chunked_td.lab.report.figures import all_figures, draw
from chunked_td.lab.report.page import plots_of
from chunked_td.lab.results.runs import evenly, load_results, replay_selection, selection_loss
from chunked_td.lab.results.tables import tables_of
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.directory import write_or_explain
from chunked_td.lab.studies.chain_and_split.claims import gap_plot
from chunked_td.statistics import mean_and_interval
from helpers.fake_runs import fill

EXPECTED = {
    "chain-and-split-gap-100000",
    "chain-and-split-gap-1000000",
    "accumulated-charge-sweep",
    "accumulated-charge-sweep-intervals",
    "accumulated-charge-seeds",
    "accumulated-charge-lambda",
    "accumulated-charge-mirrored-control",
    "key-to-door-sweep",
    "key-to-door-sweep-intervals",
    "key-to-door-seeds",
    "key-to-door-loss",
    "key-to-door-calibration",
    "key-to-door-results-table",
    "key-to-door-step-sizes-table",
    "chain-and-split-step-sizes-table",
    "skewed-split-value",
}


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    return load_results(Store.read(fill(tmp_path_factory.mktemp("runs") / "full")))


def figures_of(results):
    found = {name: plots_of(study, results, catalogue()) for name, study in results.items()}
    return all_figures(found, {name: tables_of(study) for name, study in results.items()})


@pytest.fixture(scope="module")
def figures(studies):
    return figures_of(studies)


def test_every_figure_of_the_paper_is_there(figures):
    assert set(figures) >= EXPECTED


def test_sweeps_show_every_arm(figures, studies):
    left, right = figures["accumulated-charge-sweep"].axes
    curves = [[line for line in axes.get_lines() if len(line.get_xdata()) == 12] for axes in (left, right)]
    models = [arm for arm in studies["accumulated-charge"].present if arm.fixed_lambda is None]
    assert [len(part) for part in curves] == [12, len(models) + 1]  # the best fixed λ is in both
    for axes in (left, right):
        assert any(np.all(np.asarray(line.get_ydata()) == 950) for line in axes.get_lines())
    shaded = figures["accumulated-charge-sweep-intervals"].axes[0]
    assert len(shaded.patches) == 12
    assert len(left.patches) == 0


def test_curves_are_means_over_seeds_and_end_at_the_last_episode(figures, studies):
    study = studies["chain-and-split"]
    axes = figures["chain-and-split-gap-100000"].axes[0]
    curve = axes.get_lines()[0]
    runs = study.runs("sarsa-0")
    inside = runs.episodes <= 100_000
    means = runs.of(study.selected["sarsa-0"])[:, inside].mean(axis=0)
    assert np.allclose(curve.get_ydata(), means, rtol=1e-5)
    assert curve.get_xdata()[-1] == 100_000
    assert any(np.all(np.asarray(line.get_ydata()) == 0.01) for line in axes.get_lines())


def test_arms_differ_in_more_than_colour(studies):
    for study in studies.values():
        looks = style.styles(study.arms)
        seen = [(look.color, look.dash) for look in looks.values()]
        assert len(set(seen)) == len(seen), study.id
        shown = [looks[arm.id] for arm in study.arms if arm.in_paper]
        assert len({(look.marker, look.width) for look in shown}) == len(shown), study.id


def test_type_is_large_enough_to_read_in_print(figures):
    for name, figure in figures.items():
        sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip()]
        assert min(sizes) >= 7, name


def test_texts_in_figures_do_not_overlap_and_nothing_is_cut(figures):
    for name in ("chain-and-split-gap-1000000", "skewed-split-value", "accumulated-charge-seeds"):
        figure = figures[name]
        canvas = FigureCanvasAgg(figure)
        with style.house_style():
            canvas.draw()
        renderer = canvas.get_renderer()
        boxes = [t.get_window_extent(renderer) for axes in figure.axes for t in axes.texts]
        page = figure.bbox
        for i, box in enumerate(boxes):
            assert page.x0 <= box.x0 < box.x1 <= page.x1 + 0.5, name
            assert all(not box.overlaps(other) for other in boxes[:i]), name


@pytest.mark.parametrize("kind", style.FORMATS)
def test_same_runs_same_bytes(studies, kind):
    first, second = (style.render(draw(gap_plot(studies["chain-and-split"], 100_000)), kind) for _ in range(2))
    assert first == second
    assert b"2026" not in first or kind == "png"


def test_saving_leaves_nothing_unfinished_and_says_what_failed(figures, tmp_path):
    paths = style.save(figures["skewed-split-value"], tmp_path / "figures", "value")
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["value.pdf", "value.png", "value.svg"]
    assert all(path.stat().st_size > 1_000 for path in paths)
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot write"):
        write_or_explain(tmp_path / "file" / "value.svg", b"")


def test_figures_without_networks_controls_or_full_length(tmp_path):
    """Whatever part of the experiments is there is drawn; what is not there is left out."""
    parts = {
        "no-networks": {"experiments": ("key-to-door",), "networks": False},
        "no-diagnostics": {"experiments": ("accumulated-charge",), "diagnostics": False},
        "short": {"experiments": ("chain-and-split", "skewed-split"), "length": 5_000, "seeds": 1},
        "reduced": {"experiments": ("key-to-door",), "reduced": 1_000, "seeds": 3},
        "control-alone": {"experiments": ("accumulated-charge-mirrored",), "seeds": 2},
    }
    names = {}
    for name, options in parts.items():
        studies = load_results(Store.read(fill(tmp_path / name, **options)))
        names[name] = set(figures_of(studies))
    assert not any(
        name.endswith(("-loss", "-lambda", "-calibration")) for name in names["no-networks"] | names["no-diagnostics"]
    )
    assert "chain-and-split-gap-5000" in names["short"]
    assert "key-to-door-sweep-first-1000" in names["reduced"]
    assert "accumulated-charge-mirrored-seeds" in names["control-alone"]


def test_dots_of_equal_value_lie_side_by_side_within_their_row():
    values = np.array([1.0, 1.0, 1.0, 1.0, 500.0])
    offsets = plots.spread(values)
    assert len(set(offsets[:4])) == 4
    assert offsets[4] == 0
    assert np.max(np.abs(plots.spread(np.ones(200)))) <= 0.33


def test_calibration_pools_runs_by_their_counts(studies):
    runs = studies["key-to-door"].runs("c-default")
    found = networks.calibration(runs)
    predicted, observed = (runs.columns[f"calibration_{kind}_3"][:, :, -1] for kind in ("predicted", "observed"))
    counted = runs.columns["calibration_count_3"][:, :, -1]
    assert found[2][3] == counted.sum()
    assert found[0][3] == pytest.approx(np.sum(predicted * counted) / counted.sum())
    assert found[1][3] == pytest.approx(np.sum(observed * counted) / counted.sum())
    assert all(part.size == 0 for part in networks.calibration(studies["key-to-door"].runs("expected-sarsa-0")))


def test_intervals_agree_with_scipys_bootstrap():
    """Both are percentile intervals of the mean from 2,000 resamples; ends differ by resampling noise only."""
    values = np.random.default_rng(1).gamma(2.0, size=(30, 4))
    ours = mean_and_interval(values)
    rng = np.random.default_rng(2)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=2_000, method="percentile", rng=rng).confidence_interval
    width = theirs.high - theirs.low
    assert np.allclose(ours.value, values.mean(axis=0))
    assert np.all(np.abs(ours.low - theirs.low) < 0.1 * width)
    assert np.all(np.abs(ours.high - theirs.high) < 0.1 * width)


def test_intervals_leave_missing_runs_out():
    values = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])
    found = np.array(mean_and_interval(values))
    assert found[:, 0].tolist() == [2.0, 1.0, 3.0]
    assert np.isnan(found[:, 1]).all()


def test_replay_repeats_the_papers_procedure(studies):
    study = studies["key-to-door"]
    arm, selection = study.find("expected-sarsa-0"), study.about.selection
    replay = replay_selection(arm.runs, selection, arm.id)
    assert replay.shares.sum() == pytest.approx(1.0)
    assert replay.reported.min() > arm.runs.at().min() - 1e-6
    assert (
        replay.reported.mean() < selection_loss(arm.runs, selection, arm.id).mean()
    )  # selecting makes the reported mean look good
    assert np.argmax(replay.shares) == list(arm.runs.exponents).index(study.selected[arm.id])


def test_checkpoints_are_drawn_evenly():
    episodes = np.array([10, 20, 30, 40, 80, 120, 130])
    assert episodes[evenly(episodes, 40)].tolist() == [10, 20, 30, 40]
    assert episodes[evenly(episodes, 130)].tolist() == [40, 80, 120, 130]
    assert episodes[:1][evenly(episodes[:1], 10)].tolist() == [10]
