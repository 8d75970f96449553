// SPDX-License-Identifier: Apache-2.0
// Line charts as SVG. A series is evenly spaced ({x0, dx, y, lo?, hi?}) or has its own x; its values are numbers, or float32
// as base64. Where there are more points than pixels, each pixel column shows the least and the greatest value in it: no
// extreme is ever hidden by drawing.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const LABEL_PITCH = 15;
// Longer names of references do not fit beside a plot.
const MOST_BESIDE = 17;
// Width of a letter of an axis.
const LETTER = 6.6;
// Between the intervals of two series at one place.
const WHISKER_PITCH = 8;

function element(name, attributes, parent) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (parent) parent.appendChild(node);
  return node;
}

function decode(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const values = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) values.push(i * step);
  return { values, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function formatNumber(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  return value.toLocaleString("en", { maximumFractionDigits: size >= 100 ? 1 : size >= 1 ? 2 : 4 }).replace(/,/g, "\u2009");
}

// Text in the colour of a line, dark (or, on dark, light) enough to be read.
const inkOf = (color) => `color-mix(in srgb, ${color} 45%, var(--ink))`;

// A colour of the page's style sheet, with so many percent of its background.
function paint({ color, tint }) {
  return tint ? `color-mix(in srgb, var(--${color}) ${100 - tint}%, var(--paper))` : `var(--${color})`;
}

class Series {
  constructor(raw) {
    Object.assign(this, raw);
    for (const key of ["x", "y", "lo", "hi"]) if (typeof raw[key] === "string") this[key] = decode(raw[key]);
    this.color = paint(raw);
    this.shift = 0;
  }
  at(i) { return this.x ? this.x[i] : this.x0 + (i + 0.5) * this.dx; }
  get first() { return this.x ? this.x[0] : this.x0; }
  get last() { return this.x ? this.x[this.x.length - 1] : this.x0 + this.y.length * this.dx; }
  // Index range of the points in [low, high], one more on either side so that lines reach the edge.
  range(low, high) {
    if (!this.x) {
      const from = Math.floor((low - this.x0) / this.dx) - 1, to = Math.ceil((high - this.x0) / this.dx) + 1;
      return [Math.max(0, from), Math.min(this.y.length, to)];
    }
    let from = 0, to = this.x.length;
    while (from < to && this.x[from + 1] < low) from++;
    while (to > from && this.x[to - 2] > high) to--;
    return [from, to];
  }
  nearest(x) {
    if (x < this.first || x > this.last) return -1;
    if (!this.x) return Math.min(this.y.length - 1, Math.floor((x - this.x0) / this.dx));
    let low = 0, high = this.x.length - 1;
    while (low < high) { const middle = (low + high) >> 1; if (this.x[middle] < x) low = middle + 1; else high = middle; }
    return low > 0 && x - this.x[low - 1] < this.x[low] - x ? low - 1 : low;
  }
}

class Chart {
  constructor(figure, spec, timeline) {
    this.figure = figure;
    this.timeline = timeline;
    this.plot = figure.querySelector(".plot");
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    figure.appendChild(this.tip);
    this.width = 0;
    new ResizeObserver(() => {
      const width = Math.round(this.plot.clientWidth);
      if (width && width !== this.width) this.draw();
    }).observe(this.plot);
    this.show(spec);
    this.listen();
  }

  show(spec) {
    this.spec = spec;
    this.series = spec.series.map((raw) => new Series(raw));
    this.full = spec.x_range;
    this.draw();
  }

  get view() { return this.timeline && this.spec.time ? this.timeline.view || this.full : this.zoom || this.full; }
  set view(range) {
    if (this.timeline && this.spec.time) this.timeline.show(range);
    else { this.zoom = range; this.draw(); }
  }

  yRange(low, high) {
    let least = this.spec.y_min ?? Infinity, most = -Infinity;
    for (const series of this.series) {
      const [from, to] = series.range(low, high), top = series.hi || series.y, bottom = series.lo || series.y;
      for (let i = from; i < to; i++) {
        if (top[i] > most) most = top[i];
        if (bottom[i] < least) least = bottom[i];
      }
    }
    for (const reference of this.spec.references) if (reference.fit) most = Math.max(most, reference.y);
    if (this.spec.y_max !== null) most = this.spec.y_max;
    if (!Number.isFinite(least)) least = 0;
    if (!(most > least)) most = least + 1;
    return this.spec.y_max !== null ? [least, most] : [least, most + (most - least) * 0.06];
  }

  draw() {
    this.width = Math.round(this.plot.clientWidth) || this.width || 700;
    const narrow = this.width < 560, height = Math.round(Math.min(this.spec.height, Math.max(190, this.width * 0.62)));
    const labelled = !narrow && this.spec.labels && this.series.length * LABEL_PITCH < height - 50;
    // All time axes of the page line up, so every time series keeps the margin that labels need.
    const margin = !narrow && this.spec.time;
    const box = { left: 56, right: margin ? 122 : 14, top: 10, bottom: 40 };
    const [x0, x1] = this.view, [y0, y1] = this.yRange(x0, x1);
    const inner = { width: this.width - box.left - box.right, height: height - box.top - box.bottom };
    const px = (x) => box.left + ((x - x0) / (x1 - x0)) * inner.width;
    const py = (y) => box.top + inner.height - ((y - y0) / (y1 - y0)) * inner.height;
    Object.assign(this, { box, inner, px, py, height });
    const svg = element("svg", { viewBox: `0 0 ${this.width} ${height}`, role: "img", tabindex: "0", "aria-label": this.spec.title });
    this.axes(svg, [x0, x1], [y0, y1], narrow);
    const clip = `clip-${this.spec.id}`;
    const frame = { x: box.left, y: box.top - 2, width: inner.width, height: inner.height + 4 };
    element("rect", frame, element("clipPath", { id: clip }, svg));
    const marks = element("g", { "clip-path": `url(#${clip})`, class: "marks" }, svg);
    this.drawMarks(marks, x0, x1);
    this.setApart();
    for (const series of this.series) this.drawSeries(marks, series, x0, x1);
    const beside = this.drawReferences(svg, marks, y0, y1, margin, narrow);
    this.drawLabels(svg, [...beside, ...(labelled ? this.namesOfSeries(x0, x1, y0, y1) : [])]);
    this.cursor = element("line", { class: "cursor", y1: box.top, y2: box.top + inner.height, visibility: "hidden" }, svg);
    this.selection = element("rect", { class: "selection", y: box.top, height: inner.height, width: 0 }, svg);
    this.plot.replaceChildren(svg);
    this.svg = svg;
    this.legend(labelled ? [] : this.series.filter((series) => series.name), narrow);
  }

  axes(svg, [x0, x1], [y0, y1], narrow) {
    const { box, inner, px, py } = this, bottom = box.top + inner.height;
    const yTicks = ticks(y0, y1, inner.height / 45);
    for (const value of yTicks.values) {
      element("line", { class: "grid", x1: box.left, x2: box.left + inner.width, y1: py(value), y2: py(value) }, svg);
      const label = element("text", { x: box.left - 8, y: py(value) + 4, "text-anchor": "end" }, svg);
      label.textContent = value.toFixed(yTicks.decimals);
    }
    element("line", { class: "axis", x1: box.left, x2: box.left + inner.width, y1: bottom, y2: bottom }, svg);
    for (const { x, label } of this.xTicks(x0, x1, inner.width / (narrow ? 70 : 90))) {
      element("line", { class: "axis", x1: px(x), x2: px(x), y1: bottom, y2: bottom + 4 }, svg);
      element("text", { x: px(x), y: bottom + 18, "text-anchor": "middle" }, svg).textContent = label;
    }
    const name = element("text", { x: box.left + inner.width / 2, y: this.height - 4, "text-anchor": "middle" }, svg);
    name.textContent = this.spec.x_label;
    const middle = box.top + inner.height / 2;
    const side = element("text", { x: 13, y: middle, "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` }, svg);
    side.textContent = this.spec.y_label;
    // On a low plot a long one would reach into the figure's title.
    const room = inner.height + box.top;
    if (this.spec.y_label.length * LETTER > room) {
      side.setAttribute("textLength", room);
      side.setAttribute("lengthAdjust", "spacingAndGlyphs");
    }
  }

  // The chart's own values, as many as there is room for; else round numbers.
  xTicks(x0, x1, count) {
    if (!this.spec.x_ticks?.length) {
      const { values, decimals } = ticks(x0, x1, count);
      return values.map((x) => ({ x, label: x.toFixed(decimals) }));
    }
    const shown = [];
    for (const tick of this.spec.x_ticks.filter(({ x }) => x >= x0 && x <= x1)) {
      const before = shown.at(-1);
      if (!before || this.px(tick.x) - this.px(before.x) > 4 * (tick.label.length + before.label.length) + 6) shown.push(tick);
    }
    return shown;
  }

  // A place on the horizontal axis in words; of a chart that has values of its own, the nearest of them.
  xText(x) {
    if (!this.spec.x_ticks?.length) return null;
    return this.spec.x_ticks.reduce((best, tick) => Math.abs(tick.x - x) < Math.abs(best.x - x) ? tick : best).label;
  }

  // One entry a pixel column (or a point, where points are wider): [x, least, greatest, mean].
  columns(series, x0, x1) {
    const [from, to] = series.range(x0, x1), top = series.hi || series.y, bottom = series.lo || series.y, result = [];
    const dense = to - from > this.inner.width * 1.5;
    let column = null;
    for (let i = from; i < to; i++) {
      const y = series.y[i], x = this.px(series.at(i)) + series.shift, key = dense ? Math.round(x) : i;
      if (Number.isNaN(y) && Number.isNaN(top[i])) {
        if (!dense) { result.push(null); column = null; }
        continue;
      }
      if (!column || column.key !== key) {
        column = { key, x: dense ? key : x, i, low: bottom[i], high: top[i], sum: 0, count: 0, lowAt: i, highAt: i };
        result.push(column);
      }
      if (bottom[i] < column.low) { column.low = bottom[i]; column.lowAt = i; }
      if (top[i] > column.high) { column.high = top[i]; column.highAt = i; }
      if (!Number.isNaN(y)) { column.sum += y; column.count++; }
    }
    return result;
  }

  // Intervals of several series at one place stand side by side, around it: none hides another. In pixels, on any axis.
  setApart() {
    const whiskers = this.series.filter((series) => series.lo && series.points);
    if (whiskers.length < 2 || this.spec.x_ticks.length < 2) return;
    const places = this.spec.x_ticks.map(({ x }) => this.px(x)), middle = (whiskers.length - 1) / 2;
    const gaps = places.slice(1).map((place, i) => place - places[i]);
    const room = places[0] - this.px(this.full[0]);
    const most = Math.min(WHISKER_PITCH * middle, 0.3 * Math.min(...gaps), 0.8 * room);
    whiskers.forEach((series, i) => { series.shift = most * (i / middle - 1); });
  }

  drawSeries(marks, series, x0, x1) {
    const columns = this.columns(series, x0, x1), { py } = this;
    const width = series.width || 1.6;
    const f = (value) => value.toFixed(1);
    if (series.lo && series.points) {
      for (const c of columns) {
        if (c) element("line", { class: "whisker", x1: c.x, x2: c.x, y1: py(c.low), y2: py(c.high), style: `stroke:${series.color}` }, marks);
      }
    } else if (series.lo) {
      let above = "", below = "";
      for (const c of columns) {
        if (!c) continue;
        above += `${above ? "L" : "M"}${f(c.x)} ${f(py(c.high))}`;
        below = `L${f(c.x)} ${f(py(c.low))}${below}`;
      }
      if (above) element("path", { class: "band", d: `${above}${below}Z`, style: `fill:${series.color}` }, marks);
    }
    let path = "", open = false;
    const half = series.step && !series.x ? (series.dx / 2) * (this.inner.width / (x1 - x0)) : 0;
    for (const c of columns) {
      if (!c) { open = false; continue; }
      let points;
      if (series.lo) points = c.count ? [[c.x, c.sum / c.count]] : [];
      else if (c.low === c.high) points = half > 0.5 ? [[c.x - half, c.low], [c.x + half, c.low]] : [[c.x, c.low]];
      else points = c.lowAt < c.highAt ? [[c.x, c.low], [c.x, c.high]] : [[c.x, c.high], [c.x, c.low]];
      for (const [x, y] of points) { path += `${open ? "L" : "M"}${f(x)} ${f(py(y))}`; open = true; }
    }
    if (path) element("path", { class: "line", d: path, style: `stroke:${series.color};stroke-width:${width}` }, marks);
    if (series.points) {
      for (const c of columns) if (c) element("circle", { cx: c.x, cy: py(series.lo ? c.sum / c.count : c.high), r: 2.4, style: `fill:${series.color}` }, marks);
    }
  }

  // Gives those whose names stand beside the plot; on a narrow one they are in the legend.
  drawReferences(svg, marks, y0, y1, margin, narrow) {
    const right = this.box.left + this.inner.width, beside = [];
    for (const reference of this.spec.references) {
      if (reference.y < y0 || reference.y > y1) continue;
      const y = this.py(reference.y);
      element("line", { class: "reference", x1: this.box.left, x2: right, y1: y, y2: y }, marks);
      if (margin && reference.label.length <= MOST_BESIDE) beside.push({ name: reference.label, y });
      else if (!narrow) {
        const text = element("text", { x: this.box.left + 6, y: y - 5 < this.box.top + 8 ? y + 14 : y - 5 }, svg);
        text.setAttribute("style", "paint-order:stroke;stroke:var(--paper);stroke-width:4px");
        text.textContent = reference.label;
      }
    }
    return beside;
  }

  // What happened at a time: a line, and in words beside it as far as the next one leaves room.
  drawMarks(marks, x0, x1) {
    const shown = (this.spec.marks || []).filter((mark) => mark.x >= x0 && mark.x <= x1), { box, inner, px } = this;
    shown.forEach((mark, i) => {
      const x = px(mark.x), group = element("g", { class: "mark" }, marks);
      element("line", { x1: x, x2: x, y1: box.top, y2: box.top + inner.height }, group);
      element("title", {}, group).textContent = mark.label;
      const next = i + 1 < shown.length ? px(shown[i + 1].x) : box.left + inner.width;
      const letters = Math.floor((next - x - 8) / 5.6);
      if (letters < 3) return;
      const text = element("text", { x: x + 4, y: box.top + 10 }, group);
      text.textContent = mark.label.length <= letters ? mark.label : `${mark.label.slice(0, letters - 1)}…`;
    });
  }

  namesOfSeries(x0, x1, y0, y1) {
    const names = [];
    for (const series of this.series) {
      if (!series.name) continue;
      const [from, to] = series.range(x0, x1);
      // The mean of the last stretch, not the last sample: a label should stand where the line is seen to be.
      let sum = 0, count = 0;
      for (let i = Math.max(from, to - Math.max(3, Math.round((to - from) / 12))); i < to; i++) {
        if (!Number.isNaN(series.y[i])) { sum += series.y[i]; count++; }
      }
      if (count) names.push({ name: series.name, color: series.color, y: this.py(Math.min(y1, Math.max(y0, sum / count))) });
    }
    return names;
  }

  drawLabels(svg, labels) {
    labels.sort((a, b) => a.y - b.y);
    for (let round = 0; round < 40; round++) {
      for (let i = 1; i < labels.length; i++) {
        const overlap = labels[i - 1].y + LABEL_PITCH - labels[i].y;
        if (overlap > 0) { labels[i - 1].y -= overlap / 2; labels[i].y += overlap / 2; }
      }
    }
    // Beside the plot, not below its axis.
    let limit = this.box.top + this.inner.height;
    for (let i = labels.length - 1; i >= 0; i--) { labels[i].y = Math.min(labels[i].y, limit); limit = labels[i].y - LABEL_PITCH; }
    for (const { name, color, y } of labels) {
      const text = element("text", { x: this.box.left + this.inner.width + 8, y: y + 4 }, svg);
      if (color) {
        text.setAttribute("class", "label");
        text.setAttribute("style", `fill:${inkOf(color)}`);
      }
      text.textContent = name;
    }
  }

  legend(named, narrow) {
    this.figure.querySelector(".legend")?.remove();
    const dashed = narrow ? this.spec.references : [];
    if (!named.length && !dashed.length) return;
    const legend = document.createElement("div");
    legend.className = "legend";
    const add = (name, kind, color) => {
      const item = document.createElement("span"), swatch = document.createElement("i");
      swatch.className = kind;
      if (color) swatch.style.background = color;
      item.append(swatch, name);
      legend.appendChild(item);
    };
    for (const series of named) add(series.name, "swatch", series.color);
    for (const reference of dashed) add(reference.label, "dash");
    this.plot.before(legend);
  }

  xAt(event) {
    const bounds = this.svg.getBoundingClientRect(), [x0, x1] = this.view;
    const position = ((event.clientX - bounds.left) / bounds.width) * this.width;
    return x0 + Math.min(1, Math.max(0, (position - this.box.left) / this.inner.width)) * (x1 - x0);
  }

  listen() {
    let start = null;
    this.plot.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = this.xAt(event);
      this.plot.setPointerCapture(event.pointerId);
    });
    this.plot.addEventListener("pointermove", (event) => {
      const x = this.xAt(event);
      if (this.timeline && this.spec.time) this.timeline.point(x); else this.point(x);
      this.describe(x);
      if (start === null) return;
      const a = this.px(Math.min(start, x)), b = this.px(Math.max(start, x));
      this.selection.setAttribute("x", a);
      this.selection.setAttribute("width", b - a);
    });
    const finish = (event) => {
      if (start === null) return;
      const range = [start, this.xAt(event)].sort((a, b) => a - b);
      start = null;
      this.selection.setAttribute("width", 0);
      if (event.type === "pointerup" && this.px(range[1]) - this.px(range[0]) > 6) this.view = range;
    };
    this.plot.addEventListener("pointerup", finish);
    this.plot.addEventListener("pointercancel", finish);
    this.plot.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
      if (this.timeline && this.spec.time) this.timeline.point(null); else this.point(null);
    });
    this.plot.addEventListener("dblclick", () => { this.view = null; });
    this.plot.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const [x0, x1] = this.view, span = x1 - x0, [low, high] = this.full;
    const moves = { ArrowLeft: [-0.2, -0.2], ArrowRight: [0.2, 0.2], "+": [0.25, -0.25], "=": [0.25, -0.25], "-": [-0.5, 0.5] };
    if (event.key === "Escape") this.view = null;
    else if (moves[event.key]) {
      const [a, b] = moves[event.key];
      let from = x0 + a * span, to = x1 + b * span;
      if (from < low) { to = a === b ? Math.min(high, to + low - from) : to; from = low; }
      if (to > high) { from = a === b ? Math.max(low, from - (to - high)) : from; to = high; }
      this.view = [from, to];
    } else return;
    event.preventDefault();
    this.svg.focus();
  }

  point(x) {
    if (x === null || x < this.view[0] || x > this.view[1]) return this.cursor.setAttribute("visibility", "hidden");
    this.cursor.setAttribute("x1", this.px(x));
    this.cursor.setAttribute("x2", this.px(x));
    this.cursor.setAttribute("visibility", "visible");
  }

  describe(x) {
    const table = document.createElement("table");
    const row = (name, value, color) => {
      const line = table.insertRow(), cell = line.insertCell();
      if (color) {
        const swatch = document.createElement("i");
        swatch.className = "swatch";
        swatch.style.background = color;
        cell.appendChild(swatch);
      }
      cell.append(name);
      line.insertCell().textContent = value;
    };
    row(this.spec.x_name, this.xText(x) ?? `${formatNumber(x)} ${this.spec.x_unit}`);
    for (const series of this.series) {
      const i = series.nearest(x);
      if (i < 0 || Number.isNaN(series.y[i])) continue;
      let text = formatNumber(series.y[i]);
      if (series.lo) text += ` (${formatNumber(series.lo[i])} to ${formatNumber(series.hi[i])})`;
      row(series.name || this.spec.y_name, `${text} ${this.spec.y_unit}`, series.color);
    }
    this.tip.replaceChildren(table);
    this.tip.hidden = false;
    const left = (this.px(x) / this.width) * this.plot.clientWidth, room = this.figure.clientWidth;
    const width = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, left + 14 + width > room ? left - width - 14 : left + 14)}px`;
    this.tip.style.top = `${this.plot.offsetTop + 14}px`;
  }

  csv() {
    const unit = this.spec.x_unit && ` (${this.spec.x_unit})`;
    const lines = [`series,${this.spec.x_name}${unit},${this.spec.y_name} (${this.spec.y_unit}),minimum,maximum`];
    for (const series of this.series) {
      const name = `"${(series.name || this.spec.title).replace(/"/g, '""')}"`;
      for (let i = 0; i < series.y.length; i++) {
        if (Number.isNaN(series.y[i])) continue;
        const x = series.x ? series.x[i] : series.x0 + i * series.dx;
        const extremes = series.lo ? `${series.lo[i]},${series.hi[i]}` : ",";
        lines.push(`${name},${this.xText(x) ?? +x.toPrecision(9)},${series.y[i]},${extremes}`);
      }
    }
    return lines.join("\n") + "\n";
  }

  // A copy with every style written out, so that it looks the same in a slide or a paper.
  standalone() {
    const copy = this.svg.cloneNode(true), originals = this.svg.querySelectorAll("*"), copies = copy.querySelectorAll("*");
    originals.forEach((node, i) => {
      const style = getComputedStyle(node);
      const kept = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family", "paint-order"];
      copies[i].setAttribute("style", kept.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    });
    copy.setAttribute("xmlns", SVG);
    copy.setAttribute("width", this.width);
    copy.setAttribute("height", this.height);
    return new XMLSerializer().serializeToString(copy);
  }
}

class Timeline {
  constructor() { this.charts = []; this.view = null; }
  show(range) {
    this.view = range;
    for (const chart of this.charts) chart.draw();
    document.querySelectorAll(".reset").forEach((button) => { button.hidden = !range; });
  }
  point(x) { for (const chart of this.charts) chart.point(x); }
}
