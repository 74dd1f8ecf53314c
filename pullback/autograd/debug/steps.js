"use strict";
(() => {
  const stops = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const made = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (name) element.className = name;
    return element;
  };
  const rows = stops.map((stop, index) => {
    const row = made("li");
    const what = [stop.operator, stop.label || stop.module].filter(Boolean).join("  ");
    row.append(made("span", `${stop.when === "before" ? "▸" : "◂"} ${what}`), made("small", stop.place));
    row.title = `${stop.when} ${stop.name} ${stop.label || stop.module} ${stop.place}`;
    row.classList.toggle("broken", stop.broken);
    row.onclick = () => go(index);
    by("steps").append(row);
    return row;
  });
  by("about").textContent = `${stops.length} stops; ▸ before a node, ◂ after it; arrow keys step, b goes to the next break`;
  by("at").max = Math.max(0, stops.length - 1);

  function bars(bins) {
    const space = "http://www.w3.org/2000/svg";
    const picture = document.createElementNS(space, "svg");
    picture.setAttribute("viewBox", "0 0 240 46");
    picture.setAttribute("width", "240");
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", "histogram");
    const most = Math.max(1, ...bins);
    bins.forEach((count, index) => {
      const bar = document.createElementNS(space, "rect");
      const height = 44 * count / most;
      for (const [key, value] of Object.entries({ x: index * 10, y: 46 - height, width: 9, height }))
        bar.setAttribute(key, value);
      bar.setAttribute("fill", "#1d62d1");
      picture.append(bar);
    });
    return picture;
  }

  const rounded = (number) =>
    Number.isFinite(Number(number)) ? String(Number(Number(number).toPrecision(4))) : String(number);
  function value(parent, name, one) {
    parent.append(made("h2", name), made("p", one.text));
    if (one.bins.length > 1 && one.low !== one.high)
      parent.append(bars(one.bins), made("p", `from ${rounded(one.low)} to ${rounded(one.high)}`));
    if (one.values.length) parent.append(made("pre", one.values.join("  ")));
  }

  let now = 0;
  function go(index) {
    if (!stops.length) return;
    now = Math.max(0, Math.min(stops.length - 1, index));
    by("at").value = now;
    rows.forEach((row, at) => row.classList.toggle("now", at === now));
    rows[now].scrollIntoView({ block: "nearest" });
    const stop = stops[now], shown = by("stop");
    shown.replaceChildren(made("h2", `${stop.when} ${stop.name}${stop.label ? " of " + stop.label : ""}`));
    if (stop.module) shown.append(made("p", stop.module));
    if (stop.source) shown.append(made("pre", `${stop.place}  ${stop.source}`));
    const each = (list, name) =>
      list.forEach((one, at) => value(shown, list.length > 1 ? `${name} ${at}` : name, one));
    each(stop.arrived, "gradient of its output");
    each(stop.given, "gradient for its input");
    for (const [name, one] of Object.entries(stop.saved)) value(shown, `saved from the forward: ${name}`, one);
  }

  function wanted(stop) {
    const limit = by("limit").value.trim();
    if (limit === "") return stop.broken;
    return stop.arrived.some((one) => !(Number(one.norm) <= Number(limit)));
  }
  function onward() {
    for (let index = now + 1; index < stops.length; index++)
      if (wanted(stops[index])) return go(index);
    go(stops.length - 1);
  }

  by("first").onclick = () => go(0);
  by("back").onclick = () => go(now - 1);
  by("on").onclick = () => go(now + 1);
  by("last").onclick = () => go(stops.length - 1);
  by("break").onclick = onward;
  by("at").oninput = () => go(Number(by("at").value));
  document.onkeydown = (event) => {
    if (event.target.tagName === "INPUT" && event.target.type !== "range") return;
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.key in moves) go(now + moves[event.key]);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(stops.length - 1);
    else if (event.key === "b") onward();
    else return;
    event.preventDefault();
  };
  go(0);
})();
