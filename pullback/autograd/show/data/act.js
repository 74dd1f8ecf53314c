// Part 7: details, search, buttons and keys; then everything begins.

const badge = (kind) => `<span class="badge" style="background:var(--${kind})">${kind}</span>`;
const go = (number, more) =>
  `<button class="go" data-go="${number}">${escape((data.nodes[number].label || data.nodes[number].name) + (more || ""))}</button>`;

function describe(item) {
  const rows = (values) =>
    "<table>" +
    values
      .map(
        (value) =>
          `<tr><td>${escape(value[0])}</td><td><code>${escape(tensor(value))}</code></td><td>${bytes(value[3])}</td></tr>`,
      )
      .join("") +
    "</table>";
  let text = `<button class="close" aria-label="Close details">×</button>`;
  if (item.children) {
    text += `<h2>${escape(item.label)}</h2><div>${escape(item.detail)}</div><h3>inside</h3><div>${item.size} nodes, ${bytes(item.bytes)} saved</div>`;
    if (data.profiled) text += `<div>${duration(item.time)} in backward</div>`;
    return (
      text +
      `<p><button data-toggle="${item.id}">${item.open ? "Close" : "Open"} this fold</button></p>`
    );
  }
  text += `<h2>${escape(item.label || item.name)}</h2>${badge(item.kind)} ${item.label ? escape(item.name) : ""}`;
  if (item.module) {
    const what = data.modules[item.module];
    text += `<h3>module</h3><div>${escape(item.module + (what ? ": " + what : ""))}</div>`;
  }
  if (item.why) text += `<h3>why not</h3><div>${escape(item.why)}</div>`;
  if (item.norm !== null)
    text += `<h3>gradient</h3><div>norm ${escape(Number(item.norm).toPrecision(4))}</div>`;
  if (item.root) text += " backward starts here";
  const place = data.places[item.place];
  if (place) {
    const [file, line, name, code] = place,
      at = item.expression ? code.indexOf(item.expression) : -1;
    const shown =
      at < 0 || item.expression === code
        ? escape(code)
        : escape(code.slice(0, at)) +
          "<mark>" +
          escape(item.expression) +
          "</mark>" +
          escape(code.slice(at + item.expression.length));
    text +=
      `<h3>made at</h3><div>${escape(file)}:${line} in ${escape(name)}</div>` +
      (code ? `<pre>${shown}</pre>` : "");
  }
  if (item.outputs.length) {
    const names = item.outputs.map((value, i) => [
      item.outputs.length > 1 ? "gradient " + i : "gradient",
      ...value.slice(1),
    ]);
    text += `<h3>takes</h3>` + rows(names);
  }
  if (item.steps.length)
    text +=
      `<h3>compiled: ${item.steps.length} steps</h3>` +
      item.steps.map((step) => `<div>${escape(step)}</div>`).join("");
  if (item.saved.length)
    text += `<h3>saved for backward: ${bytes(item.bytes)}</h3>` + rows(item.saved);
  if (item.freed)
    text += `<h3>saved for backward</h3><div>freed by a backward that did not retain the graph</div>`;
  if (item.time !== null) {
    text +=
      `<h3>last profiled backward</h3><div>${duration(item.time)}` +
      (data.time ? ` (${((100 * item.time) / data.time).toFixed(1)} % of the pass)` : "") +
      (item.memory ? `, ${bytes(item.memory)} allocated` : "") +
      "</div>";
  }
  if (item.sequence >= 0)
    text += `<h3>sequence number</h3><div>${item.sequence}${item.hooks ? `, ${item.hooks} hooks` : ""}</div>`;
  const gives = item.edges
    .map(
      (edge, i) => edge && `<div>${i}: ${go(edge[0], edge[1] ? ", output " + edge[1] : "")}</div>`,
    )
    .filter(Boolean);
  if (gives.length) text += `<h3>gives gradients to</h3>` + gives.join("");
  const gets = incoming[item.node].slice(0, 40).map(([from]) => `<div>${go(from)}</div>`);
  if (gets.length)
    text +=
      `<h3>gets gradients from</h3>` +
      gets.join("") +
      (incoming[item.node].length > 40 ? "<div>…</div>" : "");
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
  for (let up = item.parent; up; up = up.parent)
    if (!up.open) {
      up.open = true;
      changed = true;
    }
  if (!changed) {
    choose(item);
    center(item);
    return;
  }
  draw(() => center(item));
  choose(item);
}
details.addEventListener("click", (event) => {
  const target = event.target.closest("button");
  if (!target) return;
  if (target.dataset.go) visit(itemOf[target.dataset.go]);
  else if (target.dataset.toggle) {
    const fold = items[target.dataset.toggle];
    toggle(fold);
    details.innerHTML = describe(fold);
  } else choose(null);
});
function refocus(fold) {
  const element = world.querySelector(`[data-item="${fold.id}"]`);
  if (element) (element.querySelector(".title") || element).focus();
}
function press(event) {
  const title = event.target.closest(".title"),
    node = event.target.closest(".node"),
    stub = event.target.closest(".stub");
  if (stub) {
    visit(items[stub.dataset.leaf]);
    return;
  }
  if (title) {
    const fold = items[title.parentNode.dataset.item];
    toggle(fold);
    if (event.type === "keydown") refocus(fold);
  }
  else if (node) {
    const item = items[node.dataset.item];
    if (item.children) toggle(item);
    else choose(item);
    // The box was drawn anew: the keyboard stays where it was.
    if (item.children && event.type === "keydown") refocus(item);
  } else if (chosen) choose(null);
}
stage.addEventListener("click", (event) => {
  if (moved <= 4) press(event);
});
// From a node that has the focus, arrows go along the edges: down to where its gradient goes, up to
// where it comes from, and to the sides to the others there.
function neighbour(item, key) {
  const shown = (list) => list.map((number) => shownItem(itemOf[number])).filter((one) => one !== item);
  const nodes = item.children ? [] : [item.node];
  const down = nodes.flatMap((number) => data.nodes[number].edges.filter(Boolean).map((edge) => edge[0]));
  const up = nodes.flatMap((number) => incoming[number].map(([from]) => from));
  if (key === (upside ? "ArrowUp" : "ArrowDown")) return shown(down)[0];
  if (key === (upside ? "ArrowDown" : "ArrowUp")) return shown(up)[0];
  const drawn = [...world.querySelectorAll(".node")].map((element) => items[element.dataset.item]);
  drawn.sort((a, b) => a.y - b.y || a.x - b.x);
  return drawn[drawn.indexOf(item) + (key === "ArrowRight" ? 1 : -1)];
}
function focus(item) {
  const element = world.querySelector(`.node[data-item="${item.id}"]`);
  if (!element) return;
  element.focus();
  choose(item.children ? null : item);
  center(item);
}
stage.addEventListener("keydown", (event) => {
  const node = event.target.closest(".node");
  if (node && event.key.startsWith("Arrow")) {
    const next = neighbour(items[node.dataset.item], event.key);
    event.preventDefault();
    event.stopPropagation();
    if (next) focus(next);
    return;
  }
  if (
    (event.key === "Enter" || event.key === " ") &&
    event.target.closest(".node, .title, .stub")
  ) {
    event.preventDefault();
    press(event);
  }
});
// A node that gets the focus by the keyboard comes into sight.
stage.addEventListener("focusin", (event) => {
  const node = event.target.closest(".node");
  if (!node || !node.matches(":focus-visible")) return;
  const box = node.getBoundingClientRect(),
    space = room();
  if (
    box.left < space.left ||
    box.top < space.top ||
    box.right > space.left + space.width ||
    box.bottom > space.top + space.height
  )
    center(items[node.dataset.item]);
});

// ------------------------------------------------------------------ search
// What a node is comes before where it was made: a line often has many calls.
const what = (item) =>
  item.what ||
  (item.what = [item.name, item.label, item.kind, item.module, ...item.outputs.map(tensor)]
    .join(" ")
    .toLowerCase());
const where = (item) => {
  const place = data.places[item.place];
  return (
    what(item) + (place ? ` ${place[0]}:${place[1]} ${place[2]} ${place[3]}`.toLowerCase() : "")
  );
};
function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = (text) =>
    itemOf.filter((item) => words.every((word) => text(item).includes(word)));
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
$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  nextHit(1);
});
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.shiftKey) {
    event.preventDefault();
    nextHit(-1);
  }
});

// ------------------------------------------------------------------ buttons and keys
function openAll(open) {
  folds.forEach((fold) => {
    fold.open = open;
  });
  redraw(null);
}
const preferred = matchMedia("(prefers-color-scheme: dark)");
let theme = data.theme || (preferred.matches ? "dark" : "light");
function paint() {
  document.documentElement.dataset.theme = theme;
}
preferred.addEventListener("change", () => {
  if (!data.theme) {
    theme = preferred.matches ? "dark" : "light";
    paint();
  }
});
function turnTheme() {
  theme = theme === "dark" ? "light" : "dark";
  paint();
}
function flip() {
  upside = !upside;
  redraw(null);
}
function save() {
  // The picture with its colours written into it, so that it stands alone.
  const copy = stage.cloneNode(true),
    style = document.createElementNS("http://www.w3.org/2000/svg", "style");
  const { w, h } = root.box,
    colours = getComputedStyle(document.documentElement);
  const names = [
    "paper",
    "panel",
    "ink",
    "faint",
    "line",
    "edge",
    "fold",
    "fold-line",
    "mark",
    "operator",
    "view",
    "in-place",
    "function",
    "leaf",
    "parameter",
    "unreached",
    "heat",
  ];
  style.textContent =
    `svg{${names.map((name) => `--${name}:${colours.getPropertyValue("--" + name)}`).join(";")};background:var(--paper);font-family:${family}}` +
    document
      .querySelector("style")
      .textContent.split("\n")
      .filter((line) => /^(\.|#tip)/.test(line))
      .join("\n");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `-12 -12 ${w + 24} ${h + 24}`);
  copy.setAttribute("width", Math.round(w + 24));
  copy.setAttribute("height", Math.round(h + 24));
  copy.querySelector("#world").removeAttribute("transform");
  copy.querySelector("#world").removeAttribute("class");
  copy.prepend(style);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(
    new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }),
  );
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
$("keys").onclick = () => {
  $("help").hidden = !$("help").hidden;
};
$("help").onclick = () => {
  $("help").hidden = true;
};
if (!folds.length) {
  $("expand").hidden = true;
  $("collapse").hidden = true;
}
const pan = (dx, dy) => {
  view.x += dx;
  view.y += dy;
  show();
};
const keys = {
  "/": () => {
    input.focus();
    input.select();
  },
  "+": () => zoom(1.25, innerWidth / 2, innerHeight / 2),
  "=": () => zoom(1.25, innerWidth / 2, innerHeight / 2),
  "-": () => zoom(0.8, innerWidth / 2, innerHeight / 2),
  0: whole,
  e: () => openAll(true),
  c: () => openAll(false),
  f: flip,
  t: turnTheme,
  "?": () => $("keys").click(),
  ArrowLeft: () => pan(60, 0),
  ArrowRight: () => pan(-60, 0),
  ArrowUp: () => pan(0, 60),
  ArrowDown: () => pan(0, -60),
  n: () => nextHit(1),
  N: () => nextHit(-1),
};
addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    if (!$("help").hidden) $("help").hidden = true;
    else if (document.activeElement === input) {
      input.value = "";
      search();
      input.blur();
    } else choose(null);
    return;
  }
  if (event.target === input || event.ctrlKey || event.metaKey || event.altKey) return;
  const action = keys[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

$("legend").innerHTML = Object.entries(data.counts)
  .map(
    ([kind, count]) =>
      `<button aria-pressed="true" data-kind="${kind}" title="Show or dim"><i style="background:var(--${kind})"></i>${kind}<span>${count}</span></button>`,
  )
  .join("");
$("legend").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const kind = button.dataset.kind;
  if (hidden.delete(kind)) button.setAttribute("aria-pressed", "true");
  else {
    hidden.add(kind);
    button.setAttribute("aria-pressed", "false");
  }
  mark();
});
addEventListener("resize", () => show());

paint();
openAtFirst();
redraw(null);
