// Part 3: a picture that is much taller than the screen goes on in columns, as a text does, so that
// it can be read and seen whole. Cuts lie between boxes; edges across one go along the gutter.

const GUTTER = 40,
  MARGIN = 12,
  MOST_COLUMNS = 9,
  SMALLEST = 0.7;
let columns = [];

function wrap() {
  columns = [];
  const boxes = root.shown.map((child) => {
    const { width, height } = size(child);
    return { child, left: child.x, right: child.x + width, top: child.y, bottom: child.y + height };
  });
  const whole = scaleOf(root.box);
  if (whole >= SMALLEST || boxes.length < 6) return;
  let best = null;
  for (let count = 2; count <= MOST_COLUMNS; count++) {
    const made = columnsOf(boxes, root.box.h, count);
    if (made && (!best || scaleOf(made.box) > scaleOf(best.box))) best = made;
  }
  if (!best || scaleOf(best.box) < 1.15 * whole) return;
  columns = best.columns;
  for (const box of boxes) shift(box.child, columnAt((box.top + box.bottom) / 2));
  root.box = best.box;
}

// How large the picture could be shown whole.
function scaleOf({ w, h }) {
  const space = room();
  return Math.min(space.width / w, space.height / h);
}

function columnsOf(boxes, h, count) {
  const cuts = cutsOf(boxes, h, count);
  if (!cuts.length) return null;
  const ends = [...cuts, h];
  let x = 0;
  const made = [0, ...cuts].map((start, i) => {
    const inside = boxes.filter((box) => box.top >= start && box.bottom <= ends[i]);
    const left = Math.min(...inside.map((box) => box.left)) - MARGIN,
      right = Math.max(...inside.map((box) => box.right)) + MARGIN;
    const column = { start, end: ends[i], dx: x - left, dy: -start, left: x };
    x += right - left + GUTTER;
    return column;
  });
  const height = Math.max(...made.map((one) => one.end - one.start));
  return { columns: made, box: { w: x - GUTTER, h: height } };
}

// Heights between boxes, nearest to where columns of one length would end.
function cutsOf(boxes, h, count) {
  const sorted = [...boxes].sort((a, b) => a.top - b.top),
    gaps = [];
  let bottom = -Infinity;
  for (const box of sorted) {
    if (box.top > bottom + 8 && bottom > 0) gaps.push((bottom + box.top) / 2);
    bottom = Math.max(bottom, box.bottom);
  }
  const cuts = [];
  for (let i = 1; i < count; i++) {
    const ideal = (h * i) / count;
    let best = null;
    for (const gap of gaps)
      if (best === null || Math.abs(gap - ideal) < Math.abs(best - ideal)) best = gap;
    if (best !== null && !cuts.includes(best)) cuts.push(best);
  }
  return cuts.sort((a, b) => a - b);
}

function columnAt(y) {
  return columns.find((one) => y < one.end) || columns.at(-1);
}

function shift(item, by) {
  const stack = [item];
  while (stack.length) {
    const one = stack.pop();
    one.x += by.dx;
    one.y += by.dy;
    if (one.box) stack.push(...one.shown);
  }
}

// The points of an edge in the columns that they fall in.
function wrapped(points) {
  if (!columns.length) return points;
  const out = [];
  let before = null;
  for (const point of points) {
    const column = columnAt(point.y);
    if (before && column !== before) {
      const end = before.end - before.start,
        gutter = column.left - GUTTER / 2,
        last = out.at(-1);
      out.push({ x: last.x, y: end }, { x: gutter, y: end }, { x: gutter, y: 0 }, { x: point.x + column.dx, y: 0 });
    }
    out.push({ x: point.x + column.dx, y: point.y + column.dy });
    before = column;
  }
  return out;
}
