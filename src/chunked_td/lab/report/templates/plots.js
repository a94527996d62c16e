// Draws the plots of the report page, arranges their legends, and serves their switches. Needs plotly.js.
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
