"use strict";
// One iteration on a canvas. Times are nanoseconds, positions CSS pixels. Only what is on screen is
// drawn: in each row a binary search finds the first bar in view. Of bars that are narrower than a
// pixel the one kind that fills most of the pixel is drawn, and equal pixels are drawn at once.
(() => {
  const STRIDE = 4, ROW = 20, HEAD = 22, AXIS = 26, LEAST_SPAN = 100;
  const AXIS_FONT = "11px system-ui, sans-serif";
  const COLORS = {
    "forward": ["#2f6db5", "#7fb0e3"],
    "backward": ["#2c8a4b", "#86cc9b"],
    "input gradient": ["#2c8a4b", "#86cc9b"],
    "weight gradient": ["#7a4fa3", "#bfa3dd"],
    "all-reduce and optimizer": ["#8a8f98", "#8a8f98"],
    "bubble": ["var(--bubble)", "var(--bubble)"],
    "transfer": ["#d9822b", "#f4bd7a"],
    "window": ["#f7e3ae", "#f7e3ae"],
  };
  const TEXTS = {
    "bubble": "bubble: the GPU waits",
    "window": "window: the flow owns its paths",
    "all-reduce and optimizer": "all-reduce of the gradients and optimizer step",
  };
  const VERBS = {
    F: "forward", B: "backward", I: "input gradient", W: "weight gradient",
    SEND_F: "forward message", SEND_B: "backward message",
  };

  const byId = (id) => document.getElementById(id);
  const chart = JSON.parse(byId("data").textContent);
  const WINDOW = chart.kinds.indexOf("window");
  const canvas = byId("chart"), tip = byId("tip"), status = byId("status");
  const pen = canvas.getContext("2d");
  const actions = chart.labels.map((text) => {
    const [, stage, kind, micro] = /^(\d+)([A-Z_]+)(\d+)$/.exec(text);
    return { text, stage, kind, micro: Number(micro) };
  });
  const lanes = chart.lanes.map(unpack);
  const shown = chart.kinds.map(() => true);
  const rows = layOut();
  const height = rows.length ? rows[rows.length - 1].top + rows[rows.length - 1].height : 0;
  const end = Math.max(chart.period, 1, ...lanes.map((lane) => lane.reach[lane.reach.length - 1] || 0));

  const view = { from: 0, to: end, scroll: 0 };
  let width = 0, tall = 0, gutter = 0, pending = false, selected = null, hovered = null, hatch = null;

  function unpack(lane) {
    const count = lane.bars.length / STRIDE;
    const made = {
      name: lane.name, dataCenter: lane.dataCenter, count, hasWindows: false,
      begin: new Float64Array(count), end: new Float64Array(count), reach: new Float64Array(count),
      kind: new Uint8Array(count), label: new Int32Array(count),
    };
    let reach = 0;
    for (let i = 0; i < count; i++) {
      const [begin, length, kind, label] = lane.bars.slice(i * STRIDE, (i + 1) * STRIDE);
      made.hasWindows ||= kind === WINDOW;
      made.begin[i] = begin;
      made.end[i] = begin + length;
      made.reach[i] = reach = Math.max(reach, begin + length);
      made.kind[i] = kind;
      made.label[i] = label;
    }
    return made;
  }

  function layOut() {
    const found = [];
    let top = 0, center = null;
    const add = (row, height) => { found.push({ ...row, top, height }); top += height; };
    lanes.forEach((lane, number) => {
      if (lane.dataCenter !== center) add({ head: center = lane.dataCenter }, HEAD);
      add({ lane, number }, ROW);
    });
    return found;
  }

  // --- geometry ---

  const plotWidth = () => Math.max(1, width - gutter);
  const toX = (time) => gutter + (time - view.from) / (view.to - view.from) * plotWidth();
  const toTime = (x) => view.from + (x - gutter) / plotWidth() * (view.to - view.from);
  const toY = (top) => AXIS + top - view.scroll;
  const clamp = (value, least, most) => Math.min(Math.max(value, least), Math.max(least, most));

  function look(from, span) {
    const length = clamp(span, Math.min(LEAST_SPAN, end), end * 1.04);
    const first = clamp(from, -0.02 * end, end * 1.02 - length);
    Object.assign(view, { from: first, to: first + length });
    redraw();
  }

  function zoom(factor, at = toTime(gutter + plotWidth() / 2)) {
    const span = view.to - view.from;
    const next = clamp(span * factor, Math.min(LEAST_SPAN, end), end * 1.04);
    look(at - (at - view.from) * next / span, next);
  }

  const pan = (pixels) => look(
    view.from + pixels / plotWidth() * (view.to - view.from), view.to - view.from);

  function scroll(pixels) {
    view.scroll = clamp(view.scroll + pixels, 0, height - (tall - AXIS));
    redraw();
  }

  const everything = () => look(-0.01 * end, end * 1.02);

  function firstEndingAfter(lane, time) {
    let low = 0, high = lane.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.reach[middle] > time) high = middle; else low = middle + 1;
    }
    return low;
  }

  // The innermost bar under a point, or the nearest within three pixels.
  function barAt(x, y) {
    const row = rows.find((r) => y >= toY(r.top) && y < toY(r.top) + r.height);
    if (!row || !row.lane || x < gutter || y < AXIS) return null;
    const { lane } = row, time = toTime(x), reach = 3 * (view.to - view.from) / plotWidth();
    let best = -1, distance = Infinity;
    for (let i = firstEndingAfter(lane, time - reach); i < lane.count; i++) {
      if (lane.begin[i] > time + reach) break;
      if (!shown[lane.kind[i]]) continue;
      const off = Math.max(lane.begin[i] - time, time - lane.end[i], 0);
      if (off <= reach && off <= distance) [best, distance] = [i, off];
    }
    return best < 0 ? null : { row, lane, bar: best };
  }

  // --- words ---

  function format(time, digits = 4) {
    const size = Math.abs(time);
    const [unit, scale] = size >= 1e9 ? ["s", 1e9] : size >= 1e6 ? ["ms", 1e6]
      : size >= 1e3 ? ["µs", 1e3] : ["ns", 1];
    return `${Number((time / scale).toPrecision(digits))} ${unit}`;
  }

  function describe({ lane, bar }) {
    const kind = chart.kinds[lane.kind[bar]], action = actions[lane.label[bar]];
    const what = action
      ? `${action.text}: ${VERBS[action.kind]} of micro-batch ${action.micro}, stage ${action.stage}`
      : TEXTS[kind] || kind;
    const length = lane.end[bar] - lane.begin[bar];
    const times = `${format(lane.begin[bar], 6)} to ${format(lane.end[bar], 6)}, ${format(length)}`;
    return `${what}\n${lane.dataCenter}, ${lane.name}\n${times}`;
  }

  // --- drawing ---

  function redraw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; draw(); });
  }

  function colors() {
    const style = getComputedStyle(document.documentElement);
    const names = ["back", "text", "faint", "line", "band", "select", "bubble"];
    return Object.fromEntries(names.map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
  }

  function draw() {
    const ink = colors(), ratio = window.devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = ink.back;
    pen.fillRect(0, 0, width, tall);
    pen.save();
    pen.beginPath();
    pen.rect(0, AXIS, width, tall - AXIS);
    pen.clip();
    for (const row of rows) {
      const y = toY(row.top);
      if (y + row.height < AXIS || y > tall) continue;
      if (row.head) drawHead(row, y, ink); else drawRow(row, y, ink);
    }
    pen.restore();
    drawAxis(ink);
  }

  function drawHead(row, y, ink) {
    pen.fillStyle = ink.band;
    pen.fillRect(0, y, width, row.height);
    write(row.head, 8, y + row.height / 2, ink.text, "600 12px system-ui, sans-serif", "left");
  }

  function drawRow(row, y, ink) {
    const chosen = selected && selected.row === row;
    write(row.lane.name, gutter - 8, y + ROW / 2, chosen ? ink.select : ink.text,
      "12px system-ui, sans-serif", "right");
    pen.save();
    pen.beginPath();
    pen.rect(gutter, AXIS, plotWidth(), tall - AXIS);
    pen.clip();
    drawBars(row.lane, y, ink);
    for (const mark of [hovered, selected]) {
      if (mark && mark.row === row) outline(mark, y, mark === selected ? ink.select : ink.text);
    }
    pen.restore();
  }

  // Windows lie below the transfers that they contain.
  function drawBars(lane, y, ink) {
    if (lane.hasWindows) drawLayer(lane, y, ink, true);
    drawLayer(lane, y, ink, false);
  }

  function drawLayer(lane, y, ink, below) {
    const thin = thinBars((kind, from, to) => fill(kind, 0, from, to, y, ink));
    for (let i = firstEndingAfter(lane, view.from); i < lane.count && lane.begin[i] < view.to; i++) {
      const kind = lane.kind[i];
      if (!shown[kind] || (kind === WINDOW) !== below) continue;
      const left = toX(lane.begin[i]), wide = toX(lane.end[i]) - left;
      if (wide < 1) {
        thin.add(kind, left, wide);
      } else {
        thin.flush();
        bar(lane, i, left, left + (wide > 4 ? wide - 1 : wide), y, ink);
      }
    }
    thin.flush();
  }

  function thinBars(paint) {
    const weights = new Float64Array(chart.kinds.length);
    let pixel = -1, run = null;
    const settle = () => {
      if (pixel < 0) return;
      const kind = weights.indexOf(Math.max(...weights));
      weights.fill(0);
      if (run && run.kind === kind && run.to === pixel) run.to++;
      else { paintRun(); run = { kind, from: pixel, to: pixel + 1 }; }
      pixel = -1;
    };
    const paintRun = () => { if (run) paint(run.kind, run.from, run.to); run = null; };
    return {
      add(kind, left, wide) {
        const at = Math.max(0, Math.floor(left));
        if (at !== pixel) { settle(); pixel = at; }
        weights[kind] += wide + 1e-9;
      },
      flush() { settle(); paintRun(); },
    };
  }

  function bar(lane, i, left, right, y, ink) {
    const kind = lane.kind[i], action = actions[lane.label[i]];
    // Far outside the canvas, coordinates lose precision: cut to what can be seen.
    const from = Math.max(left, gutter - 2), to = Math.min(right, width + 2);
    fill(kind, action ? action.micro % 2 : 0, from, to, y, ink);
    if (action && to - from > 12) label(action, from, to, y, action.micro % 2 === 0);
  }

  function fill(kind, shade, from, to, y, ink) {
    const name = chart.kinds[kind];
    const inset = name === "transfer" ? 5 : name === "window" ? 1 : 2;
    pen.fillStyle = name === "bubble" ? ink.bubble : COLORS[name][shade];
    pen.fillRect(from, y + inset, to - from, ROW - 2 * inset);
    if (name === "bubble" && to - from > 3) {
      pen.fillStyle = hatch;
      pen.fillRect(from, y + inset, to - from, ROW - 2 * inset);
    }
  }

  function label(action, from, to, y, dark) {
    const font = "10px system-ui, sans-serif", room = to - from - 4;
    pen.font = font;
    const text = [action.text, String(action.micro)].find((t) => pen.measureText(t).width <= room);
    if (text) write(text, (from + to) / 2, y + ROW / 2, dark ? "#fff" : "#111", font, "center");
  }

  function outline({ lane, bar: i }, y, color) {
    const left = clamp(toX(lane.begin[i]), gutter - 4, width + 4);
    const right = clamp(toX(lane.end[i]), gutter - 4, width + 4);
    pen.strokeStyle = color;
    pen.lineWidth = 2;
    pen.strokeRect(left, y + 1, Math.max(2, right - left), ROW - 2);
  }

  function drawAxis(ink) {
    const step = tick((view.to - view.from) / Math.max(2, plotWidth() / 110));
    pen.lineWidth = 1;
    pen.font = AXIS_FONT;
    for (let n = Math.ceil(view.from / step); n * step <= view.to; n++) {
      const x = toX(n * step);
      if (x < gutter) continue;
      line(x, AXIS - 6, AXIS, ink.line);
      const text = axisText(n * step, step), half = pen.measureText(text).width / 2;
      write(text, Math.min(x, width - half - 2), AXIS / 2 - 1, ink.faint, AXIS_FONT, "center");
    }
    line(toX(chart.period), AXIS, tall, ink.faint, [4, 4]);
    pen.fillStyle = ink.line;
    pen.fillRect(gutter, AXIS - 1, plotWidth(), 1);
  }

  function tick(least) {
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    return power * [1, 2, 5, 10].find((n) => n * power >= least);
  }

  // In one unit for all that is in view.
  function axisText(time, step) {
    const size = Math.max(Math.abs(view.from), Math.abs(view.to));
    const [unit, scale] = size >= 1e9 ? ["s", 1e9] : size >= 1e6 ? ["ms", 1e6]
      : size >= 1e3 ? ["µs", 1e3] : ["ns", 1];
    const digits = Math.max(0, Math.ceil(Math.log10(scale / step) - 1e-9));
    return time === 0 ? "0" : `${(time / scale).toFixed(digits)} ${unit}`;
  }

  function line(x, top, bottom, color, dash = []) {
    if (x < gutter || x > width) return;
    pen.strokeStyle = color;
    pen.setLineDash(dash);
    pen.beginPath();
    pen.moveTo(Math.round(x) + 0.5, top);
    pen.lineTo(Math.round(x) + 0.5, bottom);
    pen.stroke();
    pen.setLineDash([]);
  }

  function write(text, x, y, color, font, align) {
    Object.assign(pen, { fillStyle: color, font, textAlign: align, textBaseline: "middle" });
    pen.fillText(text, x, y);
  }

  // --- what is pointed at or selected ---

  function hover(x, y) {
    const found = barAt(x, y);
    const same = hovered && found && hovered.lane === found.lane && hovered.bar === found.bar;
    if (!same) { hovered = found; redraw(); }
    tip.hidden = !found;
    if (!found) return;
    tip.textContent = describe(found);
    const right = x + 16 + tip.offsetWidth > width, low = y + 20 + tip.offsetHeight > tall;
    tip.style.left = `${right ? Math.max(0, x - 12 - tip.offsetWidth) : x + 16}px`;
    tip.style.top = `${low ? Math.max(0, y - 8 - tip.offsetHeight) : y + 20}px`;
  }

  function select(found) {
    selected = found;
    status.textContent = found ? describe(found).replaceAll("\n", "; ") : "";
    if (found) {
      reveal(found);
      redraw();
    }
  }

  function reveal({ row, lane, bar: i }) {
    const y = toY(row.top), span = view.to - view.from;
    if (y < AXIS) scroll(y - AXIS);
    if (y + ROW > tall) scroll(y + ROW - tall);
    if (lane.end[i] < view.from || lane.begin[i] > view.to) {
      look((lane.begin[i] + lane.end[i] - span) / 2, span);
    }
  }

  function zoomTo(found) {
    if (!found) return;
    const length = found.lane.end[found.bar] - found.lane.begin[found.bar];
    select(found);
    look(found.lane.begin[found.bar] - 2 * length, 5 * length);
  }

  // The next shown bar of the row, or where nothing is selected the first in view.
  function stepAction(by) {
    if (!selected) { stepRow(0); return; }
    const { row, lane } = selected;
    let i = selected.bar + by;
    while (i >= 0 && i < lane.count && !shown[lane.kind[i]]) i += by;
    if (i >= 0 && i < lane.count) select({ row, lane, bar: i });
  }

  function stepRow(by) {
    const full = rows.filter((row) => row.lane && row.lane.count);
    if (!full.length) return;
    const at = selected ? full.indexOf(selected.row) : 0;
    const row = full[clamp(at + by, 0, full.length - 1)], { lane } = row;
    const time = selected ? selected.lane.begin[selected.bar] : view.from;
    let i = Math.min(firstEndingAfter(lane, time), lane.count - 1);
    while (i < lane.count - 1 && !shown[lane.kind[i]]) i++;
    select({ row, lane, bar: i });
  }

  // --- keyboard and pointer ---

  const KEYS = {
    "+": () => zoom(1 / 1.5), "=": () => zoom(1 / 1.5), "-": () => zoom(1.5), "_": () => zoom(1.5),
    "0": everything, "Home": everything,
    "ArrowLeft": () => pan(-80), "ArrowRight": () => pan(80),
    "ArrowUp": () => scroll(-ROW), "ArrowDown": () => scroll(ROW),
    "PageUp": () => scroll(AXIS - tall), "PageDown": () => scroll(tall - AXIS),
    "[": () => stepAction(-1), "]": () => stepAction(1), "j": () => stepRow(1), "k": () => stepRow(-1),
    "Enter": () => zoomTo(selected),
    "Escape": () => { select(null); redraw(); },
  };

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });

  function place(event) {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? tall : 1;
    const down = event.deltaY * unit, sideways = event.deltaX * unit, { x } = place(event);
    if (x < gutter) scroll(down);
    else if (event.shiftKey) pan(down || sideways);
    else if (Math.abs(sideways) > Math.abs(down)) pan(sideways);
    else zoom(Math.exp(clamp(down, -300, 300) * 0.002), toTime(x));
    hover(x, place(event).y);
  }, { passive: false });

  const pointers = new Map();
  let moved = 0;

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
    moved = 0;
  });

  canvas.addEventListener("pointermove", (event) => {
    const now = place(event), before = pointers.get(event.pointerId);
    if (!before) { hover(now.x, now.y); return; }
    const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    if (others.length) pinch(before, now, others[0]);
    else { pan(before.x - now.x); scroll(before.y - now.y); }
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (moved > 4) { tip.hidden = true; canvas.classList.add("dragging"); }
    pointers.set(event.pointerId, now);
  });

  function pinch(before, now, other) {
    const was = Math.max(10, Math.abs(before.x - other.x)), is = Math.max(10, Math.abs(now.x - other.x));
    zoom(was / is, toTime((now.x + other.x) / 2));
  }

  function lift(event) {
    const at = place(event);
    if (pointers.delete(event.pointerId) && event.type === "pointerup" && moved <= 4) {
      select(barAt(at.x, at.y));
      hover(at.x, at.y);
      redraw();
    }
    if (!pointers.size) canvas.classList.remove("dragging");
  }

  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; hovered = null; redraw(); });
  canvas.addEventListener("dblclick", (event) => {
    const { x, y } = place(event);
    zoomTo(barAt(x, y));
  });

  const DO = { in: () => zoom(1 / 1.5), out: () => zoom(1.5), fit: everything };
  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", DO[button.dataset.do]);
  }

  // --- the frame ---

  function fillLegend() {
    const used = new Set(lanes.flatMap((lane) => [...new Set(lane.kind)]));
    chart.kinds.forEach((kind, number) => {
      if (!used.has(number)) return;
      const box = document.createElement("label"), input = document.createElement("input");
      const swatch = document.createElement("i"), text = document.createElement("span");
      Object.assign(input, { type: "checkbox", checked: true });
      input.addEventListener("change", () => {
        shown[number] = input.checked;
        if (selected && selected.lane.kind[selected.bar] === number) select(null);
        redraw();
      });
      swatch.style.background = `linear-gradient(90deg, ${COLORS[kind].join(" 50%, ")} 50%)`;
      text.textContent = kind;
      box.append(input, swatch, text);
      byId("legend").append(box);
    });
  }

  function makeHatch() {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const brush = tile.getContext("2d");
    brush.strokeStyle = "#9aa1ad66";
    brush.beginPath();
    for (const shift of [-6, 0, 6]) { brush.moveTo(shift, 6); brush.lineTo(shift + 6, 0); }
    brush.stroke();
    return pen.createPattern(tile, "repeat");
  }

  function resize() {
    const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    width = box.width;
    tall = box.height;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(tall * ratio);
    pen.font = "12px system-ui, sans-serif";
    const names = lanes.map((lane) => pen.measureText(lane.name).width + 20);
    gutter = Math.min(Math.max(60, ...names), 0.4 * width);
    scroll(0);
    draw();
  }

  document.title = `geotrain: ${chart.title}`;
  byId("title").textContent = chart.title;
  fillLegend();
  hatch = makeHatch();
  new ResizeObserver(resize).observe(canvas);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  resize();
  everything();
})();
