// Part 2: a layout for what is too much for dagre: rows by the longest way, in each the order that
// crosses least by averages, then places. Its time grows with the number of boxes and edges alone.

const ROW_GAP = 34,
  BOX_GAP = 22,
  SWEEPS = 3;

function quick(sizes, wanted) {
  const edges = [...wanted.keys()].map((name) => name.split(">").map(Number));
  const below = sizes.map(() => []),
    above = sizes.map(() => []);
  for (const [a, b] of edges) {
    below[a].push(b);
    above[b].push(a);
  }
  const rows = orderedRows(sizes.length, below, above);
  const x = new Float64Array(sizes.length),
    y = new Float64Array(sizes.length);
  for (const row of rows) pack(row, sizes, x, null);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const row of rows) pack(row, sizes, x, above);
    for (const row of [...rows].reverse()) pack(row, sizes, x, below);
  }
  let top = 0;
  for (const row of rows) {
    const height = Math.max(...row.map((i) => sizes[i].height));
    for (const i of row) y[i] = top + height / 2;
    top += height + ROW_GAP;
  }
  const points = new Map();
  for (const [a, b] of edges) {
    const from = y[a] + sizes[a].height / 2,
      to = y[b] - sizes[b].height / 2,
      turn = Math.min(ROW_GAP / 2, (to - from) / 2);
    points.set(a + ">" + b, [
      { x: x[a], y: from },
      { x: x[a], y: from + turn },
      { x: x[b], y: to - turn },
      { x: x[b], y: to },
    ]);
  }
  return { nodes: sizes.map((_, i) => ({ x: x[i], y: y[i] })), edges: points };
}

// Rows of boxes from the top; in each, who has its neighbours to the left stands to the left.
function orderedRows(count, below, above) {
  const rank = new Int32Array(count),
    missing = above.map((list) => list.length),
    ready = [];
  for (let i = 0; i < count; i++) if (!missing[i]) ready.push(i);
  for (let at = 0; at < ready.length; at++)
    for (const next of below[ready[at]]) {
      rank[next] = Math.max(rank[next], rank[ready[at]] + 1);
      if (!--missing[next]) ready.push(next);
    }
  // What gives to one row only stands right above it: leaves come down to who uses them.
  for (let at = ready.length - 1; at >= 0; at--) {
    const i = ready[at];
    if (!above[i].length && below[i].length)
      rank[i] = Math.max(rank[i], Math.min(...below[i].map((next) => rank[next])) - 1);
  }
  const rows = [];
  for (const i of ready) (rows[rank[i]] || (rows[rank[i]] = [])).push(i);
  const filled = rows.filter(Boolean),
    place = new Float64Array(count);
  const note = (row) => row.forEach((i, at) => (place[i] = at / row.length));
  filled.forEach(note);
  const sort = (row, near) => {
    const wish = new Map(row.map((i) => [i, mean(near[i], place, place[i])]));
    row.sort((a, b) => wish.get(a) - wish.get(b));
    note(row);
  };
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const row of filled) sort(row, above);
    for (const row of [...filled].reverse()) sort(row, below);
  }
  return filled;
}

function mean(list, values, otherwise) {
  if (!list.length) return otherwise;
  let sum = 0;
  for (const i of list) sum += values[i];
  return sum / list.length;
}

// Boxes of a row at the places they wish for, as far as they have room, in their order.
function pack(row, sizes, x, near) {
  const wish = row.map((i) => (near ? mean(near[i], x, x[i]) : x[i]));
  const least = [],
    most = [];
  let right = -Infinity;
  row.forEach((i, at) => {
    least[at] = Math.max(wish[at], right + sizes[i].width / 2);
    right = least[at] + sizes[i].width / 2 + BOX_GAP;
  });
  let left = Infinity;
  for (let at = row.length - 1; at >= 0; at--) {
    most[at] = Math.min(wish[at], left - sizes[row[at]].width / 2);
    left = most[at] - sizes[row[at]].width / 2 - BOX_GAP;
  }
  // Halfway between pushing all to the right and all to the left; both keep the distances.
  row.forEach((i, at) => (x[i] = (least[at] + most[at]) / 2));
}
