// Draws the plots of the report page, arranges their legends, and serves their switches. Needs plotly.js.
"use strict";
(function () {
  const plots = Array.from(document.querySelectorAll(".plot"));
  const narrow = function (place) { return place.clientWidth < 720; };
  const entries = function (data) { return data.filter(function (t) { return t.showlegend !== false; }).length; };

  const ends = function (plot) {
    return Array.from({ length: plot.panels || 1 }, function (_, i) { return i ? String(i + 1) : ""; });
  };

  // Wide windows have the legend beside the plot and panels side by side. Narrow ones have the legend below, and panels
  // one below the other; the plot grows by as much.
  function arrange(place, plot) {
    const count = entries(plot.data), below = narrow(place), panels = ends(plot), n = panels.length;
    const tall = below && n > 1 ? Math.round(0.8 * n * plot.height) : plot.height;
    const legend = below
      ? { orientation: "h", x: 0, xanchor: "left", y: -0.02, yanchor: "top", yref: "paper", entrywidth: 0.98,
          entrywidthmode: "fraction" }
      : { orientation: "v", x: 1.01, xanchor: "left", y: 1, yanchor: "top", yref: "paper" };
    const room = below && count ? 22 * count : 0;
    if (below) { legend.y = -70 / Math.max(1, tall - 80); }
    const form = { legend: legend, height: tall + room, showlegend: count > 0,
                   margin: { l: 60, r: 16, t: n > 1 ? 40 : below ? 12 : 34, b: 48 + (room ? room + 26 : 0) } };
    const gap = below ? 0.2 : 0.06, size = (1 - gap * (n - 1)) / n;
    if (n > 1) {
      panels.forEach(function (end, i) {
        const from = i * (size + gap), all = [0, 1];
        form["xaxis" + end] = { domain: below ? all : [from, from + size] };
        form["yaxis" + end] = { domain: below ? [1 - from - size, 1 - from] : all, showticklabels: below || i === 0,
                                title: below || i === 0 ? plot.layout.yaxis.title : { text: "" } };
      });
    }
    return form;
  }

  // Ticks of a logarithmic axis: powers of ten, and where it spans less than two of them, round numbers between.
  function ticks(plot, name) {
    const letter = name[0], key = name.replace("axis", "");
    const values = plot.data.filter(function (t) { return (t[letter + "axis"] || letter) === key || plot.panels > 1; })
      .flatMap(function (t) { return (t[letter] || []).filter(function (v) { return v > 0; }); });
    const low = Math.min(...values), high = Math.max(...values), span = Math.log10(high / low);
    if (!(span < 2)) { return { tickmode: "linear", tick0: 0, dtick: 1 }; }
    const steps = span < 1 ? [1, 1.5, 2, 3, 4, 5, 7] : [1, 2, 5], found = [];
    for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.ceil(Math.log10(high)); power += 1) {
      steps.forEach(function (step) { found.push(Number((step * Math.pow(10, power)).toPrecision(6))); });
    }
    return { tickmode: "array", tickvals: found, ticktext: found.map(function (v) { return v.toLocaleString("en"); }) };
  }

  function draw(place) {
    const plot = JSON.parse(document.getElementById(place.id + "-data").textContent);
    const form = arrange(place, plot);
    form.legend = Object.assign({}, plot.layout.legend, form.legend);
    const layout = Object.assign({}, plot.layout, form, { width: place.clientWidth });
    Object.keys(layout).filter(function (key) { return /^[xy]axis/.test(key); }).forEach(function (key) {
      layout[key] = Object.assign({}, plot.layout[key], form[key]);
      if (layout[key].type === "log") { Object.assign(layout[key], ticks(plot, key)); }
    });
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
      Object.keys(form).forEach(function (part) {
        if (part === "legend" || /^[xy]axis/.test(part)) {
          Object.keys(form[part]).forEach(function (key) { change[part + "." + key] = form[part][key]; });
        } else { change[part] = form[part]; }
      });
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
    const change = {};
    ends(place.plot).forEach(function (end) {
      const name = (kind === "logx" ? "xaxis" : "yaxis") + end;
      change[name + ".type"] = box.checked ? "log" : "linear";
      change[name + ".autorange"] = true;
      const marks = box.checked ? ticks(place.plot, name) : { tickmode: "auto", dtick: null };
      Object.keys(marks).forEach(function (key) { change[name + "." + key] = marks[key]; });
    });
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
