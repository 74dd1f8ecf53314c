// Part 6: colours by what a node costs or carries: time, bytes, or the size of its gradient.

const MEASURES = {
  time: { of: (item) => item.time, shown: duration, title: "time in backward" },
  bytes: { of: (item) => item.bytes, shown: bytes, title: "bytes saved" },
  norm: { of: (item) => item.norm, shown: (value) => Number(value).toPrecision(3), title: "norm of the gradient" },
};
let chosenMeasure = "";

function valuesOf(name) {
  return itemOf.map((item) => Number(MEASURES[name].of(item))).filter((value) => value > 0);
}

// On a scale of powers of ten from the least to the most; what is not finite is the hottest.
function heatOf(item, name, low, high) {
  if (item.children) return Math.max(0, ...item.children.map((child) => heatOf(child, name, low, high)));
  const given = MEASURES[name].of(item);
  if (given === null || given === undefined) return 0;
  const value = Number(given);
  if (!Number.isFinite(value)) return 1;
  if (value <= 0) return 0;
  return high > low ? 0.12 + (0.88 * (Math.log10(value) - low)) / (high - low) : 0.6;
}

function heat() {
  const values = chosenMeasure ? valuesOf(chosenMeasure) : [];
  const low = Math.log10(Math.min(...values)),
    high = Math.log10(Math.max(...values));
  for (const element of world.querySelectorAll(".node")) {
    const hot = values.length ? heatOf(items[element.dataset.item], chosenMeasure, low, high) : 0;
    element.style.setProperty("--hot", hot.toFixed(3));
    element.classList.toggle("hot", hot > 0);
  }
  const scale = $("scale");
  scale.hidden = !values.length;
  if (values.length) {
    const { shown } = MEASURES[chosenMeasure];
    scale.textContent = `${shown(10 ** low)} to ${shown(10 ** high)}`;
  }
}

const possible = Object.keys(MEASURES).filter((name) => valuesOf(name).length);
$("heat").innerHTML =
  `<option value="">no colours</option>` +
  possible.map((name) => `<option value="${name}">${MEASURES[name].title}</option>`).join("");
$("heat").hidden = !possible.length;
// What was asked for is seen at once.
if (possible.includes(data.colour)) {
  $("heat").value = chosenMeasure = data.colour;
  heat(); // the bar has its height before the picture is fitted below it
}
$("heat").onchange = () => {
  chosenMeasure = $("heat").value;
  heat();
};
