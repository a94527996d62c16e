"""Pieces of the report's page: escaped text, tables, plots, the style sheet and the script. No template engine.

The page needs nothing from outside: plotly.js is put in once, plots are JSON in the page, and a short script draws
them, arranges legends for narrow and wide windows, and serves the switches.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any

from chunked_td.lab.report_plots import Plot
from chunked_td.lab.tables import Table

SWITCHES = {"bands": "intervals", "logx": "logarithmic episodes", "logy": "logarithmic scores"}


def tag(name: str, *content: str, **attributes: str | None) -> str:
    """An element. Content is HTML; attribute values are escaped; `class_` is class, None leaves an attribute out."""
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{text}>{''.join(content)}</{name}>"


def words(text: str) -> str:
    """Plain text as HTML."""
    return html.escape(text, quote=False)


def paragraphs(texts: Iterable[str]) -> str:
    """A paragraph per text."""
    return "".join(tag("p", words(text)) for text in texts)


def bullets(texts: Sequence[str]) -> str:
    """A list."""
    return tag("ul", *(tag("li", words(text)) for text in texts)) if texts else ""


def table_html(table: Table) -> str:
    """A table in a box of its own that scrolls sideways where the window is narrow."""
    head = tag("tr", *(tag("th", words(column), scope="col") for column in table.columns))
    rows = [tag("tr", tag("th", words(row[0]), scope="row"), *(_cell(cell) for cell in row[1:])) for row in table.rows]
    body = tag("table", tag("caption", tag("span", words(table.caption))), tag("thead", head), tag("tbody", *rows))
    box = tag("div", body, class_="scroll", tabindex="0", role="region", aria_label=table.caption)
    return box + (tag("p", words(table.note), class_="note") if table.note else "")


def _cell(text: str) -> str:
    plain = text.startswith(("not run", "reduced", "–"))
    return tag("td", words(text), class_="absent" if plain else None)


def plot_html(plot: Plot) -> str:
    """A place for a plot, its switches, its caption, and its description as JSON."""
    switches = "".join(
        tag("label", f'<input type="checkbox" data-plot="{plot.id}" data-switch="{name}"{_checked(plot, name)}> ',
            words(SWITCHES[name]))
        for name in plot.switches
    )  # fmt: skip
    place = tag("div", class_="plot", id=plot.id, role="group", aria_label=f"{plot.title}. {plot.caption}")
    values = {"data": plot.data, "layout": plot.layout, "height": plot.height}
    description = tag("script", as_json(values), type="application/json", id=f"{plot.id}-data")
    return tag(
        "figure",
        tag("h4", words(plot.title)),
        tag("div", switches, class_="switches") if switches else "",
        place,
        tag("figcaption", words(plot.caption)),
        description,
    )


def _checked(plot: Plot, switch: str) -> str:
    on = plot.extra.get(switch, switch == "bands" and any(t.get("visible", True) for t in plot.data if _band(t)))
    return " checked" if on else ""


def _band(trace: dict[str, Any]) -> bool:
    return trace.get("meta") == "band"


def as_json(values: Any) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def page(title: str, body: str) -> str:
    """The whole page."""
    from plotly.offline import get_plotlyjs

    library = get_plotlyjs().replace("</script", "<\\/script")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{words(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n"
        f"<script>{library}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


STYLE = """
:root { color-scheme: light; --line: #d9d9d9; --soft: #f6f7f9; --ink: #1a1a1a; --dim: #5a5a5a; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink);
  background: #fff; }
header, main, footer { max-width: 82rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.5rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.35rem; margin: 2.5rem 0 .5rem; padding-top: .75rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.1rem; margin: 1.5rem 0 .25rem; }
h4 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p, ul, dl { max-width: 48rem; overflow-wrap: anywhere; }
a { color: #0b57a4; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1rem; }
.skip { position: absolute; left: -99rem; } .skip:focus { left: 1rem; background: #fff; }
figure { margin: 1rem 0 1.5rem; }
figcaption, .note { color: var(--dim); font-size: .9rem; max-width: 48rem; }
.plot { width: 100%; min-width: 0; }
.switches { display: flex; flex-wrap: wrap; gap: .25rem 1rem; font-size: .9rem; }
.switches input { vertical-align: -1px; }
.scroll { overflow-x: auto; max-width: 100%; margin: 1rem 0 .5rem; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--dim); padding-bottom: .35rem; }
caption span { position: sticky; left: 0; display: inline-block; max-width: calc(100vw - 2rem); }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
thead th { vertical-align: bottom; border-bottom: 2px solid #888; white-space: normal; min-width: 5.5rem; }
tbody th { border-bottom: 0; box-shadow: inset 0 -1px var(--line); }
th[scope=row], thead th:first-child { text-align: left; font-weight: 600; }
tbody th { position: sticky; left: 0; background: #fff; }
@media (max-width: 40rem) { tbody th { white-space: normal; min-width: 7.5rem; } th, td { padding: .3rem .45rem; } }
.absent { color: var(--dim); font-style: italic; }
.claims { list-style: none; padding: 0; max-width: none; display: grid; gap: .75rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); }
.claims li { background: var(--soft); border-left: 6px solid #888; padding: .6rem .8rem; border-radius: 3px; }
.claims p { margin: .25rem 0; }
.status { font-weight: 700; }
.source { color: var(--dim); font-size: .85rem; }
.holds { border-left-color: #009E73 !important; } .holds .status { color: #00694d; }
.fails { border-left-color: #D55E00 !important; } .fails .status { color: #a34700; }
.undecided { border-left-color: #E69F00 !important; } .undecided .status { color: #7a5400; }
.evidence, details { font-size: .88rem; }
summary { cursor: pointer; color: var(--dim); }
dt { font-weight: 600; } dd { margin: 0 0 .5rem 1rem; }
code { font-size: .88em; overflow-wrap: anywhere; }
footer { color: var(--dim); font-size: .9rem; padding-bottom: 3rem; }
@media print { nav, .switches, .skip { display: none; } figure, table, .claims li { break-inside: avoid; } }
"""

SCRIPT = """
"use strict";
(function () {
  const plots = Array.from(document.querySelectorAll(".plot"));
  const narrow = function (place) { return place.clientWidth < 720; };
  const entries = function (data) { return data.filter(function (t) { return t.showlegend !== false; }).length; };

  // Wide windows have the legend beside the plot; narrow ones below it, and the plot grows by as much.
  function arrange(place, plot) {
    const count = entries(plot.data), below = narrow(place);
    const legend = below
      ? { orientation: "h", x: 0, xanchor: "left", y: -0.02, yanchor: "top", yref: "paper", entrywidth: 0.98,
          entrywidthmode: "fraction" }
      : { orientation: "v", x: 1.01, xanchor: "left", y: 1, yanchor: "top", yref: "paper" };
    const room = below && count ? 22 * count : 0;
    if (below) { legend.y = -70 / Math.max(1, plot.height - 80); }
    return { legend: legend, height: plot.height + room, showlegend: count > 0,
             margin: { l: 60, r: 16, t: below ? 12 : 34, b: 48 + (room ? room + 26 : 0) } };
  }

  function draw(place) {
    const plot = JSON.parse(document.getElementById(place.id + "-data").textContent);
    const form = arrange(place, plot);
    form.legend = Object.assign({}, plot.layout.legend, form.legend);
    const layout = Object.assign({}, plot.layout, form, { width: place.clientWidth });
    const settings = { responsive: false, displaylogo: false, displayModeBar: narrow(place) ? false : "hover",
                       modeBarButtonsToRemove: ["select2d", "lasso2d"] };
    place.plot = plot;
    place.below = narrow(place);
    return Plotly.newPlot(place, plot.data, layout, settings);
  }

  function fit(place) {
    const change = { width: place.clientWidth };
    if (place.below !== narrow(place)) {
      place.below = narrow(place);
      const form = arrange(place, place.plot);
      Object.keys(form.legend).forEach(function (key) { change["legend." + key] = form.legend[key]; });
      change.height = form.height;
      change.margin = form.margin;
    }
    return Plotly.relayout(place, change);
  }

  function turn(event) {
    const box = event.target, place = document.getElementById(box.dataset.plot);
    const kind = box.dataset.switch;
    if (kind === "bands") {
      const bands = [];
      place.data.forEach(function (trace, i) { if (trace.meta === "band") { bands.push(i); } });
      const hidden = {};
      place.data.forEach(function (t) {
        if (t.meta !== "band" && t.visible === "legendonly") { hidden[t.legendgroup] = true; }
      });
      const shown = bands.map(function (i) {
        return box.checked ? (hidden[place.data[i].legendgroup] ? "legendonly" : true) : false;
      });
      return Plotly.restyle(place, { visible: shown }, bands);
    }
    const name = kind === "logx" ? "xaxis" : "yaxis", change = {};
    change[name + ".type"] = box.checked ? "log" : "linear";
    change[name + ".autorange"] = true;
    change[name + ".dtick"] = box.checked ? 1 : null;
    return Plotly.relayout(place, change);
  }

  document.querySelectorAll("input[data-switch]").forEach(function (box) { box.addEventListener("change", turn); });
  let waiting = 0;
  window.addEventListener("resize", function () {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(function () { plots.forEach(fit); }, 120);
  });
  Promise.all(plots.map(draw)).then(function () { document.documentElement.dataset.plots = String(plots.length); });
})();
"""
