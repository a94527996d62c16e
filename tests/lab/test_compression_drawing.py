"""Figure 1 from data: what is drawn is what the compressor found, and the page stands alone."""

import json
import re

import pytest

import chunked_td as ctd
from chunked_td.lab.studies.compression.drawing import START, draw_figure, figure_data, trained_example, write_page

HOSTILE = "</script><b>"


@pytest.fixture(scope="module")
def compressed():
    compressor = ctd.HistoryCompressor(hidden=8, alphabet=["a", "b", HOSTILE])
    return compressor.fit(["a" * 20 + "b"], epochs=40).compress(["a"] * 20 + [HOSTILE, "b"])


def test_data_are_the_readings_of_the_compressor(compressed):
    data = figure_data(compressed, around=compressed.length)
    assert data["columns"] == list(range(-1, 23))
    assert [len(level) for level in data["levels"]] == [24, len(compressed.items) + 1]
    for level, reading in zip(data["levels"], compressed.readings, strict=True):
        assert level[0]["symbol"] == START
        assert [token["symbol"] for token in level[1:]] == reading.symbols
        assert [token["up"] for token in level[1:]] == reading.keep.tolist()
        assert [token["always"] for token in level] == [True, *[False] * (len(level) - 2), True]


def test_predictable_stretches_are_left_out(compressed):
    data = figure_data(compressed, around=1)
    assert data["columns"].count(None) >= 1
    up = {token["position"] for token in figure_data(compressed, around=99)["levels"][0] if token["up"]}
    assert up <= set(data["columns"])


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_static_picture(compressed, tmp_path, ending):
    path = tmp_path / f"figure.{ending}"
    draw_figure(compressed, path)
    assert path.stat().st_size > 5_000


def test_long_symbols_are_shortened(compressed):
    texts = {text.get_text() for text in draw_figure(compressed, around=99).axes[0].texts}
    assert {"a", "b", "start", "end", "</sc…"} <= texts
    assert HOSTILE not in texts


def test_page_is_one_file_that_loads_nothing_and_holds_the_data(compressed, tmp_path):
    page = write_page({"hostile": compressed}, tmp_path / "figure.html", title="A <title>").read_text("utf-8")
    assert not re.search(r"(src|href)=|@import|url\(\s*['\"]?http", page)
    assert "A &lt;title&gt;" in page
    assert page.count("</script>") == 2
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["hostile"] == figure_data(compressed, around=compressed.length)


def test_the_papers_example_in_small():
    made = trained_example(8, hidden=4, epochs=2)
    assert list(made) == ["a … 0", "b … 1"]
    assert all(one.length == 9 for one in made.values())
