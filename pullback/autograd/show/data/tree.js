// Part 1 of the page's script: the graph that stands in the page as JSON, as a tree of folds, and how
// large each box is. The parts run one after another in one function; see page.py.

const data = JSON.parse(document.getElementById("graph").textContent);
const $ = (id) => document.getElementById(id);
const stage = $("stage"),
  world = $("world"),
  details = $("details"),
  input = $("search").querySelector("input");
const SHOWN_AT_FIRST = 60,
  FEW_USERS = 4,
  LONGEST_WAYS = 160;

// ------------------------------------------------------------------ the tree of folds
// Every node and every fold is an item; the whole graph is the fold `root`.
const items = [],
  itemOf = [];
function build(tree, parent) {
  if (typeof tree === "number") {
    const item = { id: items.length, parent, node: tree, ...data.nodes[tree] };
    items.push(item);
    itemOf[tree] = item;
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
data.nodes.forEach((node, from) =>
  node.edges.forEach((edge) => edge && incoming[edge[0]].push([from, edge[1]])),
);
const longest = Math.max(0, ...data.nodes.map((node) => node.time || 0));

function openAtFirst() {
  // Folds from the outside in, as long as the picture stays one that the eye can take in. Of the
  // rounds of a loop all are open or none; what had to be cut in pieces stays closed.
  let shown = root.children.length;
  let level = root.children
    .filter((item) => item.children)
    .sort((a, b) => b.size - a.size)
    .map((item) => [item]);
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
  if (!widths.has(key)) {
    pen.font = font + " " + family;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}
const bytes = (count) => {
  if (count < 1024) return count + " B";
  for (const unit of ["KiB", "MiB", "GiB"]) {
    count /= 1024;
    if (count < 1024 || unit === "GiB") return count.toFixed(count < 10 ? 1 : 0) + " " + unit;
  }
};
const duration = (ns) =>
  ns < 1e3 ? ns + " ns" : ns < 1e6 ? (ns / 1e3).toFixed(1) + " µs" : (ns / 1e6).toFixed(2) + " ms";
const cut = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
const tensor = (value) => value[2] + " [" + value[1].join(", ") + "]";

function lines(item) {
  if (item.children) {
    const facts = [item.size + " nodes"];
    if (item.bytes) facts.push(bytes(item.bytes) + " saved");
    if (data.profiled) facts.push(duration(item.time));
    return [cut("⊞ " + item.label, 40), cut(item.detail, 44), facts.join(" · ")].filter(Boolean);
  }
  const first = item.label || item.name;
  const shape = item.outputs.length
    ? tensor(item.outputs[0]) + (item.outputs.length > 1 ? " + " + (item.outputs.length - 1) : "")
    : "";
  const facts = [];
  if (item.bytes) facts.push(bytes(item.bytes) + " saved");
  if (data.profiled && item.time !== null) facts.push(duration(item.time));
  // A module that is one node has no fold of its own to say so.
  const what = item.module && data.modules[item.module];
  const whose = what && item.kind !== "unreached" && !item.label ? item.module + ": " + what : "";
  return [cut(first, 40), cut(whose, 44), cut(shape, 44), facts.join(" · ")].filter(Boolean);
}

function measure(item) {
  if (item.w) return;
  item.lines = lines(item);
  item.w =
    Math.ceil(Math.max(...item.lines.map((line, i) => width(line, i ? "11px" : "600 12.5px")))) +
    26;
  item.h = 12 + item.lines.length * 15;
}
