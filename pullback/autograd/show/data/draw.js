// Part 5: the picture itself, what is marked in it, and moving about.

const escape = (text) =>
  String(text).replace(
    /[&<>"]/g,
    (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c],
  );
let height = 0;
const flipped = (y) => (upside ? height - y : y);

function path(edge) {
  // Parts come outermost first; here they are in the order in which the edge runs through them.
  const along = edge.parts.sort((p, q) => p.order - q.order);
  const points = wrapped(along, columns).map((p) => [p.x, flipped(p.y)]);
  if (points.length < 3)
    return "M" + points.map((p) => p.map((v) => v.toFixed(1)).join(" ")).join("L");
  // A B-spline through the middles of the straight pieces, straight into both ends.
  let d = "M" + points[0].map((v) => v.toFixed(1)).join(" ");
  for (let i = 1; i < points.length - 1; i++) {
    const [x, y] = points[i],
      last = i === points.length - 2;
    const [nx, ny] = last
      ? points[i + 1]
      : [(x + points[i + 1][0]) / 2, (y + points[i + 1][1]) / 2];
    d += `Q${x.toFixed(1)} ${y.toFixed(1)} ${nx.toFixed(1)} ${ny.toFixed(1)}`;
  }
  return d;
}

function drawFold(fold, out) {
  for (const child of fold.shown) {
    if (child.stub) {
      drawStub(child, out);
      continue;
    }
    if (!child.box) {
      drawNode(child, out);
      continue;
    }
    const top = upside ? height - child.y - child.box.h : child.y;
    out.folds.push(
      `<g class="fold" data-item="${child.id}" transform="translate(${child.x.toFixed(1)} ${top.toFixed(1)})">` +
        `<rect width="${child.box.w.toFixed(1)}" height="${child.box.h.toFixed(1)}" rx="10"/>` +
        `<text class="title" tabindex="0" role="button" aria-expanded="true" style="--most:${largestTitle(child).toFixed(1)}px" x="10" y="${upside ? child.box.h - 8 : 17}">⊟ ${escape(child.label)}</text></g>`,
    );
  }
}

// Zoomed out a title grows, as far as its fold has room for it.
const largestTitle = (fold) =>
  Math.min(20, (12 * (fold.box.w - 18)) / Math.max(1, width("⊟ " + fold.label, "600 12px")));

function drawStub(item, out) {
  const top = upside ? height - item.y - item.h : item.y;
  out.nodes.push(
    `<g class="stub" data-leaf="${item.stub.id}" tabindex="0" role="button" aria-label="${escape(item.lines[0])}" style="--kind:var(--${item.kind})"` +
      ` transform="translate(${item.x.toFixed(1)} ${top.toFixed(1)})"><rect width="${item.w}" height="${item.h}" rx="10"/><text class="small" x="7" y="14">${escape(item.lines[0])}</text></g>`,
  );
}

function drawNode(item, out) {
  const fold = !!item.children,
    top = upside ? height - item.y - item.h : item.y;
  const kind = fold ? "group" : item.kind;
  let text =
    `<g class="node ${fold ? "group" : ""}${item.root ? " root" : ""}" data-item="${item.id}" data-kind="${kind}" tabindex="0" role="button"${fold ? ' aria-expanded="false"' : ""}` +
    ` aria-label="${escape(item.lines.join(", "))}" style="--kind:var(--${fold ? "faint" : kind})" transform="translate(${item.x.toFixed(1)} ${top.toFixed(1)})">`;
  if (fold) text += `<rect class="under" x="5" y="5" width="${item.w}" height="${item.h}" rx="7"/>`;
  text += `<rect class="box" width="${item.w}" height="${item.h}" rx="7"/>`;
  if (!fold) text += `<rect class="side" x="0" y="6" width="5" height="${item.h - 12}" rx="2"/>`;
  item.lines.forEach((line, i) => {
    text += `<text class="${i ? "small" : "name"}" x="14" y="${18 + i * 15}">${escape(line)}</text>`;
  });
  // Zoomed out, one short name as large as the box allows.
  const short = shortName(item);
  const letters = Math.min(30, item.h - 10, (item.w - 14) / Math.max(1, width(short, "600 1px")));
  text += `<text class="short" x="${item.w / 2 + 2}" y="${(item.h / 2 + letters * 0.35).toFixed(1)}" style="font-size:${letters.toFixed(1)}px">${escape(short)}</text>`;
  const time = fold ? 0 : item.time;
  if (longest && time)
    text += `<rect class="heat" x="12" y="${item.h - 4}" height="3" rx="1.5" width="${(((item.w - 20) * time) / longest).toFixed(1)}"/>`;
  out.nodes.push(text + "</g>");
}

const shortName = (item) =>
  cut(item.children ? item.label : item.label || item.name.replace(/Backward\d*$/, ""), 18);

// Calls `placed` when all have their places; the boxes may come a little later.
function draw(placed) {
  turn += 1;
  document.body.dataset.busy = "yes";
  layout(() => {
    height = root.box.h;
    if (placed) placed();
    const folds = openFolds().reverse(),
      out = { folds: [], nodes: [] };
    inTurns(
      folds,
      (fold) => drawFold(fold, out),
      () => {
        const edges = [];
        inTurns(
          [...shownEdges.keys()],
          (i) => edges.push(drawEdge(i)),
          () => fill([...out.folds, ...edges, ...out.nodes]),
        );
      },
    );
  });
}
function drawEdge(i) {
  const edge = shownEdges[i];
  return `<path class="edge${edge.count > 1 ? " many" : ""}" data-edge="${i}" d="${path(edge)}" marker-end="url(#tip)"/>`;
}

const PIECE = 700;
function fill(texts) {
  if (!many) {
    world.innerHTML = texts.join("");
    finished();
    return;
  }
  world.innerHTML = "";
  world.style.display = "none"; // painting what is not complete would take longer than all else
  const pieces = [];
  for (let at = 0; at < texts.length; at += PIECE) pieces.push(texts.slice(at, at + PIECE).join(""));
  $("counts").textContent = "drawing …";
  inTurns(
    pieces,
    (piece) => world.insertAdjacentHTML("beforeend", piece),
    () => {
      world.style.display = "";
      finished();
    },
  );
}
function finished() {
  mark();
  heat();
  count();
  delete document.body.dataset.busy;
}

function count() {
  const shown = world.querySelectorAll(".node").length;
  $("counts").textContent =
    `${data.nodes.length} nodes` +
    (shown === data.nodes.length ? "" : `, ${shown} boxes shown`) +
    (data.saved ? `, ${bytes(data.saved)} saved` : "") +
    (data.profiled ? `, ${duration(data.time)} in backward` : "");
}

// ------------------------------------------------------------------ what is marked
let chosen = null,
  hits = [],
  hit = -1;
const hidden = new Set();
let marked = false; // whether edges show anything of it

function mark() {
  const wanted = new Set(hits.map((item) => shownItem(item).id));
  const lit = chosen && shownItem(chosen);
  for (const element of world.querySelectorAll(".node")) {
    const item = items[element.dataset.item];
    element.classList.toggle("chosen", item === lit);
    element.classList.toggle("hit", wanted.has(item.id));
    element.classList.toggle(
      "dim",
      hidden.has(item.kind) || (hits.length > 0 && !wanted.has(item.id)),
    );
  }
  if (!lit && !hits.length && !hidden.size && !marked) return; // nothing to take back either
  marked = !!lit || hits.length > 0 || hidden.size > 0;
  for (const element of world.querySelectorAll(".edge")) {
    const edge = shownEdges[element.dataset.edge],
      on = lit && (edge.a === lit || edge.b === lit || edge.b.stub === lit);
    element.classList.toggle("lit", !!on);
    element.setAttribute("marker-end", on ? "url(#tip-lit)" : "url(#tip)");
    element.classList.toggle(
      "dim",
      hits.length > 0 || hidden.has(edge.a.kind) || hidden.has(edge.b.kind),
    );
  }
}

function redraw(keep) {
  // What the user looks at stays where it is.
  const before = keep && screen(keep);
  draw(() => {
    if (!before) {
      fit();
      return;
    }
    const now = screen(keep);
    view.x += before.x - now.x;
    view.y += before.y - now.y;
    show();
  });
}
function screen(item) {
  const shown = item.box && item.open ? item : shownItem(item);
  const h = shown.box && shown.open ? shown.box.h : shown.h,
    w = shown.box && shown.open ? shown.box.w : shown.w;
  if (shown.x === undefined) return null;
  return {
    x: (shown.x + w / 2) * view.scale + view.x,
    y: flipped(shown.y + (upside ? h : 0)) * view.scale + view.y,
  };
}

function toggle(fold) {
  const seen = screen(fold);
  fold.open = !fold.open;
  draw(() => {
    const now = screen(fold);
    if (seen && now) {
      view.x += seen.x - now.x;
      view.y += seen.y - now.y;
    }
    show();
  });
}

// ------------------------------------------------------------------ moving about
const view = { x: 0, y: 0, scale: 1 };
function show() {
  world.setAttribute(
    "transform",
    `translate(${view.x.toFixed(2)} ${view.y.toFixed(2)}) scale(${view.scale.toFixed(4)})`,
  );
  world.classList.toggle("far", view.scale < 0.55);
  world.classList.toggle("farther", view.scale < 0.22);
  world.style.setProperty("--inverse", Math.min(6, Math.max(1, 0.8 / view.scale)).toFixed(2));
}
function room() {
  const top = document.querySelector("header").offsetHeight + 12;
  const right = details.hidden || innerWidth < 800 ? 0 : details.offsetWidth + 16;
  return { left: 14, top, width: innerWidth - 28 - right, height: innerHeight - top - 14 };
}
function fit() {
  const space = room(),
    { w, h } = root.box;
  view.scale = Math.min(1.25, space.width / w, space.height / h);
  // All of it, if it can be read so; else it is shown from its loss on, at a size that can.
  const all = view.scale >= 0.3;
  const readable = all
    ? view.scale
    : Math.min(1, Math.max(view.scale, Math.min(0.85, space.width / w)));
  const tall = readable > view.scale;
  view.scale = readable;
  view.x = space.left + (space.width - w * view.scale) / 2;
  view.y = tall
    ? upside
      ? space.top + space.height - h * view.scale
      : space.top
    : space.top + (space.height - h * view.scale) / 2;
  show();
}
function whole() {
  const space = room(),
    { w, h } = root.box;
  view.scale = Math.min(1.25, space.width / w, space.height / h);
  view.x = space.left + (space.width - w * view.scale) / 2;
  view.y = space.top + (space.height - h * view.scale) / 2;
  show();
}
function zoom(factor, x, y) {
  const scale = Math.min(4, Math.max(0.02, view.scale * factor)),
    by = scale / view.scale;
  view.x = x - (x - view.x) * by;
  view.y = y - (y - view.y) * by;
  view.scale = scale;
  show();
}
function center(item) {
  const space = room(),
    shown = shownItem(item);
  view.scale = Math.max(view.scale, 0.8);
  view.x = space.left + space.width / 2 - (shown.x + shown.w / 2) * view.scale;
  const y = upside ? height - shown.y - shown.h / 2 : shown.y + shown.h / 2;
  view.y = space.top + space.height / 2 - y * view.scale;
  show();
}
stage.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    const unit = event.deltaMode ? 16 : 1;
    zoom(Math.exp(-event.deltaY * unit * 0.0016), event.clientX, event.clientY);
  },
  { passive: false },
);
const pointers = new Map();
let moved = 0;
stage.addEventListener("pointerdown", (event) => {
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  if (pointers.size === 1) moved = 0;
});
addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const dx = event.clientX - before.x,
    dy = event.clientY - before.y;
  if (pointers.size === 2) {
    const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
    const was = Math.hypot(before.x - other.x, before.y - other.y),
      is = Math.hypot(event.clientX - other.x, event.clientY - other.y);
    if (was > 0) zoom(is / was, (event.clientX + other.x) / 2, (event.clientY + other.y) / 2);
  } else {
    view.x += dx;
    view.y += dy;
    show();
  }
  moved += Math.abs(dx) + Math.abs(dy);
  if (moved > 4) stage.classList.add("moving");
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
});
for (const name of ["pointerup", "pointercancel"])
  addEventListener(name, (event) => {
    pointers.delete(event.pointerId);
    stage.classList.remove("moving");
  });
