/* Draws a mechanism, in layers, on a canvas; what the data mean is said in stepmap/report/motion.py. */
"use strict";

function bytes(text) {
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out.buffer;
}

const numbers = (text) => Array.from(new Float32Array(bytes(text)));
const color = (role) => getComputedStyle(document.documentElement).getPropertyValue("--" + role).trim() || "#888";

class Mechanism {
  constructor(data) {
    Object.assign(this, data);
    this.time = numbers(data.time);
    this.slack = data.slack ? numbers(data.slack) : null;
    for (const layer of this.layers) layer.at = new Uint16Array(bytes(layer.at));
    this.turn = 0;
  }

  /* Where frame i of a layer is at index k, in metres, right and up; null where that is not known. */
  place(layer, k, i) {
    const at = 3 * (k * this.frames + i), raw = layer.at;
    if (!raw[at] && !raw[at + 1] && !raw[at + 2]) return null;
    const p = [0, 1, 2].map((c) => this.low[c] + ((raw[at + c] - 1) / 65534) * this.span);
    if (this.turn) {
      const c = Math.cos(this.turn), s = Math.sin(this.turn), m = this.middle();
      const x = p[0] - m[0], z = p[2] - m[2];
      p[0] = m[0] + c * x + s * z;
      p[2] = m[2] - s * x + c * z;
    }
    return p;
  }

  /* Middle and size of all that ever is anywhere in the layers that are shown. */
  bounds(only) {
    const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
    const step = Math.max(1, Math.floor(this.time.length / 400));
    for (const layer of this.layers.filter((l) => l.shown && l.role !== "open")) {
      for (let k = 0; k < this.time.length; k += step) {
        for (let i = 0; i < this.frames; i++) {
          const p = only && !only.includes(i) ? null : this.place(layer, k, i);
          if (p) for (let c = 0; c < 3; c++) { low[c] = Math.min(low[c], p[c]); high[c] = Math.max(high[c], p[c]); }
        }
      }
    }
    return [low, high];
  }

  /* Frames whose paths are drawn. */
  tracked() {
    return (this.masses.length ? this.masses.map((m) => m[0]) : [this.frames - 1]).slice(0, 6);
  }

  middle() {
    if (!this._middle) {
      const turn = this.turn;
      this.turn = 0;
      const [low, high] = this.bounds();
      this._middle = low.map((l, c) => (l + high[c]) / 2);
      this.turn = turn;
    }
    return this._middle;
  }
}

/* A canvas in device pixels with a scale that shows all of the motion, equal in both directions. */
function canvasFor(canvas, mechanism, only) {
  const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(box.width * ratio));
  canvas.height = Math.max(1, Math.round(box.height * ratio));
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, box.width, box.height);
  const [low, high] = mechanism.bounds(only), pad = 34;
  const wide = Math.max(high[0] - low[0], 1e-6), tall = Math.max(high[1] - low[1], 1e-6);
  const scale = Math.min((box.width - 2 * pad) / wide, (box.height - 2 * pad) / tall);
  const x0 = box.width / 2 - (scale * (low[0] + high[0])) / 2, y0 = box.height / 2 + (scale * (low[1] + high[1])) / 2;
  const at = (p) => [x0 + scale * p[0], y0 - scale * p[1]];
  return { g, at, scale, box };
}

function scaleBar({ g, scale, box }) {
  let length = 10 ** Math.floor(Math.log10((0.3 * box.width) / scale));
  for (const more of [5, 2]) if (more * length * scale < 0.3 * box.width) { length *= more; break; }
  g.strokeStyle = g.fillStyle = color("soft");
  g.lineWidth = 1.5;
  g.beginPath();
  g.moveTo(12, box.height - 12);
  g.lineTo(12 + length * scale, box.height - 12);
  g.stroke();
  g.font = "11px system-ui, sans-serif";
  g.fillText(`${length} m`, 14, box.height - 17);
}

function stroke(g, points) {
  g.beginPath();
  points.forEach((p, i) => (i ? g.lineTo(p[0], p[1]) : g.moveTo(p[0], p[1])));
  g.stroke();
}

function trail(view, mechanism, layer, from, to, width, alpha) {
  const { g, at } = view, tracked = mechanism.tracked();
  g.strokeStyle = color(layer.role);
  g.lineWidth = width;
  g.globalAlpha = alpha;
  for (const i of tracked) {
    let part = [];
    for (let k = from; k <= to; k++) {
      const p = mechanism.place(layer, k, i);
      if (p) part.push(at(p));
      else { stroke(g, part); part = []; }
    }
    stroke(g, part);
  }
  g.globalAlpha = 1;
}

function floors(view, mechanism) {
  const { g, at, scale, box } = view, far = (box.width + box.height) / scale;
  g.strokeStyle = color("soft");
  g.lineWidth = 1.5;
  for (const [px, py, nx, ny] of mechanism.floors) {
    stroke(g, [at([px - far * ny, py + far * nx]), at([px + far * ny, py - far * nx])]);
  }
}

function string(g, a, b, loose, scale) {
  g.beginPath();
  g.moveTo(a[0], a[1]);
  const chord = Math.hypot(b[0] - a[0], b[1] - a[1]);
  const sag = loose > 1e-6 ? Math.min(Math.sqrt(0.375 * loose * scale * Math.max(chord, 1)), (chord + loose * scale) / 2) : 0;
  g.quadraticCurveTo((a[0] + b[0]) / 2, (a[1] + b[1]) / 2 + 2 * sag, b[0], b[1]);
  g.stroke();
}

function pose(view, mechanism, layer, k, first) {
  const { g, at, scale } = view, places = [];
  for (let i = 0; i < mechanism.frames; i++) places.push(mechanism.place(layer, k, i));
  if (places.some((p) => !p)) return;
  const on = places.map(at), ink = first ? color("ink") : color(layer.role);
  g.globalAlpha = first ? 1 : 0.55;
  g.lineCap = "round";
  g.strokeStyle = color(layer.role);
  g.lineWidth = 1.4;
  mechanism.strings.forEach(([a, b], n) => {
    const loose = first && mechanism.slack ? mechanism.slack[k * mechanism.strings.length + n] : 0;
    string(g, on[a], on[b], loose, scale);
  });
  g.setLineDash([3, 3]);
  for (const [a, b] of mechanism.springs) stroke(g, [on[a], on[b]]);
  g.setLineDash([]);
  g.strokeStyle = ink;
  g.lineWidth = first ? 3 : 2;
  for (const [a, b] of mechanism.links) stroke(g, [on[a], on[b]]);
  g.fillStyle = ink;
  for (const i of mechanism.carts) g.fillRect(on[i][0] - 7, on[i][1] - 5, 14, 10);
  g.fillStyle = color(layer.role);
  for (const [i, size] of mechanism.masses) {
    g.beginPath();
    g.arc(on[i][0], on[i][1], 8 * size, 0, 7);
    first ? g.fill() : g.stroke();
  }
  if (first) {
    g.fillStyle = color("paper");
    g.lineWidth = 1.5;
    for (const i of mechanism.pivots) { g.beginPath(); g.arc(on[i][0], on[i][1], 4, 0, 7); g.fill(); g.stroke(); }
  }
  g.globalAlpha = 1;
}

class Player {
  constructor(data, told) {
    this.mechanism = new Mechanism(data);
    this.told = told;
    this.index = 0;
    this.playing = false;
    this.scene = document.getElementById("scene");
    this.paths = document.getElementById("paths");
    this.scrub = document.getElementById("scrub");
    this.button = document.getElementById("play");
    this.clock = document.getElementById("clock");
    this.scrub.max = this.mechanism.time.length - 1;
    this.scrub.addEventListener("input", () => { this.stop(); this.show(Number(this.scrub.value)); });
    this.button.addEventListener("click", () => (this.playing ? this.stop() : this.play()));
    this.legend();
    new ResizeObserver(() => this.draw()).observe(this.scene);
    if (!this.mechanism.flat) this.orbit();
    this.show(0);
  }

  legend() {
    const place = document.getElementById("layers");
    for (const layer of this.mechanism.layers) {
      const label = document.createElement("label"), box = document.createElement("input"), line = document.createElement("i");
      box.type = "checkbox";
      box.checked = layer.shown;
      box.addEventListener("change", () => { layer.shown = box.checked; this.draw(); });
      line.style.background = `var(--${layer.role})`;
      label.append(box, " ", line, layer.name);
      place.append(label);
    }
  }

  orbit() {
    let from = null;
    this.scene.addEventListener("pointerdown", (e) => { from = e.clientX; this.scene.setPointerCapture(e.pointerId); });
    this.scene.addEventListener("pointerup", () => { from = null; });
    this.scene.addEventListener("pointermove", (e) => {
      if (from === null) return;
      this.mechanism.turn += (e.clientX - from) / 150;
      from = e.clientX;
      this.draw();
    });
  }

  draw() {
    const m = this.mechanism, shown = m.layers.filter((layer) => layer.shown);
    const view = canvasFor(this.scene, m);
    floors(view, m);
    for (const layer of shown) {
      if (layer.role === "reference") trail(view, m, layer, 0, m.time.length - 1, 5, 0.25);
      else trail(view, m, layer, Math.max(0, this.index - 120), this.index, 1.5, 0.6);
    }
    for (const layer of [...shown].reverse()) pose(view, m, layer, this.index, layer === shown[0]);
    scaleBar(view);
    const whole = canvasFor(this.paths, m, m.tracked());
    for (const layer of [...shown].reverse()) {
      trail(whole, m, layer, 0, m.time.length - 1, layer.role === "reference" ? 5 : 1.4, layer.role === "reference" ? 0.3 : 0.9);
    }
    for (const layer of shown.slice(0, 1)) {
      for (const [i] of m.masses) {
        const p = m.place(layer, this.index, i);
        if (!p) continue;
        whole.g.fillStyle = color(layer.role);
        whole.g.beginPath();
        whole.g.arc(...whole.at(p), 5, 0, 7);
        whole.g.fill();
      }
    }
    scaleBar(whole);
  }

  show(index) {
    this.index = Math.max(0, Math.min(index, this.mechanism.time.length - 1));
    this.scrub.value = this.index;
    this.clock.textContent = `${this.mechanism.time[this.index].toFixed(2)} s`;
    this.draw();
    this.told(this.mechanism.time[this.index]);
  }

  /* Shows a time that a chart points at. */
  at(time) {
    if (this.playing) return;
    const all = this.mechanism.time;
    let best = 0;
    for (let k = 1; k < all.length; k++) if (Math.abs(all[k] - time) < Math.abs(all[best] - time)) best = k;
    this.index = best;
    this.scrub.value = best;
    this.clock.textContent = `${all[best].toFixed(2)} s`;
    this.draw();
  }

  play() {
    const all = this.mechanism.time;
    this.playing = true;
    this.button.textContent = "Pause";
    if (this.index >= all.length - 1) this.index = 0;
    let begun = null;
    const from = all[this.index];
    const frame = (now) => {
      if (!this.playing) return;
      begun = begun ?? now;
      const time = from + (now - begun) / 1000;
      let k = this.index;
      while (k < all.length - 1 && all[k + 1] <= time) k++;
      this.show(k);
      if (k >= all.length - 1) this.stop();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  stop() {
    this.playing = false;
    this.button.textContent = "Play";
  }
}
