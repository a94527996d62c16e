"use strict";

// Draws the levels of a compressed sequence (data: see `figure_data`) and tells about the token that is pointed at.
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const STEP = 46, ROW = 96, LEFT = 100, RADIUS = 15;

const chooser = document.getElementById("sequence");
const around = document.getElementById("around");
const drawing = document.getElementById("drawing");
let tokens = [];
let chosen = 0;

function add(parent, name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return parent.appendChild(node);
}

function columnsOf(sequence, width) {
  const wanted = new Set([-1, 0, 1, sequence.length - 1, sequence.length]);
  for (const token of sequence.levels[0])
    if (token.up) for (let d = -width; d <= width; d++) wanted.add(token.position + d);
  const columns = [];
  for (let position = -1; position <= sequence.length; position++) {
    if (wanted.has(position)) columns.push(position);
    else if (columns.at(-1) !== null) columns.push(null);
  }
  return columns;
}

// What fits into a circle; the details below the drawing give the whole symbol.
const label = (symbol) => ({ "<start>": "start", "<end>": "end" })[symbol] ?? (symbol.length > 5 ? symbol.slice(0, 4) + "…" : symbol);

function drawLevel(svg, level, tokensHere, x, y, top) {
  add(svg, "text", { class: "level", x: 12, y: y }, `level ${level}`);
  tokensHere.forEach((token, i) => {
    if (i > 0) {
      const from = x.get(tokensHere[i - 1].position), to = x.get(token.position);
      const gap = level === 0 && to - from > STEP ? " gap" : "";
      add(svg, "path", { class: "time" + gap, d: `M${from + RADIUS},${y} H${to - RADIUS - 2}`, "marker-end": "url(#arrow)" });
    }
    if (token.up && !top)
      add(svg, "path", { class: token.always ? "up always" : "up", d: `M${x.get(token.position)},${y - RADIUS} v${-(ROW - 2 * RADIUS - 18)}`, "marker-end": token.always ? "url(#arrow-always)" : "url(#arrow-up)" });
  });
  tokensHere.forEach((token, i) => {
    const group = add(svg, "g", { class: "token" + (token.always ? " always" : token.up ? " failed" : "") });
    const name = label(token.symbol);
    add(group, "circle", { cx: x.get(token.position), cy: y, r: RADIUS });
    add(group, "text", { x: x.get(token.position), y: y, style: name.length > 2 ? "font-size: 10px" : "" }, name);
    if (token.probability !== null)
      add(group, "text", { class: "small", x: x.get(token.position), y: y + RADIUS + 10 }, token.probability.toFixed(2));
    const entry = { token, level, group, previous: i > 0 ? tokensHere[i - 1] : null };
    tokens.push(entry);
    group.addEventListener("pointerenter", () => choose(tokens.indexOf(entry)));
  });
}

function arrowHead(defs, id, color) {
  const marker = add(defs, "marker", { id, viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
  add(marker, "path", { d: "M0,0 L8,4 L0,8 z", style: `fill: var(${color})` });
}

function draw() {
  const sequence = data[chooser.value];
  document.getElementById("around-value").textContent = around.value;
  const columns = columnsOf(sequence, Number(around.value));
  const x = new Map();
  columns.forEach((column, i) => { if (column !== null) x.set(column, LEFT + i * STEP); });
  const rows = sequence.levels.length;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("width", LEFT + columns.length * STEP);
  svg.setAttribute("height", rows * ROW + 20);
  const defs = add(svg, "defs", {});
  arrowHead(defs, "arrow", "--predicted");
  arrowHead(defs, "arrow-up", "--failed");
  arrowHead(defs, "arrow-always", "--ink");
  tokens = [];
  sequence.levels.forEach((level, l) => {
    const here = level.filter((token) => x.has(token.position));
    drawLevel(svg, l, here, x, (rows - l) * ROW - 40, l === rows - 1);
  });
  columns.forEach((column, i) => {
    if (column === null) add(svg, "text", { class: "small", x: LEFT + i * STEP, y: rows * ROW - 60 }, "⋯");
  });
  drawing.replaceChildren(svg);
  document.getElementById("summary").textContent =
    `${sequence.kept} of ${sequence.length} symbols reach the top level. Description length: ${sequence.bits.toFixed(1)} bits.`;
  choose(Math.min(chosen, tokens.length - 1));
}

function choose(index) {
  chosen = index;
  tokens.forEach(({ group }, i) => group.classList.toggle("chosen", i === index));
  const { token, level, previous } = tokens[index];
  const facts = { Level: level, Position: token.position < 0 ? "before the first symbol" : token.position + 1, Token: token.symbol };
  if (token.predicted !== null) {
    facts.Predicted = token.predicted;
    facts.Probability = token.probability.toFixed(4) + (level > 0 ? " (symbol and time)" : "");
    facts["Goes up"] = token.always ? "always" : token.up ? "yes" : "no";
  }
  if (level > 0 && previous) facts["Since the token before"] = `${token.position - previous.position} steps`;
  const rows = Object.entries(facts).flatMap(([name, value]) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = value;
    return [dt, dd];
  });
  document.getElementById("details").replaceChildren(...rows);
}

for (const name of Object.keys(data)) chooser.add(new Option(name, name));
chooser.addEventListener("change", draw);
around.addEventListener("input", draw);
drawing.addEventListener("keydown", (event) => {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!move) return;
  event.preventDefault();
  choose(Math.min(tokens.length - 1, Math.max(0, chosen + move)));
  tokens[chosen].group.scrollIntoView({ block: "nearest", inline: "center" });
});
draw();
