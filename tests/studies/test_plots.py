"""What the figures of the studies draw: every arm told apart, means of the runs, the same bytes for the same runs."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.text import Text

from studies.accumulated_charge import study as charge
from studies.chain_and_split import study as chain
from studies.key_to_door import study as door
from studies.runner import data, pages, plots
from studies.runner.arrays import replay_selection


@pytest.fixture(scope="module")
def results():
    return {study: study.results(data.stored(study)) for study in (chain, charge, door)}


def test_arms_differ_in_marker_and_colour(results):
    for found in results.values():
        looks = plots.looks(found).values()
        assert len({look.marker for look in looks}) == min(len(found.labels), len(plots.MARKERS))
        assert len({(look.color, look.marker) for look in looks}) == len(found.labels)


def test_curves_are_means_over_seeds_and_end_where_they_are_told(results):
    found = results[chain]
    _, axes = plots.new_figure()
    plots.curves(axes, found, until=100_000)
    drawn = axes.get_lines()[0]
    runs = found.runs("sarsa-0")
    inside = runs.episodes <= 100_000
    means = runs.of_size(found.selected["sarsa-0"])[:, inside].mean(axis=0)
    assert np.allclose(drawn.get_ydata(), means, rtol=1e-5)
    assert drawn.get_xdata()[-1] == 100_000


def test_many_arms_have_two_panels_and_the_best_possible_is_marked(results):
    left, right = plots.sweep_figure(results[charge]).axes
    curves = [[line for line in axes.get_lines() if len(line.get_xdata()) == 12] for axes in (left, right)]
    assert [len(part) for part in curves] == [len(charge.FIXED), len(charge.LABELS) - len(charge.FIXED)]
    for axes in (left, right):
        assert any(np.all(np.asarray(line.get_ydata()) == charge.BEST) for line in axes.get_lines())


def test_type_is_large_enough_to_read_in_print(results):
    with plots.house_style():
        figures = [
            plots.sweep_figure(results[door]),
            plots.seeds_figure(results[charge]),
            chain.figure(data.stored(chain)),
        ]
    for figure in figures:
        assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip()) >= 7


def test_the_same_runs_give_the_same_bytes():
    table = data.stored(chain)
    first, second = (plots.svg(pages.figures_of(chain, table)["figure"]) for _ in range(2))
    assert first == second
    assert first == (data.folder(chain) / "figures" / "figure.svg").read_bytes()


def test_dots_of_equal_value_lie_side_by_side_within_their_row():
    offsets = plots.spread(np.array([1.0, 1.0, 1.0, 1.0, 500.0]))
    assert len(set(offsets[:4])) == 4
    assert offsets[4] == 0
    assert np.max(np.abs(plots.spread(np.ones(200)))) <= 0.33


def test_checkpoints_are_thinned_where_some_lie_much_closer():
    episodes = np.array([10, 20, 30, 40, 80, 120, 130])
    assert episodes[plots.thinned(episodes, 40)].tolist() == [10, 20, 30, 40]
    assert episodes[plots.thinned(episodes, 130)].tolist() == [40, 80, 120, 130]
    assert episodes[:1][plots.thinned(episodes[:1], 10)].tolist() == [10]


def test_replay_repeats_the_papers_procedure(results):
    found = results[door]
    runs, loss = found.arms["expected-sarsa-0"], found.loss("expected-sarsa-0")
    replay = replay_selection(loss, runs.at())
    assert replay.shares.sum() == pytest.approx(1.0)
    assert replay.reported.min() > runs.at().min() - 1e-6
    assert replay.reported.mean() < loss.mean()  # selecting makes the reported mean look good
    assert runs.step_sizes[np.argmax(replay.shares)] == found.selected["expected-sarsa-0"]
