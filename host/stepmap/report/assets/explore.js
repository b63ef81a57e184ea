/* Charts of a report with one time axis; what the data mean is said in stepmap/report/charts.py. */
const report = { charts: [], player: null, values: false };

function chartData(chart, time, values) {
  const base = values && chart.base ? chart.base : null;
  const raised = (line) => (base ? line.map((v, k) => v + base[k]) : line);
  const gaps = (line) => raised(line).map((v) => (Number.isFinite(v) ? v : null));
  return [time, ...chart.ribbons.flatMap((r) => [gaps(r.low), gaps(r.high)]), ...chart.lines.map((l) => gaps(l.values))];
}

function rangeOf(chart) {
  return (u, low, high) => {
    if (low === null || high === null) [low, high] = [chart.low ?? 0, chart.high ?? 1];
    const size = Math.max(high - low, 1e-12);
    const near = report.values && chart.base ? [] : chart.limits.map(([value]) => value).filter((v) => v < high + 0.6 * size && v > low - 0.6 * size);
    low = Math.min(low, ...near);
    high = Math.max(high, ...near);
    const pad = 0.06 * Math.max(high - low, 1e-9);
    return [chart.low !== null ? chart.low : low - pad, chart.high !== null ? chart.high : high + pad];
  };
}

function shade(u, timeline) {
  const g = u.ctx, { left, top, width, height } = u.bbox;
  g.save();
  g.beginPath();
  g.rect(left, top, width, height);
  g.clip();
  for (const [begin, end, , role] of timeline.spans) {
    if (role === "running") continue;
    const a = u.valToPos(begin, "x", true), b = u.valToPos(end, "x", true);
    g.fillStyle = color(role);
    g.globalAlpha = 0.5;
    g.fillRect(a, top, b - a, height);
  }
  g.restore();
}

function marks(u, timeline, chart) {
  const g = u.ctx, { left, top, width, height } = u.bbox, ratio = window.devicePixelRatio || 1;
  g.save();
  g.beginPath();
  g.rect(left, top, width, height);
  g.clip();
  g.lineWidth = ratio;
  g.setLineDash([3 * ratio, 3 * ratio]);
  g.strokeStyle = color("event");
  g.globalAlpha = 0.6;
  for (const [time] of timeline.marks) {
    const x = u.valToPos(time, "x", true);
    g.beginPath();
    g.moveTo(x, top);
    g.lineTo(x, top + height);
    g.stroke();
  }
  g.globalAlpha = 1;
  g.strokeStyle = g.fillStyle = color("limit");
  g.setLineDash([6 * ratio, 4 * ratio]);
  g.font = `${10 * ratio}px system-ui, sans-serif`;
  g.textAlign = "left";
  g.textBaseline = "alphabetic";
  for (const [value, name] of report.values && chart.base ? [] : chart.limits) {
    const y = u.valToPos(value, "y", true);
    if (y < top - 1 || y > top + height + 1) { // beyond the scale: said in a corner
      if (!name) continue;
      const above = y < top, number = String(+value.toPrecision(4));
      const text = `${name.includes(number) ? name : `${name} ${number}`} ${above ? "↑" : "↓"}`;
      g.textAlign = "right";
      g.fillText(text, left + width - 4 * ratio, above ? top + 11 * ratio : top + height - 4 * ratio);
      g.textAlign = "left";
      continue;
    }
    g.beginPath();
    g.moveTo(left, y);
    g.lineTo(left + width, y);
    g.stroke();
    if (name) g.fillText(name, left + 4 * ratio, y < top + 14 * ratio ? y + 11 * ratio : y - 4 * ratio);
  }
  g.restore();
}

function seriesOf(chart) {
  const digits = (v) => (v === null || v === undefined ? "" : Math.abs(v) >= 1e5 || (v && Math.abs(v) < 1e-3) ? v.toExponential(2) : String(Number(v.toPrecision(4))));
  const value = (u, v) => digits(v);
  const ribbons = chart.ribbons.flatMap((r) => [
    { label: `${r.name} low`, stroke: "transparent", width: 0, points: { show: false }, value },
    { label: `${r.name} high`, stroke: "transparent", width: 0, points: { show: false }, value },
  ]);
  const lines = chart.lines.map((l) => ({
    label: l.name,
    stroke: color(l.role),
    width: l.points ? 0 : l.width,
    dash: l.dash ? [5, 4] : undefined,
    auto: l.scaled,
    points: l.points ? { show: true, size: 4, width: 1, stroke: color(l.role), fill: color(l.role) } : { show: false },
    spanGaps: false,
    value,
  }));
  return [{ label: "t", value: (u, v) => (v === null ? "" : `${v.toFixed(3)} s`) }, ...ribbons, ...lines];
}

function makeChart(chart, timeline, place) {
  const narrow = window.innerWidth < 768;
  const axis = { stroke: color("soft"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1 }, font: "11px system-ui, sans-serif" };
  const options = {
    width: Math.max(place.clientWidth, 200),
    height: 168,
    padding: [8, 12, 0, 0],
    scales: { x: { time: false }, y: { range: rangeOf(chart) } },
    axes: [{ ...axis, size: 26 }, { ...axis, size: narrow ? 52 : 64 }],
    series: seriesOf(chart),
    bands: chart.ribbons.map((r, n) => ({ series: [2 * n + 2, 2 * n + 1], fill: color(r.role) + "33" })),
    cursor: { sync: { key: "time", setSeries: false, scales: ["x", null] }, y: false, drag: { x: true, y: false }, points: { size: 6 } },
    legend: { live: true },
    hooks: {
      drawClear: [(u) => shade(u, timeline)],
      draw: [(u) => marks(u, timeline, chart)],
      setScale: [(u, key) => key === "x" && zoomAll(u, timeline)],
      setCursor: [(u) => {
        if (report.player && !report.moving && u.cursor.event && u.cursor.left >= 0) report.player.at(u.posToVal(u.cursor.left, "x"));
      }],
    },
  };
  const made = new uPlot(options, chartData(chart, timeline.time, report.values), place);
  for (const row of [...place.querySelectorAll(".u-legend .u-series")].slice(1, 1 + 2 * chart.ribbons.length)) row.style.display = "none";
  return made;
}

/* All charts show the part of the time that one of them shows. */
function zoomAll(from, timeline) {
  const { min, max } = from.scales.x;
  if (min === null || (report.shown && report.shown[0] === min && report.shown[1] === max)) return;
  report.shown = [min, max]; // uPlot tells of new scales later, of those set here, too
  for (const { plot } of report.charts) if (plot !== from) plot.setScale("x", { min, max });
  strip(timeline, min, max);
}

/* States as bands and events as marks above the charts. */
function strip(timeline, min, max) {
  const states = document.getElementById("states"), happened = document.getElementById("happened");
  const part = (t) => (100 * (t - min)) / (max - min);
  states.replaceChildren();
  happened.replaceChildren();
  for (const [begin, end, label, role] of timeline.spans) {
    const a = Math.max(part(begin), 0), b = Math.min(part(end), 100);
    if (b <= a) continue;
    const span = document.createElement("span");
    span.style.cssText = `left:${a}%;width:${b - a}%;background:var(--${role})`;
    span.textContent = span.title = label;
    states.append(span);
  }
  for (const [time, text] of timeline.marks) {
    if (part(time) < 0 || part(time) > 100) continue;
    const dot = document.createElement("i");
    dot.style.left = `${part(time)}%`;
    dot.title = `${time.toFixed(2)} s  ${text}`;
    dot.addEventListener("click", () => pointAt(time));
    happened.append(dot);
  }
  states.style.display = timeline.spans.length ? "" : "none";
  happened.style.display = timeline.marks.length ? "" : "none";
}

/* Moves the cursors of all charts to a time. */
function pointAt(time) {
  report.moving = true;
  for (const { plot } of report.charts) {
    const left = plot.valToPos(time, "x");
    plot.setCursor({ left: left >= 0 && left <= plot.over.clientWidth ? left : -10, top: 8 }, false);
  }
  report.moving = false;
  if (report.player && !report.player.playing) report.player.at(time);
}

function build(timeline) {
  const place = document.getElementById("charts");
  for (const { plot } of report.charts) plot.destroy();
  report.shown = null;
  report.charts = [];
  place.replaceChildren();
  for (const chart of timeline.charts) {
    const box = document.createElement("div"), heading = document.createElement("h3");
    box.className = "chart";
    box.id = `chart-${chart.key}`;
    heading.textContent = chart.unit ? `${chart.title} [${chart.unit}]` : chart.title;
    box.append(heading);
    place.append(box);
    report.charts.push({ key: chart.key, chart, plot: makeChart(chart, timeline, box) });
    if (chart.note) {
      const note = document.createElement("p");
      note.className = "note";
      note.textContent = chart.note;
      box.append(note);
    }
  }
  const x = report.charts.length ? report.charts[0].plot.scales.x : { min: 0, max: 1 };
  strip(timeline, x.min, x.max);
}

function begin() {
  const { timeline, motion } = JSON.parse(document.getElementById("data").textContent);
  report.timeline = timeline;
  if (timeline) {
    timeline.time = numbers(timeline.time);
    for (const chart of timeline.charts) {
      chart.base = chart.base ? numbers(chart.base) : null;
      for (const line of chart.lines) line.values = numbers(line.values);
      for (const r of chart.ribbons) { r.low = numbers(r.low); r.high = numbers(r.high); }
    }
    build(timeline);
    const values = document.getElementById("values");
    values.style.display = timeline.charts.some((c) => c.base) ? "" : "none";
    values.addEventListener("click", () => {
      report.values = !report.values;
      values.setAttribute("aria-pressed", String(report.values));
      for (const { chart, plot } of report.charts) if (chart.base) plot.setData(chartData(chart, timeline.time, report.values), false), plot.redraw();
    });
    document.getElementById("whole").addEventListener("click", () => {
      const all = timeline.time;
      for (const { plot } of report.charts.slice(0, 1)) plot.setScale("x", { min: all[0], max: all[all.length - 1] });
    });
    let width = window.innerWidth;
    new ResizeObserver(() => {
      if (window.innerWidth === width) return;
      width = window.innerWidth;
      for (const { plot } of report.charts) plot.setSize({ width: Math.max(plot.root.parentElement.clientWidth, 200), height: 168 });
    }).observe(document.getElementById("charts"));
  }
  if (motion) report.player = new Player(motion, (time) => { if (report.charts.length && report.player) pointAt(time); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (timeline) build(timeline);
    if (report.player) report.player.draw();
  });
}

begin();
