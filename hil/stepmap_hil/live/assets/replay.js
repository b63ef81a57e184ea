/* A run that is over: a slider moves the scene and a line in the charts. */
const player = { playing: false, from: 0, since: 0, asked: -1 };

function beginReplay() {
  byId("player").hidden = false;
  document.body.classList.add("replaying");
  byId("scrub").max = Math.max(ticks.time.length - 1, 0);
  seek(live.page.recorded ? 0 : ticks.time.length - 1, false);
  if (live.page.recorded && !player.begun) toggle();
  player.begun = true;
  sizeCharts();
}

function seek(index, tell = true) {
  if (!live.over || !ticks.time.length) return;
  live.at = Math.min(Math.max(Math.round(index), 0), ticks.time.length - 1);
  byId("scrub").value = live.at;
  byId("clock").textContent = `${ticks.time[live.at].toFixed(2)} of ${ticks.time[ticks.time.length - 1].toFixed(2)} s`;
  if (tell) askScene(ticks.k[live.at]);
  showTick();
  drawCharts();
}

/* The scene follows at most 30 times per second, and ends where the slider does. */
function askScene(k) {
  player.wanted = k;
  if (player.timer) return;
  const ask = () => {
    player.timer = null;
    if (player.wanted === player.asked) return;
    player.asked = player.wanted;
    send({ do: "show", what: player.asked });
    player.timer = setTimeout(ask, 33);
  };
  ask();
}

function indexAt(time) {
  let low = 0, high = ticks.time.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ticks.time[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function seekTime(time) {
  if (!live.over) return;
  pause();
  seek(indexAt(time));
}

function toggle() {
  if (player.playing) return pause();
  if (live.at >= ticks.time.length - 1) seek(0);
  player.playing = true;
  player.from = ticks.time[live.at];
  player.since = performance.now();
  byId("play").textContent = "Pause";
  requestAnimationFrame(advance);
}

function pause() {
  player.playing = false;
  byId("play").textContent = "Play";
}

function advance(now) {
  if (!player.playing) return;
  const time = player.from + Math.max(now - player.since, 0) / 1000;
  const next = indexAt(time);
  if (next !== live.at) seek(next);
  if (time >= ticks.time[ticks.time.length - 1]) return pause();
  requestAnimationFrame(advance);
}
