"use strict";
// Runs a page's script on a stand-in for a browser's document, plays events read from standard
// input, and prints after each what the page says and drew: node page_harness.js PAGE.html < events.
const fs = require("fs");
const vm = require("vm");

const html = fs.readFileSync(process.argv[2], "utf8");
const part = (pattern) => pattern.exec(html)[1];
const data = part(/<script type="application\/json" id="data">([^]*?)<\/script>/);
const script = part(/<script>\n([^]*?)<\/script>\n<\/body>/);
const WIDTH = 1000, HEIGHT = 400;

let drawn = [];

function makePen() {
  const calls = ["save", "restore", "beginPath", "rect", "clip", "moveTo", "lineTo", "stroke",
    "setTransform", "setLineDash", "strokeRect"];
  const pen = {
    fillRect(x, y, wide, tall) { drawn.push({ what: "rect", x, y, wide, tall, fill: this.fillStyle }); },
    fillText(text, x, y) { drawn.push({ what: "text", text, x, y }); },
    measureText: (text) => ({ width: 6 * text.length }),
    createPattern: () => "hatch",
  };
  for (const name of calls) pen[name] = () => {};
  return pen;
}

function makeElement(dataset = {}) {
  const listeners = {};
  return {
    dataset, style: {}, hidden: true, textContent: "", children: [], offsetWidth: 100, offsetHeight: 40,
    classList: { add() {}, remove() {} },
    getContext: makePen,
    getBoundingClientRect: () => ({ left: 0, top: 0, width: WIDTH, height: HEIGHT }),
    setPointerCapture() {},
    append(...children) { this.children.push(...children); },
    addEventListener(type, listener) { (listeners[type] ||= []).push(listener); },
    fire(type, event) {
      const told = { type, preventDefault() {}, ...event };
      for (const listener of listeners[type] || []) listener(told);
    },
  };
}

const elements = {
  data: { textContent: data },
  ...Object.fromEntries(["chart", "tip", "status", "title", "legend"].map((id) => [id, makeElement()])),
};
const buttons = ["in", "out", "fit"].map((name) => makeElement({ do: name }));
const document = {
  documentElement: {},
  getElementById: (id) => elements[id],
  createElement: () => makeElement(),
  querySelectorAll: () => buttons,
};

vm.runInNewContext(script, {
  document,
  window: { devicePixelRatio: 2, matchMedia: () => makeElement() },
  requestAnimationFrame: (frame) => frame(),
  getComputedStyle: () => ({ getPropertyValue: (name) => ` ${name}` }),
  ResizeObserver: class { observe() {} },
});

const events = JSON.parse(fs.readFileSync(0, "utf8"));
const answers = events.map(([target, type, event]) => {
  drawn = [];
  const begin = process.cpuUsage().user;
  const found = target === "legend" ? elements.legend.children[event.index].children[0]
    : target === "button" ? buttons[event.index] : elements.chart;
  Object.assign(found, event.set);
  found.fire(type, event);
  return {
    status: elements.status.textContent,
    tip: elements.tip.hidden ? "" : elements.tip.textContent,
    rects: drawn.filter((each) => each.what === "rect"),
    texts: drawn.filter((each) => each.what === "text").map((each) => each.text),
    microseconds: process.cpuUsage().user - begin,
  };
});
const legend = elements.legend.children.map((each) => each.children[2].textContent);
process.stdout.write(JSON.stringify({ title: elements.title.textContent, legend, answers }));
