"use strict";
// The trace on two canvases: the whole recording below, a stretch of it above. Samples are 16-bit integers on one scale.
(function () {
  const data = JSON.parse(document.getElementById("trace-data").textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const words = (text) => new Uint16Array(bytes(text).buffer);
  const y = words(data.y), offset = words(data.offset), level = words(data.level), chance = bytes(data.probability), open = bytes(data.open);
  const MISSING = 65535, FULL = 65000;
  const box = document.querySelector(".trace");
  const detail = box.querySelector(".detail"), overview = box.querySelector(".overview");
  const [output, reading] = document.querySelectorAll(".tools output");
  const begins = new Set(data.starts);
  const state = { from: 0, to: data.n, subtract: false };
  const value = (code) => data.low + (code / FULL) * (data.high - data.low);

  function sized(canvas) {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    return pen;
  }

  // Smallest and largest of a series in every column of pixels.
  function extremes(series, base, from, to, width) {
    const low = new Float64Array(width).fill(Infinity), high = new Float64Array(width).fill(-Infinity);
    const scale = width / (to - from);
    for (let t = Math.max(0, Math.floor(from)); t < Math.min(data.n, Math.ceil(to)); t++) {
      if (series[t] === MISSING) continue;
      const x = Math.min(width - 1, Math.max(0, Math.floor((t - from) * scale)));
      const here = series[t] - (base ? base[t] - FULL / 4 : 0);
      if (here < low[x]) low[x] = here;
      if (here > high[x]) high[x] = here;
    }
    return [low, high];
  }

  function draw(canvas, from, to, whole) {
    const pen = sized(canvas), width = canvas.clientWidth, height = canvas.clientHeight;
    const ink = getComputedStyle(document.body).color;
    const base = state.subtract && !whole ? offset : null;
    const place = (code) => height - (code / FULL) * height;
    const [low, high] = extremes(y, base, from, to, width);
    pen.strokeStyle = ink;
    pen.globalAlpha = 0.35;
    const few = to - from <= 300 && !whole;
    if (few) {
      pen.fillStyle = ink;
      pen.globalAlpha = 0.7;
      for (let t = Math.max(0, Math.floor(from)); t < Math.min(data.n, Math.ceil(to)); t++) {
        if (y[t] === MISSING) continue;
        pen.beginPath();
        pen.arc(((t + 0.5 - from) / (to - from)) * width, place(y[t] - (base ? base[t] - FULL / 4 : 0)), 2.5, 0, 7);
        pen.fill();
      }
    } else {
      pen.beginPath();
      for (let x = 0; x < width; x++) {
        if (high[x] < low[x]) continue;
        pen.moveTo(x + 0.5, place(low[x]) + 0.5);
        pen.lineTo(x + 0.5, place(high[x]) - 0.5);
      }
      pen.stroke();
    }
    if (whole) {
      pen.globalAlpha = 0.2;
      pen.fillStyle = "#d55e00";
      const a = (state.from / data.n) * width, b = (state.to / data.n) * width;
      pen.fillRect(a, 0, Math.max(b - a, 2), height);
      return;
    }
    lines(pen, offset, base, from, to, width, place, "#56b4e9", null);
    lines(pen, level, base, from, to, width, place, "#d55e00", chance);
    axis(pen, ink, place, height);
    times(pen, from, to, width, height);
  }

  // A number of the size of `rough` that is 1, 2 or 5 times a power of ten.
  function round(rough) {
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].find((one) => one * power >= rough) * power;
  }

  // Round times at the lower edge.
  function times(pen, from, to, width, height) {
    const step = round(((to - from) * data.step) / Math.max(width / 110, 2));
    const [unit, scale] = step >= 0.5 ? ["s", 1] : [step >= 5e-4 ? "ms" : "µs", step >= 5e-4 ? 1e3 : 1e6];
    pen.globalAlpha = 0.8;
    pen.textBaseline = "bottom";
    pen.textAlign = "center";
    for (let at = Math.ceil((from * data.step) / step) * step; at <= to * data.step; at += step) {
      const x = ((at / data.step - from) / (to - from)) * width;
      pen.fillRect(x, height - 5, 1, 5);
      if (x > 60 && x < width - 30) pen.fillText(`${Number((at * scale).toPrecision(8))} ${unit}`, x, height - 6);
    }
    pen.textAlign = "start";
    pen.globalAlpha = 1;
  }

  // Round values of the current at the left edge.
  function axis(pen, ink, place, height) {
    const span = data.high - data.low, step = round(span / 5);
    const shift = state.subtract ? value(FULL / 4) : 0;
    pen.fillStyle = ink;
    pen.strokeStyle = ink;
    pen.globalAlpha = 0.8;
    pen.font = "11px sans-serif";
    pen.textBaseline = "middle";
    for (let at = Math.ceil((data.low - shift) / step) * step; at <= data.high - shift; at += step) {
      const y = place(((at + shift - data.low) / span) * FULL);
      if (y < 8 || y > height - 8) continue;
      pen.fillRect(0, y, 5, 1);
      pen.fillText(`${Number(at.toPrecision(6))}${data.unit ? " " + data.unit : ""}`, 8, y);
    }
    pen.globalAlpha = 1;
  }

  // A series as steps, or as the range of every column of pixels where there are many samples.
  function lines(pen, series, base, from, to, width, place, colour, strength) {
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    const scale = width / (to - from);
    if (scale < 0.5) {
      const [low, high] = extremes(series, base, from, to, width);
      pen.globalAlpha = strength ? 0.4 : 0.8;
      pen.lineWidth = strength ? 1 : 2;
      pen.beginPath();
      for (let x = 0; x < width; x++) {
        if (high[x] < low[x]) continue;
        pen.moveTo(x + 0.5, place(low[x]) + 1);
        pen.lineTo(x + 0.5, place(high[x]) - 1);
      }
      pen.stroke();
    } else {
      let last = null;
      for (let t = Math.max(0, Math.floor(from)); t < Math.min(data.n, Math.ceil(to)); t++) {
        const here = place(series[t] - (base ? base[t] - FULL / 4 : 0));
        pen.globalAlpha = strength ? 0.15 + (0.85 * strength[t]) / 255 : 0.9;
        pen.beginPath();
        if (last !== null) pen.moveTo((t - from) * scale, last);
        else pen.moveTo((t - from) * scale, here);
        pen.lineTo((t - from) * scale, here);
        pen.lineTo((t + 1 - from) * scale, here);
        pen.stroke();
        last = here;
      }
    }
    pen.lineWidth = 1;
    pen.globalAlpha = 1;
  }

  let waiting = false;
  function show() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw(detail, state.from, state.to, false);
      draw(overview, 0, data.n, true);
      const n = Math.round(state.to - state.from);
      const range = `${(state.from * data.step).toFixed(5)} to ${(state.to * data.step).toFixed(5)} s`;
      output.textContent = `${n.toLocaleString("en")} samples, ${range}`;
    });
  }

  function look(from, to) {
    const least = Math.min(10, data.n);
    let size = Math.min(Math.max(to - from, least), data.n);
    let begin = (from + to - size) / 2;
    begin = Math.min(Math.max(begin, 0), data.n - size);
    state.from = begin;
    state.to = begin + size;
    show();
  }

  function zoom(factor, at) {
    const size = state.to - state.from, centre = state.from + at * size;
    look(centre - at * size * factor, centre + (1 - at) * size * factor);
  }

  const across = (canvas, event) => (event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth;
  detail.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, across(detail, event));
  }, { passive: false });
  let pressed = null;
  detail.addEventListener("pointerdown", (event) => {
    pressed = across(detail, event);
    detail.setPointerCapture(event.pointerId);
  });
  detail.addEventListener("pointermove", (event) => {
    const t = Math.floor(state.from + across(detail, event) * (state.to - state.from));
    if (t < 0 || t >= data.n) return;
    read(t);
  });
  // The dwell around a sample.
  function read(t) {
    const unit = data.unit ? ` ${data.unit}` : "";
    const base = state.subtract ? value(offset[t]) : 0;
    const current = y[t] === MISSING ? "missing" : `${(value(y[t]) - base).toPrecision(4)}${unit}`;
    let from = t, to = t + 1;
    while (from > 0 && open[from - 1] === open[t] && !begins.has(from)) from--;
    while (to < data.n && open[to] === open[t] && !begins.has(to)) to++;
    const length = ((to - from) * data.step * 1e3).toPrecision(4);
    reading.textContent = `${(t * data.step).toFixed(5)} s: ${current}; ${open[t]} open for ${Number(length)} ms, ` +
      `P = ${(chance[t] / 255).toFixed(2)}`;
  }
  detail.addEventListener("pointerup", (event) => {
    const end = across(detail, event), begin = pressed;
    pressed = null;
    if (begin === null || Math.abs(end - begin) * detail.clientWidth < 5) return;
    const size = state.to - state.from;
    look(state.from + Math.min(begin, end) * size, state.from + Math.max(begin, end) * size);
  });
  overview.addEventListener("pointerdown", (event) => {
    const half = (state.to - state.from) / 2, at = across(overview, event) * data.n;
    look(at - half, at + half);
  });
  box.addEventListener("keydown", (event) => {
    const size = state.to - state.from;
    const moves = { "+": () => zoom(0.5, 0.5), "-": () => zoom(2, 0.5), ArrowLeft: () => look(state.from - size / 4, state.to - size / 4),
      ArrowRight: () => look(state.from + size / 4, state.to + size / 4) };
    if (moves[event.key]) {
      event.preventDefault();
      moves[event.key]();
    }
  });
  document.querySelectorAll(".tools [data-do]").forEach((one) => {
    one.addEventListener(one.type === "checkbox" ? "change" : "click", () => {
      const what = one.dataset.do;
      if (what === "in") zoom(0.5, 0.5);
      else if (what === "out") zoom(2, 0.5);
      else if (what === "all") look(0, data.n);
      else {
        state.subtract = one.checked;
        show();
      }
    });
  });
  window.addEventListener("resize", show);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
  document.documentElement.dataset.ready = "true";
})();
