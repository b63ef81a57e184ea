/* What the run tells, and what is asked of it; messages are those of page.py. */
const BASE = location.pathname.replace(/\/?$/, "/");
const dark = matchMedia("(prefers-color-scheme: dark)");
const clock = { due: 0, waiting: false };

function send(order) {
  if (live.open) live.socket.send(JSON.stringify(order));
}

// Messages, by their kind
const hear = {
  page(told) {
    Object.assign(live, { page: told, moods: [], events: [], over: false, at: null, zoom: null, mood: null, report: false, stopping: false });
    document.title = byId("title").textContent = told.title;
    byId("planned").textContent = told.planned ? `of ${told.planned.toFixed(1)} s` : "";
    byId("events").replaceChildren();
    byId("layers").replaceChildren(scaleBar(told.trail));
    byId("faults").replaceChildren(...told.faults.map(faultButton));
    clearTicks();
    buildCharts();
    loadScene();
  },
  mood(told) { live.moods.push(told); },
  now(told) { live.mood = told.mood; },
  again() { clearTicks(); },
  tick(told) { tell(told.k, told.row); live.mood = told.row[1]; },
  event(told) {
    live.events.push(told);
    const line = document.createElement("li"), at = document.createElement("time"), text = document.createElement("span");
    line.dataset.tone = told.tone;
    at.textContent = told.at === null ? "" : `${told.at.toFixed(2)} s`;
    text.textContent = told.text;
    line.append(at, text);
    line.addEventListener("click", () => told.at !== null && seekTime(told.at));
    byId("events").append(line);
    byId("log").scrollTop = byId("log").scrollHeight;
  },
  layer(told) {
    let button = document.querySelector(`#layers [data-name="${told.name}"]`);
    if (!button) {
      button = document.createElement("button");
      button.type = "button";
      button.dataset.name = told.name;
      button.append(document.createElement("i"), told.name);
      button.style.setProperty("--dot", `rgb(${told.color})`);
      button.addEventListener("click", () => send({ do: "layer", what: told.name, on: button.getAttribute("aria-pressed") === "false" }));
      byId("scale").before(button);
    }
    button.setAttribute("aria-pressed", told.on);
  },
  scale(told) {
    const error = live.page.charts.find((chart) => chart.error);
    byId("scale").hidden = !error;
    byId("scale-end").textContent = error ? `${told.full} ${error.unit}` : "";
  },
  offer(told) { byId("inject").hidden = !told.faults; },
  stopping() { live.stopping = true; },
  over(told) { live.over = true; live.outcome = told; },
  report() { live.report = true; },
  closed() { live.closed = true; },
  scene() { live.scene = true; },
};

function scaleBar(colors) {
  const scale = document.createElement("span"), bar = document.createElement("i"), end = document.createElement("span");
  scale.id = "scale";
  scale.hidden = true;
  end.id = "scale-end";
  bar.style.background = `linear-gradient(90deg, ${colors.map((c) => `rgb(${c})`)})`;
  scale.append("error 0", bar, end);
  return scale;
}

function faultButton(name) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.addEventListener("click", () => send({ do: "fault", what: name }));
  return button;
}

// The bar
function showTick() {
  const at = live.at ?? ticks.time.length - 1, mood = live.moods[live.mood];
  const shown = live.over ? live.outcome : mood;
  if (shown) {
    byId("bar").dataset.tone = shown.tone;
    byId("state").textContent = shown.state;
    const here = live.over && at >= 0 ? live.moods[ticks.mood[at]] : null;
    const told = here && live.at < ticks.time.length - 1 ? `at ${ticks.time[at].toFixed(2)} s: ${here.state}${here.reason ? `, ${here.reason}` : ""}` : "";
    byId("reason").textContent = byId("reason").title = told || shown.reason;
    byId("reason").classList.toggle("long", byId("reason").textContent.length > 70);
  }
  const end = live.page.planned ?? ticks.time[ticks.time.length - 1] ?? 1;
  byId("time").textContent = `${(at >= 0 ? ticks.time[at] : 0).toFixed(2)} s`;
  byId("progress").style.width = `${Math.min((100 * (at >= 0 ? ticks.time[at] : 0)) / end, 100)}%`;
  byId("missed").textContent = at >= 0 ? ticks.missed[at] : 0;
  byId("loss").textContent = `${at >= 0 ? +(100 * ticks.loss[at]).toPrecision(2) : 0} %`;
  byId("missing").classList.toggle("bad", at >= 0 && ticks.missed[at] > 0);
  byId("losing").classList.toggle("bad", at >= 0 && ticks.loss[at] > 0);
}

function showState() {
  const stop = byId("stop");
  stop.hidden = live.over;
  byId("report").hidden = !(live.over && live.report && live.open);
  stop.disabled = live.stopping || !live.open;
  stop.textContent = live.stopping ? "stopping" : "STOP";
  byId("veil").hidden = ticks.time.length > 0 && live.scene;
  const mood = live.moods[live.mood];
  const loading = ticks.time.length > 0;
  byId("veil-title").textContent = loading ? "Loading the scene …" : live.over ? "No tick was shown" : mood ? `${mood.reason || mood.state} …` : "Connecting …";
  byId("veil-text").textContent = loading ? "" : live.over ? live.outcome.reason : "The mechanism appears with the first tick of the run.";
  const banner = byId("banner"), lost = !live.open;
  banner.hidden = !lost || !live.page;
  banner.classList.toggle("calm", Boolean(live.closed || live.over));
  if (lost && (live.closed || live.over)) banner.textContent = "The program that served this page has ended. What it showed stays as long as this tab is open.";
  else if (lost) banner.textContent = "Connection lost: STOP cannot be pressed here. Use Ctrl-C in the terminal, or the switch of the robot. Trying again …";
}

function refresh() {
  clock.waiting = false;
  clock.due = performance.now() + 60;
  if (!live.page) return showState();
  if (live.over && byId("player").hidden) beginReplay();
  showState();
  showTick();
  drawCharts();
}

function soon() {
  if (clock.waiting) return;
  clock.waiting = true;
  setTimeout(() => requestAnimationFrame(refresh), Math.max(clock.due - performance.now(), 0));
}

// The connection
function connect() {
  const socket = new WebSocket(`ws://${location.host}${BASE}feed`);
  live.socket = socket;
  socket.addEventListener("open", () => { live.open = true; });
  socket.addEventListener("message", ({ data }) => {
    if (live.lost) { live.lost = false; byId("player").hidden = true; }
    for (const told of JSON.parse(data)) hear[told.kind]?.(told);
    soon();
  });
  socket.addEventListener("close", () => {
    live.open = false;
    live.lost = true;
    soon();
    if (!live.closed) setTimeout(connect, 1000);
  });
}

// The scene: viser's page, of which only the canvas is shown
function loadScene() {
  const { middle, toward, right, top, half, field } = live.page.camera, stage = byId("stage");
  const aspect = stage.clientWidth / Math.max(stage.clientHeight, 1), slope = Math.tan(field / 2);
  const away = half[2] + 1.06 * Math.max(half[1] / slope, half[0] / (slope * aspect));
  const lean = [1, 0.22, 0.12], size = Math.hypot(...lean);
  const eye = middle.map((m, i) => m + (away * (lean[0] * toward[i] + lean[1] * right[i] + lean[2] * top[i])) / size);
  const asked = [`initialCameraPosition=${eye}`, `initialCameraLookAt=${middle}`, `initialCameraFov=${field}`, "hideViserLogo"];
  live.aspect = aspect;
  live.scene = false;
  byId("scene").src = `${BASE}scene/?${asked.join("&")}${dark.matches ? "&darkMode" : ""}`;
}

function dressScene() {
  const inside = byId("scene").contentDocument, style = inside.createElement("style");
  style.textContent = `:root { color-scheme: ${dark.matches ? "dark" : "light"} } html, body, #root * { background: transparent !important }
    body * { visibility: hidden } body canvas { visibility: visible }`;
  inside.head.append(style);
  byId("scene").contentWindow.addEventListener("keydown", onKey, true);
}

function stopRun() {
  if (!live.over) send({ do: "stop" });
}

function onKey(event) {
  if (event.code !== "Space") return;
  event.preventDefault(); // else a button that has the focus would be pressed, too
  event.stopPropagation();
  if (event.type !== "keydown" || event.repeat) return;
  if (live.over) toggle();
  else stopRun();
}

byId("stop").addEventListener("click", stopRun);
byId("play").addEventListener("click", toggle);
byId("scrub").addEventListener("input", (event) => { pause(); seek(+event.target.value); });
byId("drawer").addEventListener("click", () => {
  const open = byId("faults").hidden;
  byId("faults").hidden = !open;
  byId("drawer").setAttribute("aria-expanded", open);
});
byId("scene").addEventListener("load", dressScene);
for (const type of ["keydown", "keyup"]) window.addEventListener(type, onKey, true);
dark.addEventListener("change", () => {
  if (live.page && live.open) loadScene();
  soon();
});
new ResizeObserver(() => live.page && sizeCharts()).observe(byId("charts"));
window.addEventListener("resize", () => {
  if (!live.page) return;
  const stage = byId("stage"), aspect = stage.clientWidth / Math.max(stage.clientHeight, 1);
  if (live.open && Math.abs(Math.log(aspect / live.aspect)) > 0.25) loadScene();
});
connect();
