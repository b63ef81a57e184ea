/* Strip charts with fixed scales: what was told of each tick, with gaps where nothing was. */
const live = { page: null, charts: [], moods: [], events: [], at: null, over: false, socket: null, open: false };
const ticks = { k: [], time: [], mood: [], missed: [], loss: [], lines: {}, apart: [] };
const WINDOW = 20; // s that are shown of a longer run
const FIRST = 15; // ticks that tell how far apart they are
const MOVING = ["running", "holding"];

const byId = (id) => document.getElementById(id);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function clearTicks() {
  for (const name of ["k", "time", "mood", "missed", "loss"]) ticks[name] = [];
  ticks.apart = [];
  for (const chart of live.page.charts) for (const line of chart.lines) ticks.lines[line] = [];
}

/* Where ticks are missing a row without numbers stands, so that no line is drawn over the gap. */
function tell(k, row) {
  const last = ticks.time[ticks.time.length - 1], apart = row[0] - last;
  if (apart > 0 && ticks.apart.length < FIRST) ticks.apart.push(apart);
  const period = ticks.apart.toSorted((a, b) => a - b)[ticks.apart.length >> 1]; // the median: a board also ticks in between
  if (apart > 1.6 * period) addTick(k, [(row[0] + last) / 2, ...row.slice(1, 4)]);
  addTick(k, row);
}

function addTick(k, row) {
  const [time, mood, missed, loss, ...numbers] = row;
  ticks.k.push(k);
  ticks.time.push(time);
  ticks.mood.push(mood);
  ticks.missed.push(missed);
  ticks.loss.push(loss);
  let n = 0;
  for (const chart of live.page.charts) for (const line of chart.lines) ticks.lines[line].push(numbers[n++] ?? null);
}

/* 1, 2, 5, 10, … */
function stepAbove(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= value * (1 - 1e-9));
}

function scaleOf(made) {
  const { chart } = made;
  if (chart.high !== null && chart.low !== null) return [chart.low, chart.high];
  for (; made.seen < ticks.time.length; made.seen++)
    for (const line of chart.lines) {
      const value = ticks.lines[line][made.seen];
      if (value !== null) made.reach = Math.max(made.reach, Math.abs(value)), made.under ||= value < 0;
    }
  const high = chart.high ?? stepAbove(Math.max(made.reach, 1e-6));
  return [chart.low ?? (made.under ? -high : 0), high];
}

function spanOf() {
  const last = ticks.time.length ? ticks.time[ticks.time.length - 1] : 0, planned = live.page.planned ?? 10;
  if (live.zoom) return live.zoom;
  if (live.over) return [Math.min(ticks.time[0] ?? 0, 0), Math.max(last, 0.1)];
  if (planned <= WINDOW) return [0, Math.max(planned, last)];
  return [Math.max(0, last - WINDOW), Math.max(last, WINDOW)];
}

const digits = (v) => (v === null || v === undefined ? "–" : Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 10 ? v.toFixed(1) : v.toFixed(2));

function level(u, value, name, color, above = true) {
  const g = u.ctx, { left, top, width, height } = u.bbox, ratio = devicePixelRatio || 1, y = u.valToPos(value, "y", true);
  if (y < top - 1 || y > top + height + 1) return;
  g.strokeStyle = g.fillStyle = color;
  g.lineWidth = 1.2 * ratio;
  g.setLineDash([6 * ratio, 4 * ratio]);
  g.beginPath();
  g.moveTo(left, y);
  g.lineTo(left + width, y);
  g.stroke();
  g.setLineDash([]);
  g.font = `${11 * ratio}px system-ui, sans-serif`;
  g.textAlign = "left";
  if (name) g.fillText(name, left + 5 * ratio, above && y > top + 16 * ratio ? y - 5 * ratio : y + 12 * ratio);
}

/* What is beyond the scale is a triangle at its edge, what is beyond a gate a red dot. */
function outliers(u, chart) {
  const g = u.ctx, { top, height } = u.bbox, ratio = devicePixelRatio || 1, [low, high] = [u.scales.y.min, u.scales.y.max];
  const gate = chart.gate ? Math.max(...chart.limits.map(([value]) => value)) : Infinity;
  const [from, to] = [u.scales.x.min, u.scales.x.max];
  g.fillStyle = css("limit");
  for (let n = 1; n < u.series.length; n++)
    u.data[n].forEach((v, i) => {
      if (v === null || u.data[0][i] < from || u.data[0][i] > to) return;
      const out = v > high ? 1 : v < low ? -1 : 0, x = u.valToPos(u.data[0][i], "x", true);
      if (!out && Math.abs(v) <= gate) return;
      g.beginPath();
      if (out) {
        const y = out > 0 ? top + ratio : top + height - ratio, s = 5 * ratio;
        g.moveTo(x, y);
        g.lineTo(x - s, y + out * 1.6 * s);
        g.lineTo(x + s, y + out * 1.6 * s);
      } else g.arc(x, u.valToPos(v, "y", true), 3 * ratio, 0, 7);
      g.fill();
    });
}

function behind(u, chart) {
  if (!chart.gate) return;
  const g = u.ctx, { left, width } = u.bbox, values = chart.limits.map(([value]) => value);
  const a = u.valToPos(Math.max(...values), "y", true), b = u.valToPos(Math.min(...values), "y", true);
  g.save();
  g.globalAlpha = 0.1;
  g.fillStyle = css("pass");
  g.fillRect(left, a, width, b - a);
  g.restore();
}

function before(u, chart) {
  const g = u.ctx, { left, top, width, height } = u.bbox, ratio = devicePixelRatio || 1;
  g.save();
  g.beginPath();
  g.rect(left, top, width, height);
  g.clip();
  for (const { at, tone } of live.events) {
    if (at < u.scales.x.min || at > u.scales.x.max) continue;
    const x = u.valToPos(at, "x", true);
    g.strokeStyle = css(tone === "fault" ? "fault" : "event");
    g.globalAlpha = 0.55;
    g.lineWidth = ratio;
    g.setLineDash([3 * ratio, 3 * ratio]);
    g.beginPath();
    g.moveTo(x, top);
    g.lineTo(x, top + height);
    g.stroke();
  }
  g.globalAlpha = 1;
  for (const [value, name] of chart.limits) level(u, value, name, css("limit"), value >= 0);
  g.setLineDash([]);
  outliers(u, chart);
  if (live.at !== null) {
    const x = u.valToPos(ticks.time[live.at], "x", true);
    g.strokeStyle = css("ink");
    g.lineWidth = 1.5 * ratio;
    g.beginPath();
    g.moveTo(x, top);
    g.lineTo(x, top + height);
    g.stroke();
  }
  g.restore();
}

const labelOf = (name) => name.split(": ").pop(); // names of lines say of which chart they are

function makeChart(chart, last) {
  const box = document.createElement("div"), heading = document.createElement("h3"), unit = document.createElement("em");
  const shown = chart.lines.map((name, n) => {
    const part = document.createElement("span"), dot = document.createElement("i"), value = document.createTextNode("");
    part.style.setProperty("--dot", `var(--c${n % 6})`);
    part.append(dot, ...(chart.lines.length > 1 ? [`${labelOf(name)} `] : []), value);
    return { part, value };
  });
  const summary = document.createElement("b");
  box.className = "chart";
  unit.textContent = chart.unit ? `[${chart.unit}]` : "";
  heading.append(chart.title, unit, ...shown.map(({ part }) => part), summary);
  box.append(heading);
  byId("charts").append(box);
  const made = { chart, box, shown, summary, seen: 0, reach: 0, under: false, last };
  const axis = { stroke: () => css("soft"), grid: { stroke: () => css("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  made.plot = new uPlot({
    width: 300,
    height: 140,
    padding: [7, 16, last ? 0 : 6, 0],
    scales: { x: { time: false, range: () => spanOf() }, y: { range: () => scaleOf(made) } },
    axes: [{ ...axis, size: last ? 22 : 0, values: (u, all) => all.map((v) => (last ? `${v} s` : "")) }, { ...axis, size: 42, space: 18 }],
    series: [{}, ...chart.lines.map((name, n) => ({ label: name, stroke: () => css(`c${n % 6}`), width: 1.6, points: { show: false }, spanGaps: false }))],
    legend: { show: false },
    cursor: { show: true, x: false, y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    select: { show: true },
    hooks: {
      drawClear: [(u) => behind(u, chart)],
      draw: [(u) => before(u, chart)],
      setSelect: [(u) => {
        if (u.select.width < 8) return;
        live.zoom = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
        u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        drawCharts();
      }],
    },
  }, [[], ...chart.lines.map(() => [])], box);
  made.plot.over.addEventListener("dblclick", () => { live.zoom = null; drawCharts(); });
  made.plot.over.addEventListener("click", (event) => seekTime(made.plot.posToVal(event.offsetX, "x")));
  return made;
}

function buildCharts() {
  byId("charts").replaceChildren();
  const { charts } = live.page;
  live.charts = charts.map((chart, n) => makeChart(chart, n === charts.length - 1));
  sizeCharts();
}

function sizeCharts() {
  const place = byId("charts"), wide = matchMedia("(min-width: 841px)").matches, count = live.charts.length;
  const room = wide ? (place.clientHeight - 12 - 6 * (count - 1) - 20) / count - 20 : 140;
  const height = Math.round(Math.min(Math.max(room, 84), 190));
  for (const { plot, box, last } of live.charts) plot.setSize({ width: Math.max(box.clientWidth, 160), height: height + (last ? 20 : 0) });
}

/* RMS and largest value while the board controlled, as summary.json counts them. */
function summarise(line) {
  let sum = 0, most = 0, count = 0;
  ticks.lines[line].forEach((v, i) => {
    if (v === null || !MOVING.includes(live.moods[ticks.mood[i]].state)) return;
    sum += v * v;
    most = Math.max(most, Math.abs(v));
    count++;
  });
  return count ? `RMS ${digits(Math.sqrt(sum / count))}, max ${digits(most)}` : "";
}

function drawCharts() {
  const at = live.at ?? ticks.time.length - 1, tight = matchMedia("(min-width: 841px) and (max-width: 1340px)").matches;
  for (const { chart, plot, shown, summary } of live.charts) {
    plot.setData([ticks.time, ...chart.lines.map((name) => ticks.lines[name])]);
    if (shown.length <= 2 && !(chart.error && tight)) shown.forEach(({ value }, n) => { value.textContent = at >= 0 ? digits(ticks.lines[chart.lines[n]][at]) : ""; });
    if (chart.error) summary.textContent = summarise(chart.lines[0]);
  }
}
