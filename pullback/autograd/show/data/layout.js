// Part 4: where everything goes. Folds are laid out one by one, from the inside out, each by dagre: a
// fold is a box in the one around it, and its edges leave through ports. So the time grows with the
// number of nodes, and boxes never overlap.

let upside = false;
let shownEdges = [];

// Calls `done` when everything has its place: at once, or, for many boxes, in short turns between
// which the page answers.
function layout(done) {
  many = shownCount() > MANY;
  const pairs = new Map();
  data.nodes.forEach((node, from) =>
    node.edges.forEach((edge) => {
      if (!edge) return;
      const a = shownItem(itemOf[from]),
        b = shownItem(itemOf[edge[0]]);
      if (a === b) return;
      const key = a.id + ">" + b.id;
      if (!pairs.has(key)) pairs.set(key, { a, b, count: 0, parts: [] });
      pairs.get(key).count += 1;
    }),
  );
  shownEdges = stubbed([...pairs.values()]);
  for (const item of items) item.inner = null;
  for (const edge of shownEdges) route(edge);
  inTurns(openFolds(), place, () => {
    settle(root, 0, 0);
    wrap();
    done();
  });
}

// The folds that are open, inner ones before those around them.
function openFolds() {
  const found = [],
    stack = [root];
  while (stack.length) {
    const fold = stack.pop();
    found.push(fold);
    for (const child of fold.children) if (child.children && child.open) stack.push(child);
  }
  return found.reverse();
}

let turn = 0; // of the picture that is being made: a later one ends an earlier
function inTurns(list, work, done) {
  const mine = turn;
  let at = 0;
  const more = () => {
    if (mine !== turn) return;
    const end = performance.now() + 40;
    while (at < list.length && (!many || performance.now() < end)) work(list[at++]);
    if (at < list.length) setTimeout(more);
    else done();
  };
  if (many) setTimeout(more);
  else more();
}

// So many boxes that dagre would take seconds.
const MANY = 500,
  LARGE = 150;
let many = false;
function shownCount() {
  let count = 0;
  const stack = [root];
  while (stack.length) {
    const fold = stack.pop();
    for (const child of fold.children) {
      count += 1;
      if (child.children && child.open) stack.push(child);
    }
  }
  return count;
}

// A leaf that many use would pull edges through the whole picture. It stays one box, and each that
// uses it gets a small sign that names it.
function stubbed(edges) {
  const users = new Map();
  for (const { b } of edges) users.set(b, (users.get(b) || 0) + 1);
  for (const item of items) {
    item.alone = false;
    if (item.children) item.shown = item.children;
  }
  return edges.map((edge) => {
    const { a, b } = edge;
    if (b.children || b.edges.length || users.get(b) <= FEW_USERS) return edge;
    const text = "↗ " + cut(b.label || tensor(b.outputs[0]), 24);
    const stub = {
      stub: b,
      id: "s" + a.id + "_" + b.id,
      parent: a.parent,
      kind: b.kind,
      lines: [text],
      h: 20,
      w: Math.ceil(width(text, "11px")) + 14,
    };
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
  while (!up.includes(inside.parent)) {
    inside = inside.parent;
    down.push(inside);
  }
  const meeting = inside.parent;
  let from = edge.a,
    order = 0; // of the wires along the edge
  for (; from.parent !== meeting; from = from.parent) {
    wires(from.parent).push({ from, to: null, port: "out" + edge.b.id, edge, order: order++ });
  }
  wires(meeting).push({ from, to: inside, edge, order: order++ });
  for (let i = down.length - 2; i >= 0; i--) {
    wires(down[i].parent).push({ from: null, to: down[i], port: "in" + edge.a.id, edge, order: order++ });
  }
}
function wires(fold) {
  return fold.inner || (fold.inner = []);
}

function place(fold) {
  for (const child of fold.shown) {
    if (child.children && child.open) continue; // has its place already
    child.box = null;
    measure(child);
  }
  const depth = ranks(fold);
  const deepest = Math.max(...depth.values());
  const reach = (wire) =>
    !wire.to ? deepest - depth.get(wire.from) + 1 : !wire.from ? depth.get(wire.to) + 1 : 1;
  // A port is as far away as the border, so that its edge is led around what is on the way. Where
  // that would take long they are near, and the edge goes on straight, behind the boxes.
  const led = (fold.inner || []).reduce((sum, wire) => sum + reach(wire), 0) < LONGEST_WAYS;
  // The fold's graph with its own small numbers: boxes first, then ports.
  const number = new Map(fold.shown.map((child, i) => [child.id, i]));
  const ends = new Map(),
    wanted = new Map();
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
  fold.shown.forEach((child, i) => {
    if (child.alone && last) wanted.set(number.get(last.id) + ">" + i, [1, 0]);
  });
  const sizes = [...fold.shown.map(size), ...[...ends].map(() => ({ width: 2, height: 1 }))];
  const { nodes, edges } = arranged(sizes, wanted);
  const pad = fold === root ? 0 : 14,
    head = fold === root ? 0 : 24;
  let left = Infinity,
    right = 0,
    top = Infinity,
    bottom = 0;
  nodes.forEach((at, i) => {
    left = Math.min(left, at.x - sizes[i].width / 2);
    right = Math.max(right, at.x + sizes[i].width / 2);
    if (i >= fold.shown.length) return;
    top = Math.min(top, at.y - sizes[i].height / 2);
    bottom = Math.max(bottom, at.y + sizes[i].height / 2);
  });
  for (const points of edges.values())
    for (const point of points) {
      left = Math.min(left, point.x);
      right = Math.max(right, point.x);
    }
  const title = fold === root ? 0 : width(fold.label, "600 12px") + 40;
  const spare = Math.max(0, title - (right - left)) / 2;
  const shift = (point) => ({ x: point.x - left + pad + spare, y: point.y - top + pad + head });
  fold.box = { w: Math.max(right - left, title) + 2 * pad, h: bottom - top + 2 * pad + head };
  fold.shown.forEach((child, i) => {
    child.at = shift(nodes[i]);
  });
  for (const wire of fold.inner || []) wire.points = edges.get(wire.key).map(shift);
  if (fold !== root) wrapFold(fold, { pad, head, title: title + 2 * pad });
  for (const wire of fold.inner || []) {
    // Ports end at the border itself.
    if (!wire.to) wire.points.push({ x: wire.points.at(-1).x, y: fold.box.h });
    if (!wire.from) wire.points.unshift({ x: wire.points[0].x, y: 0 });
    wire.points = wire.points.filter((p) => p.y >= 0 && p.y <= fold.box.h);
  }
}

// What repeats is arranged once: rounds of a loop, and folds that stay as they are.
const known = new Map();
function arranged(sizes, wanted) {
  if (many || sizes.length + wanted.size > LARGE) return quick(sizes, wanted);
  const key = JSON.stringify([sizes.map((one) => [one.width, one.height]), [...wanted]]);
  if (known.has(key)) return known.get(key);
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ ranksep: 34, nodesep: 22, edgesep: 12 });
  sizes.forEach((one, i) => graph.setNode(String(i), { ...one }));
  for (const [name, [minlen, weight]] of wanted)
    graph.setEdge(...name.split(">"), { minlen, weight });
  dagre.layout(graph);
  const result = {
    nodes: sizes.map((_, i) => {
      const { x, y } = graph.node(String(i));
      return { x, y };
    }),
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
  const next = new Map(fold.shown.map((child) => [child, []])),
    missing = new Map(),
    depth = new Map();
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
  fold.x = x;
  fold.y = y;
  for (const wire of fold.inner || []) {
    const points = wire.points.map((p) => ({ x: p.x + x, y: p.y + y, order: wire.order }));
    // Where a fold is open its port says where the edge meets the border.
    const near = points.length <= 3;
    if (wire.to && wire.to.box) points.splice(near ? 1 : -1);
    if (wire.from && wire.from.box) points.splice(0, near ? 2 : 1);
    wire.edge.parts.push(...points);
  }
  for (const child of fold.shown) {
    const { width, height } = size(child);
    const left = x + child.at.x - width / 2,
      top = y + child.at.y - height / 2;
    if (child.box) settle(child, left, top);
    else {
      child.x = left;
      child.y = top;
    }
  }
}
