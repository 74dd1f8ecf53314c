// Draws the graph that stands in this page as JSON. Folds are laid out one by one, from the inside
// out, each by dagre: a fold is a box in the one around it, and its edges leave through ports. So
// the time grows with the number of nodes, and boxes never overlap.
"use strict";
(() => {
const data = JSON.parse(document.getElementById("graph").textContent);
const $ = (id) => document.getElementById(id);
const stage = $("stage"), world = $("world"), details = $("details"), input = $("search").querySelector("input");
const SHOWN_AT_FIRST = 48, FEW_USERS = 4, LONGEST_WAYS = 160;

// ------------------------------------------------------------------ the tree of folds
// Every node and every fold is an item; the whole graph is the fold `root`.
const items = [], itemOf = [];
function build(tree, parent) {
  if (typeof tree === "number") {
    const item = { id: items.length, parent, node: tree, ...data.nodes[tree] };
    items.push(item); itemOf[tree] = item;
    return item;
  }
  const [label, detail, children, cut] = tree;
  const item = { id: items.length, parent, label, detail, cut, open: false };
  items.push(item);
  item.children = children.map((child) => build(child, item));
  item.size = item.children.reduce((sum, child) => sum + (child.children ? child.size : 1), 0);
  item.bytes = item.children.reduce((sum, child) => sum + (child.bytes || 0), 0);
  item.time = item.children.reduce((sum, child) => sum + (child.time || 0), 0);
  return item;
}
const root = build(data.tree, null);
root.open = true;
const folds = items.filter((item) => item.children && item !== root);
const incoming = data.nodes.map(() => []);
data.nodes.forEach((node, from) => node.edges.forEach((edge) => edge && incoming[edge[0]].push([from, edge[1]])));
const longest = Math.max(0, ...data.nodes.map((node) => node.time || 0));

function openAtFirst() {
  // Folds from the outside in, as long as the picture stays one that the eye can take in. Of the
  // rounds of a loop all are open or none; what had to be cut in pieces stays closed.
  let shown = root.children.length;
  let level = root.children.filter((item) => item.children).sort((a, b) => b.size - a.size).map((item) => [item]);
  while (level.length) {
    const next = [];
    for (const alike of level) {
      const more = alike.reduce((sum, item) => sum + item.children.length - 1, 0);
      if (shown + more > SHOWN_AT_FIRST || alike.some((item) => item.cut)) continue;
      shown += more;
      for (const item of alike) {
        item.open = true;
        next.push(item.children.filter((child) => child.children));
      }
    }
    level = next.filter((alike) => alike.length);
  }
}

function shownItem(item) {
  let shown = item;
  for (let up = item.parent; up; up = up.parent) if (!up.open) shown = up;
  return shown;
}

// ------------------------------------------------------------------ boxes
const pen = document.createElement("canvas").getContext("2d");
const family = getComputedStyle(document.body).fontFamily;
const widths = new Map();
function width(text, font) {
  const key = font + text;
  if (!widths.has(key)) { pen.font = font + " " + family; widths.set(key, pen.measureText(text).width); }
  return widths.get(key);
}
const bytes = (count) => {
  if (count < 1024) return count + " B";
  for (const unit of ["KiB", "MiB", "GiB"]) {
    count /= 1024;
    if (count < 1024 || unit === "GiB") return count.toFixed(count < 10 ? 1 : 0) + " " + unit;
  }
};
const duration = (ns) => ns < 1e3 ? ns + " ns" : ns < 1e6 ? (ns / 1e3).toFixed(1) + " µs" : (ns / 1e6).toFixed(2) + " ms";
const cut = (text, length) => text.length > length ? text.slice(0, length - 1) + "…" : text;
const tensor = (value) => value[2] + " [" + value[1].join(", ") + "]";

function lines(item) {
  if (item.children) {
    const facts = [item.size + " nodes"];
    if (item.bytes) facts.push(bytes(item.bytes) + " saved");
    if (data.profiled) facts.push(duration(item.time));
    return [cut("⊞ " + item.label, 40), cut(item.detail, 44), facts.join(" · ")].filter(Boolean);
  }
  const first = item.label || item.name;
  const shape = item.outputs.length ? tensor(item.outputs[0]) + (item.outputs.length > 1 ? " + " + (item.outputs.length - 1) : "") : "";
  const facts = [];
  if (item.bytes) facts.push(bytes(item.bytes) + " saved");
  if (data.profiled && item.time !== null) facts.push(duration(item.time));
  return [cut(first, 40), cut(shape, 44), facts.join(" · ")].filter(Boolean);
}

function measure(item) {
  if (item.w) return;
  item.lines = lines(item);
  item.w = Math.ceil(Math.max(...item.lines.map((line, i) => width(line, i ? "11px" : "600 12.5px")))) + 26;
  item.h = 12 + item.lines.length * 15;
}

// ------------------------------------------------------------------ layout
let upside = false;
let shownEdges = [];

function layout() {
  const pairs = new Map();
  data.nodes.forEach((node, from) => node.edges.forEach((edge) => {
    if (!edge) return;
    const a = shownItem(itemOf[from]), b = shownItem(itemOf[edge[0]]);
    if (a === b) return;
    const key = a.id + ">" + b.id;
    if (!pairs.has(key)) pairs.set(key, { a, b, count: 0, parts: [] });
    pairs.get(key).count += 1;
  }));
  shownEdges = stubbed([...pairs.values()]);
  for (const item of items) item.inner = null;
  for (const edge of shownEdges) route(edge);
  place(root);
  settle(root, 0, 0);
}

// A leaf that many use would pull edges through the whole picture. It stays one box, and each that
// uses it gets a small sign that names it.
function stubbed(edges) {
  const users = new Map();
  for (const { b } of edges) users.set(b, (users.get(b) || 0) + 1);
  for (const item of items) { item.alone = false; if (item.children) item.shown = item.children; }
  return edges.map((edge) => {
    const { a, b } = edge;
    if (b.children || b.edges.length || users.get(b) <= FEW_USERS) return edge;
    const text = "↗ " + cut(b.label || tensor(b.outputs[0]), 24);
    const stub = { stub: b, id: "s" + a.id + "_" + b.id, parent: a.parent, kind: b.kind, lines: [text], h: 20, w: Math.ceil(width(text, "11px")) + 14 };
    if (a.parent.shown === a.parent.children) a.parent.shown = [...a.parent.children];
    a.parent.shown.push(stub);
    b.alone = true;
    return { ...edge, b: stub };
  });
}

// Which folds an edge runs through: out of those around its start, across one, into those around its end.
function route(edge) {
  const up = [];
  for (let item = edge.a; item; item = item.parent) up.push(item);
  let inside = edge.b;
  const down = [inside];
  while (!up.includes(inside.parent)) { inside = inside.parent; down.push(inside); }
  const meeting = inside.parent;
  let from = edge.a;
  for (; from.parent !== meeting; from = from.parent) {
    wires(from.parent).push({ from, to: null, port: "out" + edge.b.id, edge });
  }
  wires(meeting).push({ from, to: inside, edge });
  for (let i = down.length - 2; i >= 0; i--) {
    wires(down[i].parent).push({ from: null, to: down[i], port: "in" + edge.a.id, edge });
  }
}
function wires(fold) { return fold.inner || (fold.inner = []); }

function place(fold) {
  for (const child of fold.shown) {
    if (child.children && child.open) place(child); else { child.box = null; measure(child); }
  }
  const depth = ranks(fold);
  const deepest = Math.max(...depth.values());
  const reach = (wire) => !wire.to ? deepest - depth.get(wire.from) + 1 : !wire.from ? depth.get(wire.to) + 1 : 1;
  // A port is as far away as the border, so that its edge is led around what is on the way. Where
  // that would take long they are near, and the edge goes on straight, behind the boxes.
  const led = (fold.inner || []).reduce((sum, wire) => sum + reach(wire), 0) < LONGEST_WAYS;
  // The fold's graph with its own small numbers: boxes first, then ports.
  const number = new Map(fold.shown.map((child, i) => [child.id, i]));
  const ends = new Map(), wanted = new Map();
  const end = (item, port) => {
    if (item) return number.get(item.id);
    if (!ends.has(port)) ends.set(port, fold.shown.length + ends.size);
    return ends.get(port);
  };
  for (const wire of fold.inner || []) {
    const port = led ? wire.port : wire.port + "_" + (wire.from || wire.to).id;
    wire.key = end(wire.from, port) + ">" + end(wire.to, port);
    wanted.set(wire.key, [led ? reach(wire) : 1, wire.from && wire.to ? 3 : 1]);
  }
  // A leaf that only signs name stands at the end, as leaves do.
  const last = fold.shown.find((child) => depth.get(child) === deepest && !child.alone);
  fold.shown.forEach((child, i) => { if (child.alone && last) wanted.set(number.get(last.id) + ">" + i, [1, 0]); });
  const sizes = [...fold.shown.map(size), ...[...ends].map(() => ({ width: 2, height: 1 }))];
  const { nodes, edges } = arranged(sizes, wanted);
  const pad = fold === root ? 0 : 14, head = fold === root ? 0 : 24;
  let left = Infinity, right = 0, top = Infinity, bottom = 0;
  nodes.forEach((at, i) => {
    left = Math.min(left, at.x - sizes[i].width / 2); right = Math.max(right, at.x + sizes[i].width / 2);
    if (i >= fold.shown.length) return;
    top = Math.min(top, at.y - sizes[i].height / 2); bottom = Math.max(bottom, at.y + sizes[i].height / 2);
  });
  for (const points of edges.values()) for (const point of points) {
    left = Math.min(left, point.x); right = Math.max(right, point.x);
  }
  const title = fold === root ? 0 : width(fold.label, "600 12px") + 40;
  const spare = Math.max(0, title - (right - left)) / 2;
  const shift = (point) => ({ x: point.x - left + pad + spare, y: point.y - top + pad + head });
  fold.box = { w: Math.max(right - left, title) + 2 * pad, h: bottom - top + 2 * pad + head };
  fold.shown.forEach((child, i) => { child.at = shift(nodes[i]); });
  for (const wire of fold.inner || []) {
    wire.points = edges.get(wire.key).map(shift);
    // Ports end at the border itself.
    if (!wire.to) wire.points.push({ x: wire.points.at(-1).x, y: fold.box.h });
    if (!wire.from) wire.points.unshift({ x: wire.points[0].x, y: 0 });
    wire.points = wire.points.filter((p) => p.y >= 0 && p.y <= fold.box.h);
  }
}

// What repeats is arranged once: rounds of a loop, and folds that stay as they are.
const known = new Map();
function arranged(sizes, wanted) {
  const key = JSON.stringify([sizes.map((one) => [one.width, one.height]), [...wanted]]);
  if (known.has(key)) return known.get(key);
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ ranksep: 34, nodesep: 22, edgesep: 12 });
  sizes.forEach((one, i) => graph.setNode(String(i), { ...one }));
  for (const [name, [minlen, weight]] of wanted) graph.setEdge(...name.split(">"), { minlen, weight });
  dagre.layout(graph);
  const result = {
    nodes: sizes.map((_, i) => { const { x, y } = graph.node(String(i)); return { x, y }; }),
    edges: new Map([...wanted.keys()].map((name) => [name, graph.edge(...name.split(">")).points])),
  };
  known.set(key, result);
  return result;
}

function size(item) {
  return item.box ? { width: item.box.w, height: item.box.h } : { width: item.w, height: item.h };
}

// Steps from the top, counted along the longest way.
function ranks(fold) {
  const next = new Map(fold.shown.map((child) => [child, []])), missing = new Map(), depth = new Map();
  for (const wire of fold.inner || []) {
    if (!wire.from || !wire.to) continue;
    next.get(wire.from).push(wire.to);
    missing.set(wire.to, (missing.get(wire.to) || 0) + 1);
  }
  const ready = fold.shown.filter((child) => !missing.get(child));
  ready.forEach((child) => depth.set(child, 0));
  while (ready.length) {
    const item = ready.pop();
    for (const target of next.get(item)) {
      depth.set(target, Math.max(depth.get(target) || 0, depth.get(item) + 1));
      missing.set(target, missing.get(target) - 1);
      if (!missing.get(target)) ready.push(target);
    }
  }
  return depth;
}

// Places in the whole picture, from those in each fold.
function settle(fold, x, y) {
  fold.x = x; fold.y = y;
  for (const wire of fold.inner || []) {
    const points = wire.points.map((p) => ({ x: p.x + x, y: p.y + y }));
    // Where a fold is open its port says where the edge meets the border.
    const near = points.length <= 3;
    if (wire.to && wire.to.box) points.splice(near ? 1 : -1);
    if (wire.from && wire.from.box) points.splice(0, near ? 2 : 1);
    wire.edge.parts.push(...points);
  }
  for (const child of fold.shown) {
    const { width, height } = size(child);
    const left = x + child.at.x - width / 2, top = y + child.at.y - height / 2;
    if (child.box) settle(child, left, top); else { child.x = left; child.y = top; }
  }
}

// ------------------------------------------------------------------ drawing
const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
let height = 0;
const flipped = (y) => upside ? height - y : y;

function path(edge) {
  // Parts come outermost first; along the edge they go down.
  const points = edge.parts.sort((p, q) => p.y - q.y).map((p) => [p.x, flipped(p.y)]);
  if (points.length < 3) return "M" + points.map((p) => p.map((v) => v.toFixed(1)).join(" ")).join("L");
  // A B-spline through the middles of the straight pieces, straight into both ends.
  let d = "M" + points[0].map((v) => v.toFixed(1)).join(" ");
  for (let i = 1; i < points.length - 1; i++) {
    const [x, y] = points[i], last = i === points.length - 2;
    const [nx, ny] = last ? points[i + 1] : [(x + points[i + 1][0]) / 2, (y + points[i + 1][1]) / 2];
    d += `Q${x.toFixed(1)} ${y.toFixed(1)} ${nx.toFixed(1)} ${ny.toFixed(1)}`;
  }
  return d;
}

function drawFold(fold, out) {
  for (const child of fold.shown) {
    if (child.stub) { drawStub(child, out); continue; }
    if (!child.box) { drawNode(child, out); continue; }
    const top = upside ? height - child.y - child.box.h : child.y;
    out.folds.push(`<g class="fold" data-item="${child.id}" transform="translate(${child.x.toFixed(1)} ${top.toFixed(1)})">` +
      `<rect width="${child.box.w.toFixed(1)}" height="${child.box.h.toFixed(1)}" rx="10"/>` +
      `<text class="title" tabindex="0" role="button" x="10" y="${upside ? child.box.h - 8 : 17}">⊟ ${escape(child.label)}</text></g>`);
    drawFold(child, out);
  }
}

function drawStub(item, out) {
  const top = upside ? height - item.y - item.h : item.y;
  out.nodes.push(`<g class="stub" data-leaf="${item.stub.id}" tabindex="0" role="button" aria-label="${escape(item.lines[0])}" style="--kind:var(--${item.kind})"` +
    ` transform="translate(${item.x.toFixed(1)} ${top.toFixed(1)})"><rect width="${item.w}" height="${item.h}" rx="10"/><text class="small" x="7" y="14">${escape(item.lines[0])}</text></g>`);
}

function drawNode(item, out) {
  const fold = !!item.children, top = upside ? height - item.y - item.h : item.y;
  const kind = fold ? "group" : item.kind;
  let text = `<g class="node ${fold ? "group" : ""}${item.root ? " root" : ""}" data-item="${item.id}" data-kind="${kind}" tabindex="0" role="button"` +
    ` aria-label="${escape(item.lines.join(", "))}" style="--kind:var(--${fold ? "faint" : kind})" transform="translate(${item.x.toFixed(1)} ${top.toFixed(1)})">`;
  if (fold) text += `<rect class="under" x="5" y="5" width="${item.w}" height="${item.h}" rx="7"/>`;
  text += `<rect class="box" width="${item.w}" height="${item.h}" rx="7"/>`;
  if (!fold) text += `<rect class="side" x="0" y="6" width="5" height="${item.h - 12}" rx="2"/>`;
  item.lines.forEach((line, i) => {
    text += `<text class="${i ? "small" : "name"}" x="14" y="${18 + i * 15}">${escape(line)}</text>`;
  });
  const time = fold ? 0 : item.time;
  if (longest && time) text += `<rect class="heat" x="12" y="${item.h - 4}" height="3" rx="1.5" width="${((item.w - 20) * time / longest).toFixed(1)}"/>`;
  out.nodes.push(text + "</g>");
}

function draw() {
  layout();
  height = root.box.h;
  const out = { folds: [], nodes: [] };
  drawFold(root, out);
  const edges = shownEdges.map((edge, i) =>
    `<path class="edge${edge.count > 1 ? " many" : ""}" data-edge="${i}" d="${path(edge)}" marker-end="url(#tip)"/>`);
  world.innerHTML = out.folds.join("") + edges.join("") + out.nodes.join("");
  mark();
  const shown = world.querySelectorAll(".node").length;
  $("counts").textContent = `${data.nodes.length} nodes` + (shown === data.nodes.length ? "" : `, ${shown} boxes shown`) +
    (data.saved ? `, ${bytes(data.saved)} saved` : "") + (data.profiled ? `, ${duration(data.time)} in backward` : "");
}

// ------------------------------------------------------------------ what is marked
let chosen = null, hits = [], hit = -1;
const hidden = new Set();

function mark() {
  const wanted = new Set(hits.map((item) => shownItem(item).id));
  const lit = chosen && shownItem(chosen);
  for (const element of world.querySelectorAll(".node")) {
    const item = items[element.dataset.item];
    element.classList.toggle("chosen", item === lit);
    element.classList.toggle("hit", wanted.has(item.id));
    element.classList.toggle("dim", hidden.has(item.kind) || (hits.length > 0 && !wanted.has(item.id)));
  }
  for (const element of world.querySelectorAll(".edge")) {
    const edge = shownEdges[element.dataset.edge], on = lit && (edge.a === lit || edge.b === lit || edge.b.stub === lit);
    element.classList.toggle("lit", !!on);
    element.setAttribute("marker-end", on ? "url(#tip-lit)" : "url(#tip)");
    element.classList.toggle("dim", hits.length > 0 || hidden.has(edge.a.kind) || hidden.has(edge.b.kind));
  }
}

function redraw(keep) {
  // What the user looks at stays where it is.
  const before = keep && screen(keep);
  draw();
  if (!before) { fit(); return; }
  const now = screen(keep);
  view.x += before.x - now.x; view.y += before.y - now.y;
  show();
}
function screen(item) {
  const shown = item.box && item.open ? item : shownItem(item);
  const h = shown.box && shown.open ? shown.box.h : shown.h, w = shown.box && shown.open ? shown.box.w : shown.w;
  if (shown.x === undefined) return null;
  return { x: (shown.x + w / 2) * view.scale + view.x, y: flipped(shown.y + (upside ? h : 0)) * view.scale + view.y };
}

function toggle(fold) {
  const seen = screen(fold);
  fold.open = !fold.open;
  draw();
  const now = screen(fold);
  if (seen && now) { view.x += seen.x - now.x; view.y += seen.y - now.y; }
  show();
}

// ------------------------------------------------------------------ moving about
const view = { x: 0, y: 0, scale: 1 };
function show() {
  world.setAttribute("transform", `translate(${view.x.toFixed(2)} ${view.y.toFixed(2)}) scale(${view.scale.toFixed(4)})`);
  world.classList.toggle("far", view.scale < 0.45);
  world.classList.toggle("farther", view.scale < 0.22);
}
function room() {
  const top = document.querySelector("header").offsetHeight + 12;
  const right = details.hidden || innerWidth < 800 ? 0 : details.offsetWidth + 16;
  return { left: 14, top, width: innerWidth - 28 - right, height: innerHeight - top - 14 };
}
function fit() {
  const space = room(), { w, h } = root.box;
  view.scale = Math.min(1.25, space.width / w, space.height / h);
  // A tall picture is shown from its loss on, at a size that can be read.
  const readable = Math.min(1, Math.max(view.scale, Math.min(0.85, space.width / w)));
  const tall = readable > view.scale;
  view.scale = readable;
  view.x = space.left + (space.width - w * view.scale) / 2;
  view.y = tall ? (upside ? space.top + space.height - h * view.scale : space.top) : space.top + (space.height - h * view.scale) / 2;
  show();
}
function whole() {
  const space = room(), { w, h } = root.box;
  view.scale = Math.min(1.25, space.width / w, space.height / h);
  view.x = space.left + (space.width - w * view.scale) / 2;
  view.y = space.top + (space.height - h * view.scale) / 2;
  show();
}
function zoom(factor, x, y) {
  const scale = Math.min(4, Math.max(0.02, view.scale * factor)), by = scale / view.scale;
  view.x = x - (x - view.x) * by; view.y = y - (y - view.y) * by; view.scale = scale;
  show();
}
function center(item) {
  const space = room(), shown = shownItem(item);
  view.scale = Math.max(view.scale, 0.8);
  view.x = space.left + space.width / 2 - (shown.x + shown.w / 2) * view.scale;
  const y = upside ? height - shown.y - shown.h / 2 : shown.y + shown.h / 2;
  view.y = space.top + space.height / 2 - y * view.scale;
  show();
}
stage.addEventListener("wheel", (event) => {
  event.preventDefault();
  const unit = event.deltaMode ? 16 : 1;
  zoom(Math.exp(-event.deltaY * unit * 0.0016), event.clientX, event.clientY);
}, { passive: false });
const pointers = new Map();
let moved = 0;
stage.addEventListener("pointerdown", (event) => {
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  if (pointers.size === 1) moved = 0;
});
addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const dx = event.clientX - before.x, dy = event.clientY - before.y;
  if (pointers.size === 2) {
    const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
    const was = Math.hypot(before.x - other.x, before.y - other.y), is = Math.hypot(event.clientX - other.x, event.clientY - other.y);
    if (was > 0) zoom(is / was, (event.clientX + other.x) / 2, (event.clientY + other.y) / 2);
  } else {
    view.x += dx; view.y += dy;
    show();
  }
  moved += Math.abs(dx) + Math.abs(dy);
  if (moved > 4) stage.classList.add("moving");
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
});
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, (event) => {
  pointers.delete(event.pointerId);
  stage.classList.remove("moving");
});

// ------------------------------------------------------------------ details
const badge = (kind) => `<span class="badge" style="background:var(--${kind})">${kind}</span>`;
const go = (number, more) => `<button class="go" data-go="${number}">${escape((data.nodes[number].label || data.nodes[number].name) + (more || ""))}</button>`;

function describe(item) {
  const rows = (values) => "<table>" + values.map((value) =>
    `<tr><td>${escape(value[0])}</td><td><code>${escape(tensor(value))}</code></td><td>${bytes(value[3])}</td></tr>`).join("") + "</table>";
  let text = `<button class="close" aria-label="Close details">×</button>`;
  if (item.children) {
    text += `<h2>${escape(item.label)}</h2><div>${escape(item.detail)}</div><h3>inside</h3><div>${item.size} nodes, ${bytes(item.bytes)} saved</div>`;
    if (data.profiled) text += `<div>${duration(item.time)} in backward</div>`;
    return text + `<p><button data-toggle="${item.id}">${item.open ? "Close" : "Open"} this fold</button></p>`;
  }
  text += `<h2>${escape(item.label || item.name)}</h2>${badge(item.kind)} ${item.label ? escape(item.name) : ""}`;
  if (item.root) text += " backward starts here";
  const place = data.places[item.place];
  if (place) {
    const [file, line, name, code] = place, at = item.expression ? code.indexOf(item.expression) : -1;
    const shown = at < 0 || item.expression === code ? escape(code)
      : escape(code.slice(0, at)) + "<mark>" + escape(item.expression) + "</mark>" + escape(code.slice(at + item.expression.length));
    text += `<h3>made at</h3><div>${escape(file)}:${line} in ${escape(name)}</div>` + (code ? `<pre>${shown}</pre>` : "");
  }
  if (item.outputs.length) {
    const names = item.outputs.map((value, i) => [item.outputs.length > 1 ? "gradient " + i : "gradient", ...value.slice(1)]);
    text += `<h3>takes</h3>` + rows(names);
  }
  if (item.saved.length) text += `<h3>saved for backward: ${bytes(item.bytes)}</h3>` + rows(item.saved);
  if (item.freed) text += `<h3>saved for backward</h3><div>freed by a backward that did not retain the graph</div>`;
  if (item.time !== null) {
    text += `<h3>last profiled backward</h3><div>${duration(item.time)}` + (data.time ? ` (${(100 * item.time / data.time).toFixed(1)} % of the pass)` : "") +
      (item.memory ? `, ${bytes(item.memory)} allocated` : "") + "</div>";
  }
  if (item.sequence >= 0) text += `<h3>sequence number</h3><div>${item.sequence}${item.hooks ? `, ${item.hooks} hooks` : ""}</div>`;
  const gives = item.edges.map((edge, i) => edge && `<div>${i}: ${go(edge[0], edge[1] ? ", output " + edge[1] : "")}</div>`).filter(Boolean);
  if (gives.length) text += `<h3>gives gradients to</h3>` + gives.join("");
  const gets = incoming[item.node].slice(0, 40).map(([from]) => `<div>${go(from)}</div>`);
  if (gets.length) text += `<h3>gets gradients from</h3>` + gets.join("") + (incoming[item.node].length > 40 ? "<div>…</div>" : "");
  return text;
}
function choose(item) {
  chosen = item;
  details.hidden = !item;
  if (item) details.innerHTML = describe(item);
  mark();
}
function visit(item) {
  let changed = false;
  for (let up = item.parent; up; up = up.parent) if (!up.open) { up.open = true; changed = true; }
  if (changed) draw();
  choose(item);
  center(item);
}
details.addEventListener("click", (event) => {
  const target = event.target.closest("button");
  if (!target) return;
  if (target.dataset.go) visit(itemOf[target.dataset.go]);
  else if (target.dataset.toggle) { const fold = items[target.dataset.toggle]; toggle(fold); details.innerHTML = describe(fold); }
  else choose(null);
});
function press(event) {
  const title = event.target.closest(".title"), node = event.target.closest(".node"), stub = event.target.closest(".stub");
  if (stub) { visit(items[stub.dataset.leaf]); return; }
  if (title) toggle(items[title.parentNode.dataset.item]);
  else if (node) {
    const item = items[node.dataset.item];
    if (item.children) toggle(item); else choose(item);
  } else if (chosen) choose(null);
}
stage.addEventListener("click", (event) => { if (moved <= 4) press(event); });
stage.addEventListener("keydown", (event) => {
  if ((event.key === "Enter" || event.key === " ") && event.target.closest(".node, .title, .stub")) { event.preventDefault(); press(event); }
});
// A node that gets the focus by the keyboard comes into sight.
stage.addEventListener("focusin", (event) => {
  const node = event.target.closest(".node");
  if (!node || !node.matches(":focus-visible")) return;
  const box = node.getBoundingClientRect(), space = room();
  if (box.left < space.left || box.top < space.top || box.right > space.left + space.width || box.bottom > space.top + space.height) center(items[node.dataset.item]);
});

// ------------------------------------------------------------------ search
// What a node is comes before where it was made: a line often has many calls.
const what = (item) => item.what || (item.what = [item.name, item.label, item.kind, ...item.outputs.map(tensor)].join(" ").toLowerCase());
const where = (item) => {
  const place = data.places[item.place];
  return what(item) + (place ? ` ${place[0]}:${place[1]} ${place[2]} ${place[3]}`.toLowerCase() : "");
};
function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = (text) => itemOf.filter((item) => words.every((word) => text(item).includes(word)));
  hits = words.length ? matching(what) : [];
  if (words.length && !hits.length) hits = matching(where);
  hit = -1;
  $("found").textContent = words.length ? (hits.length ? `${hits.length} found` : "none") : "";
  mark();
}
function nextHit(step) {
  if (!hits.length) return;
  hit = (hit + step + hits.length) % hits.length;
  $("found").textContent = `${hit + 1} of ${hits.length}`;
  visit(hits[hit]);
}
input.addEventListener("input", search);
$("search").addEventListener("submit", (event) => { event.preventDefault(); nextHit(1); });
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); nextHit(-1); }
});

// ------------------------------------------------------------------ buttons and keys
function openAll(open) {
  folds.forEach((fold) => { fold.open = open; });
  redraw(null);
}
const preferred = matchMedia("(prefers-color-scheme: dark)");
let theme = data.theme || (preferred.matches ? "dark" : "light");
function paint() { document.documentElement.dataset.theme = theme; }
preferred.addEventListener("change", () => { if (!data.theme) { theme = preferred.matches ? "dark" : "light"; paint(); } });
function turnTheme() { theme = theme === "dark" ? "light" : "dark"; paint(); }
function flip() { upside = !upside; redraw(null); }
function save() {
  // The picture with its colours written into it, so that it stands alone.
  const copy = stage.cloneNode(true), style = document.createElementNS("http://www.w3.org/2000/svg", "style");
  const { w, h } = root.box, colours = getComputedStyle(document.documentElement);
  const names = ["paper", "panel", "ink", "faint", "line", "edge", "fold", "fold-line", "mark", "operator", "view", "in-place", "function", "leaf", "parameter", "heat"];
  style.textContent = `svg{${names.map((name) => `--${name}:${colours.getPropertyValue("--" + name)}`).join(";")};background:var(--paper);font-family:${family}}` +
    document.querySelector("style").textContent.split("\n").filter((line) => /^(\.|#tip)/.test(line)).join("\n");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `-12 -12 ${w + 24} ${h + 24}`);
  copy.setAttribute("width", Math.round(w + 24)); copy.setAttribute("height", Math.round(h + 24));
  copy.querySelector("#world").removeAttribute("transform");
  copy.querySelector("#world").removeAttribute("class");
  copy.prepend(style);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
  link.download = "graph.svg";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
$("expand").onclick = () => openAll(true);
$("collapse").onclick = () => openAll(false);
$("fit").onclick = whole;
$("flip").onclick = flip;
$("theme").onclick = turnTheme;
$("save").onclick = save;
$("keys").onclick = () => { $("help").hidden = !$("help").hidden; };
$("help").onclick = () => { $("help").hidden = true; };
if (!folds.length) { $("expand").hidden = true; $("collapse").hidden = true; }
const pan = (dx, dy) => { view.x += dx; view.y += dy; show(); };
const keys = {
  "/": () => { input.focus(); input.select(); }, "+": () => zoom(1.25, innerWidth / 2, innerHeight / 2), "=": () => zoom(1.25, innerWidth / 2, innerHeight / 2),
  "-": () => zoom(0.8, innerWidth / 2, innerHeight / 2), "0": whole, e: () => openAll(true), c: () => openAll(false), f: flip, t: turnTheme, "?": () => $("keys").click(),
  ArrowLeft: () => pan(60, 0), ArrowRight: () => pan(-60, 0), ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60), n: () => nextHit(1), N: () => nextHit(-1),
};
addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    if (!$("help").hidden) $("help").hidden = true;
    else if (document.activeElement === input) { input.value = ""; search(); input.blur(); }
    else choose(null);
    return;
  }
  if (event.target === input || event.ctrlKey || event.metaKey || event.altKey) return;
  const action = keys[event.key];
  if (action) { event.preventDefault(); action(); }
});

$("legend").innerHTML = Object.entries(data.counts).map(([kind, count]) =>
  `<button aria-pressed="true" data-kind="${kind}" title="Show or dim"><i style="background:var(--${kind})"></i>${kind}<span>${count}</span></button>`).join("");
$("legend").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const kind = button.dataset.kind;
  if (hidden.delete(kind)) button.setAttribute("aria-pressed", "true");
  else { hidden.add(kind); button.setAttribute("aria-pressed", "false"); }
  mark();
});
addEventListener("resize", () => show());

paint();
openAtFirst();
redraw(null);
})();
