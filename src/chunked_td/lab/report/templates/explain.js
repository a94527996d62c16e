"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const steps = data.actions.length;
  const name = "http://www.w3.org/2000/svg";
  const view = { t: data.arrival, i: data.component, k: null, follow: true };
  const left = 58, top = 16, tall = { strip: 26, held: 84, updates: 84 }, gap = 16;

  function make(parent, tag, attributes, text) {
    const node = document.createElementNS(name, tag);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  /* From white to dark blue. */
  function shade(x) {
    const stops = [[247, 251, 255], [158, 202, 225], [49, 130, 189], [8, 69, 148]];
    const at = Math.min(Math.max(x, 0), 1) * 3, k = Math.min(Math.floor(at), 2), f = at - k;
    const mixed = stops[k].map((c, n) => Math.round(c + f * (stops[k + 1][n] - c)));
    return `rgb(${mixed.join(",")})`;
  }

  /* The traces of the steps 0..t when the error of step t arrives, for one reward component. */
  function traces(learner, t, i) {
    const e = new Array(t + 1).fill(0);
    const later = new Set();
    let weight = 1;
    for (let k = t; k >= 0; k--) {
      if (!(learner.replacing && later.has(learner.rows[k]))) e[k] = weight;
      later.add(learner.rows[k]);
      weight *= learner.gamma * learner.factors[k][i];
    }
    return e;
  }

  const sum = row => row.reduce((a, b) => a + b, 0);
  const short = x => x === 0 ? "0" : Math.abs(x) >= 1e-3 && Math.abs(x) < 1e4 ? String(+x.toPrecision(3)) : x.toExponential(1).replace(".0e", "e");
  const totals = data.learners.map(one => one.updates.map(sum));
  /* The next round number from x ≥ 0 on, for the end of an axis. */
  function roundUp(x) {
    if (x === 0) return 0;
    const power = Math.pow(10, Math.floor(Math.log10(x)));
    return +(power * [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find(n => n * power >= x * (1 - 1e-9))).toPrecision(2);
  }
  const flat = [].concat(...totals);
  const high = roundUp(Math.max(0, ...flat)), low = -roundUp(Math.max(0, ...flat.map(x => -x))), range = high - low || 1;

  function nice(width) {
    for (const n of [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000]) if (n * width >= 30) return n;
    return 2000;
  }

  function drawStrip(place) {
    const one = data.learners[place], box = document.getElementById(`strip-${place}`);
    const room = box.clientWidth - left - 14;
    const width = Math.max(Math.min(room / steps, 56), steps <= 150 ? 8 : 3);
    const before = box.scrollLeft;
    box.textContent = "";
    const y1 = top + tall.strip + gap, y2 = y1 + tall.held + gap, bottom = y2 + tall.updates;
    const svg = make(box, "svg", { width: left + 12 + width * steps, height: bottom + 34, role: "img",
      "aria-label": `${one.label}: λ, traces and updates per step` });
    const x = k => left + width * k;
    const per = one.lambdas[0].length;
    const same = one.lambdas.every(row => row.every(v => v === row[0]));
    /* Nothing comes before the first step: its λ is not used. */
    const colour = k => k === 0 ? "#dcdcdc" : shade(one.lambdas[k][same ? 0 : view.i]);
    for (let k = 0; k < steps; k++) {
      make(svg, "rect", { x: x(k), y: top, width: width + .3, height: tall.strip, fill: colour(k) });
    }
    make(svg, "rect", { x: left, y: top, width: width * steps, height: tall.strip, fill: "none", stroke: "#888" });
    make(svg, "text", { x: left - 8, y: top + 17, "text-anchor": "end" }, "λ");
    for (let k = 0; k < steps; k++) {
      const paid = per > 1 ? data.rewards[k][view.i] : data.rewards[k][0];
      if (paid !== 0) make(svg, "text", { x: x(k + .5), y: top - 3, "text-anchor": "middle", style: "fill:#000" }, paid > 0 ? "▲" : "▼");
    }
    const held = traces(one, view.t, view.i), most = roundUp(Math.max(1, ...held));
    make(svg, "rect", { x: x(view.t), y: top, width: width, height: bottom - top, fill: "#fff3d6" });
    make(svg, "rect", { x: x(view.t), y: top, width: width, height: tall.strip, fill: colour(view.t) });
    for (const [y, height, title, ends] of [[y1, tall.held, "trace", [short(most), "0"]],
      [y2, tall.updates, "update", [short(high), short(low)]]]) {
      make(svg, "text", { x: left - 8, y: y + height / 2 + 4, "text-anchor": "end" }, title);
      make(svg, "text", { x: left - 8, y: y + 8, "text-anchor": "end" }, ends[0]);
      if (title === "trace" || low < -.05 * range) make(svg, "text", { x: left - 8, y: y + height, "text-anchor": "end" }, ends[1]);
    }
    make(svg, "line", { x1: left, x2: x(steps), y1: y1 + tall.held, y2: y1 + tall.held, stroke: "#888" });
    held.forEach((e, k) => {
      const h = tall.held * e / most;
      if (h > 0) make(svg, "rect", { x: x(k) + width * .08, y: y1 + tall.held - h, width: width * .84, height: h, fill: "#2b7bba" });
    });
    const zero = y2 + tall.updates * high / range;
    const bar = (k, value, attributes) => {
      const h = tall.updates * Math.abs(value) / range;
      make(svg, "rect", { x: x(k) + width * .08, y: value > 0 ? zero - h : zero, width: width * .84, height: h, ...attributes });
    };
    totals[place].forEach((total, k) => bar(k, total, { fill: total < 0 ? "#f0b48a" : "#c4c4c4" }));
    held.forEach((e, k) => {
      const due = one.alpha * one.errors[view.t][view.i] * e, total = totals[place][k];
      const shown = due * total > 0 ? (Math.abs(due) < Math.abs(total) ? due : total) : 0;
      if (shown) bar(k, shown, { fill: shown < 0 ? "#D55E00" : "#3a3a3a" });
    });
    make(svg, "line", { x1: left, x2: x(steps), y1: zero, y2: zero, stroke: "#888" });
    for (let k = 1; k < steps; k++) {
      if (one.factors[k][view.i] < data.broken) {
        make(svg, "line", { x1: x(k), x2: x(k), y1: top - 2, y2: top + tall.strip + 6, stroke: "#D55E00", "stroke-width": Math.min(3, width * .4) });
        make(svg, "line", { x1: x(k), x2: x(k), y1: y1 - 6, y2: y1 + tall.held, stroke: "#D55E00", "stroke-width": 1.2, opacity: .3 });
      }
    }
    const every = nice(width);
    for (let k = 0; k < steps; k += every) make(svg, "text", { x: x(k + .5), y: bottom + 15, "text-anchor": "middle" }, k);
    make(svg, "text", { x: left, y: bottom + 30 }, "step");
    if (view.k !== null) make(svg, "rect", { x: x(view.k), y: top - 2, width, height: bottom - top + 4, fill: "none", stroke: "#000", "stroke-width": 1.5, "pointer-events": "none" });
    const find = event => {
      const k = Math.floor((event.clientX - svg.getBoundingClientRect().left - left) / width);
      return k >= 0 && k < steps ? k : null;
    };
    svg.addEventListener("pointermove", event => point(find(event)));
    svg.addEventListener("click", event => point(find(event)));
    box.scrollLeft = view.follow ? x(view.t + .5) - .7 * box.clientWidth : before;
    box.previousElementSibling.hidden = box.scrollWidth <= box.clientWidth;
  }

  let waiting = false;
  function point(k) {
    if (k === view.k || k === null) return;
    view.k = k;
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  }

  function detail() {
    const k = view.k, node = document.getElementById("detail");
    if (k === null) return;
    const lines = data.learners.map(one => {
      const e = k <= view.t ? traces(one, view.t, view.i)[k] : 0;
      const due = one.alpha * one.errors[view.t][view.i] * e;
      return `${one.label}: λ ${k ? short(one.lambdas[k][view.i]) : "not used"}, trace ${short(e)} when step ${view.t} arrives, `
        + `update from it ${short(due)}, update in all ${short(sum(one.updates[k]))}`
        + (one.causes[k][view.i] ? `. Credit stops here: ${one.causes[k][view.i]}` : "");
    });
    node.textContent = "";
    const head = document.createElement("strong");
    head.textContent = `Step ${k}: state ${data.places[k]}, action ${data.actions[k]}, reward ${short(sum(data.rewards[k]))}`;
    node.appendChild(head);
    for (const line of lines) { node.appendChild(document.createElement("br")); node.append(line); }
  }

  function draw() {
    data.learners.forEach((_, place) => drawStrip(place));
    view.follow = false;
    document.getElementById("arrival").value = view.t;
    document.getElementById("arrival-text").textContent = `${view.t}`;
    const component = document.getElementById("component");
    if (component) component.value = view.i;
    for (const chip of document.querySelectorAll(".chip")) {
      chip.setAttribute("aria-pressed", String(+chip.dataset.t === view.t && +chip.dataset.i === view.i));
    }
    detail();
  }

  function drawTraining() {
    const box = document.getElementById("training");
    if (!box) return;
    data.training.forEach(kept => {
      const figure = document.createElement("figure");
      const caption = document.createElement("figcaption");
      const last = kept.certain[kept.certain.length - 1];
      caption.textContent = `${kept.label}: ${Math.round(100 * last)} % of the steps are certain in the end`
        + (kept.others > 0 ? `; ${kept.others} states that were visited less are left out` : "");
      figure.appendChild(caption);
      box.appendChild(figure);
      const cell = 12, n = kept.certain.length, wide = 22, side = 14 + 6.2 * Math.max(...kept.places.map(p => p.length), 5);
      const line = 70, y0 = line + 22;
      const svg = make(figure, "svg", { width: side + wide * n + 20, height: y0 + cell * kept.places.length + 34,
        viewBox: `0 0 ${side + wide * n + 20} ${y0 + cell * kept.places.length + 34}`, role: "img", "aria-label": caption.textContent });
      const path = kept.certain.map((c, k) => `${k ? "L" : "M"}${side + wide * (k + .5)},${8 + line * (1 - c)}`).join("");
      make(svg, "rect", { x: side, y: 8, width: wide * n, height: line, fill: "none", stroke: "#d0d0d0" });
      make(svg, "path", { d: path, fill: "none", stroke: "#08519c", "stroke-width": 2 });
      make(svg, "text", { x: side - 6, y: 15, "text-anchor": "end" }, "100 %");
      make(svg, "text", { x: side - 6, y: 8 + line, "text-anchor": "end" }, "0");
      kept.means.forEach((row, r) => {
        make(svg, "text", { x: side - 6, y: y0 + cell * (r + .8), "text-anchor": "end" }, kept.places[r]);
        row.forEach((mean, k) => make(svg, "rect", { x: side + wide * k, y: y0 + cell * r, width: wide - .5, height: cell - .5,
          fill: mean === null ? "#f3f3f3" : shade(mean), stroke: mean === null ? "none" : "#e4e4e4", "stroke-width": .5 }));
      });
      const bottom = y0 + cell * kept.places.length;
      make(svg, "text", { x: side, y: bottom + 15 }, `${kept.episodes[0]}`);
      make(svg, "text", { x: side + wide * n, y: bottom + 15, "text-anchor": "end" }, `${kept.episodes[n]}`);
      make(svg, "text", { x: side + wide * n / 2, y: bottom + 30, "text-anchor": "middle" }, "episode of training");
    });
  }

  const strips = document.getElementById("strips");
  data.learners.forEach((one, place) => {
    const section = document.createElement("div");
    section.className = "strip";
    const title = document.createElement("h3");
    title.textContent = one.label;
    const box = document.createElement("div");
    box.className = "scroll";
    box.id = `strip-${place}`;
    box.tabIndex = 0;
    const hint = document.createElement("p");
    hint.className = "note hint";
    hint.textContent = "← scroll sideways →";
    section.append(title, hint, box);
    strips.appendChild(section);
  });
  document.getElementById("arrival").addEventListener("input", event => { view.t = +event.target.value; view.follow = true; draw(); });
  const component = document.getElementById("component");
  if (component) component.addEventListener("change", event => { view.i = +event.target.value; draw(); });
  for (const chip of document.querySelectorAll(".chip")) {
    chip.addEventListener("click", () => { view.t = +chip.dataset.t; view.i = +chip.dataset.i; view.follow = true; draw(); });
  }
  window.addEventListener("resize", draw);
  window.explained = { traces: (place, t, i) => traces(data.learners[place], t, i), data };
  draw();
  drawTraining();
})();
