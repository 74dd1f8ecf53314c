// Part 3: a picture or a fold that is much taller than the screen goes on in columns, as a text does,
// so that it can be read and seen whole. Cuts lie between boxes; edges across one go along the gutter.

const GUTTER = 40,
  MARGIN = 12,
  MOST_COLUMNS = 9,
  MOST_PORTS = 4,
  SMALLEST = 0.7;
let columns = [];

function wrap() {
  columns = [];
  const boxes = root.shown.map((child) => {
    const { width, height } = size(child);
    return { child, left: child.x, right: child.x + width, top: child.y, bottom: child.y + height };
  });
  const best = bestColumns(boxes, root.box, { pad: 0, head: 0 });
  if (!best) return;
  columns = best.columns;
  for (const box of boxes) shift(box.child, columnAt(columns, (box.top + box.bottom) / 2));
  root.box = best.box;
}

// The same inside a fold, when its boxes and wires have their places in it. One whose edges go out
// through many ports stays as it is: they would have to pass all other columns.
function wrapFold(fold, frame) {
  const inner = fold.inner || [];
  if (inner.filter((wire) => !wire.from || !wire.to).length > MOST_PORTS) return;
  const boxes = fold.shown.map((child) => {
    const { width, height } = size(child),
      { x, y } = child.at;
    return { child, left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 };
  });
  const best = bestColumns(boxes, fold.box, frame);
  if (!best) return;
  for (const { child } of boxes) {
    const { dx, dy } = columnAt(best.columns, child.at.y);
    child.at = { x: child.at.x + dx, y: child.at.y + dy };
  }
  for (const wire of inner) wire.points = wrapped(wire.points, best.columns);
  fold.box = { w: Math.max(best.box.w, frame.title), h: best.box.h };
}

function bestColumns(boxes, box, frame) {
  const whole = scaleOf(box);
  if (whole >= SMALLEST || boxes.length < 6) return null;
  let best = null;
  for (let count = 2; count <= MOST_COLUMNS; count++) {
    const made = columnsOf(boxes, box.h, count, frame);
    if (made && (!best || scaleOf(made.box) > scaleOf(best.box))) best = made;
  }
  return best && scaleOf(best.box) >= 1.15 * whole ? best : null;
}

// How large the picture could be shown whole.
function scaleOf({ w, h }) {
  const space = room();
  return Math.min(space.width / w, space.height / h);
}

function columnsOf(boxes, h, count, { pad, head }) {
  const cuts = cutsOf(boxes, h, count);
  if (!cuts.length) return null;
  const ends = [...cuts, h];
  let x = pad;
  const made = [0, ...cuts].map((start, i) => {
    const inside = boxes.filter((box) => box.top >= start && box.bottom <= ends[i]);
    const left = Math.min(...inside.map((box) => box.left)) - MARGIN,
      right = Math.max(...inside.map((box) => box.right)) + MARGIN;
    const column = { start, end: ends[i], dx: x - left, dy: i ? head - start : 0, left: x };
    x += right - left + GUTTER;
    return column;
  });
  const height = Math.max(...made.map((one) => one.end + one.dy));
  return { columns: made, box: { w: x - GUTTER + pad, h: height + (pad && 2) } };
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

function columnAt(columns, y) {
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
function wrapped(points, columns) {
  if (!columns.length) return points;
  const out = [];
  let before = null;
  for (const point of points) {
    const column = columnAt(columns, point.y);
    if (before && column !== before) {
      const end = before.end + before.dy,
        start = column.start + column.dy,
        gutter = column.left - GUTTER / 2,
        last = out.at(-1);
      out.push({ x: last.x, y: end }, { x: gutter, y: end }, { x: gutter, y: start }, { x: point.x + column.dx, y: start });
    }
    out.push({ x: point.x + column.dx, y: point.y + column.dy });
    before = column;
  }
  return out;
}
