// A simulated load under a robot, controlled by a generated library as WebAssembly; no other file is needed.
(async () => {
  const box = document.getElementById('controller');
  if (!box) return;
  const [scene, chart] = box.querySelectorAll('canvas');
  const told = box.querySelector('.told');
  let c, plan;
  try {
    const [module, text] = await Promise.all([fetch(box.dataset.wasm), fetch(box.dataset.plan)]);
    c = (await WebAssembly.instantiate(await module.arrayBuffer(), {})).instance.exports;
    plan = await text.json();
    if (c.self_test() !== 0) throw new Error('the self-test of the controller failed');
  } catch (error) {
    told.textContent = `The controller cannot run here: ${error.message}`;
    return;
  }

  const SUBSTEPS = 64, KEPT = 10, DRAG = 6;  // per tick; s of the chart; N/m of the hand on 0.1 kg
  const dt = c.period_us() / 1e6, h = dt / SUBSTEPS;
  const state = {ticks: 0, worst: 0, error: 0, estimated: 0};
  let load, before, robot, target, hand = null, covered = 0, blocked = 0, feedback = true, history = [];
  const gauss = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  const path = k => plan.path[Math.min(k, plan.path.length - 1)];

  function restart() {
    const [x, y, xr, r] = plan.start;
    load = {x, y};
    before = {x, y};
    robot = {x: xr, r};
    target = {x: xr, r};
    covered = blocked = 0;
    history = [];
    Object.assign(state, {ticks: 0, worst: 0});
    c.start();
  }

  // What the firmware does once per period: what was measured, the estimate, the commands, one step of the map.
  function tick() {
    const noise = plan.noise;
    if (covered > 0) covered -= 1;
    else {
      c.measure(0, load.x + noise[0] * gauss());
      c.measure(1, load.y + noise[1] * gauss());
    }
    c.measure(2, robot.x);
    c.measure(3, robot.r);
    c.update();
    c.law();
    const k = Math.min(state.ticks, plan.inputs.length - 1);
    const wanted = feedback ? [c.command(0), c.command(1)] : plan.inputs[k];
    if (!feedback) wanted.forEach((value, i) => c.applied(i, value));
    target = {x: blocked > 0 ? robot.x : wanted[0], r: wanted[1]};
    if (blocked > 0) blocked -= 1;
    const [x, y] = path(state.ticks);
    state.error = Math.hypot(load.x - x, load.y - y);
    state.estimated = Math.hypot(load.x - c.estimate(0), load.y - c.estimate(1));
    state.worst = Math.max(state.worst, state.error);
    history.push([state.error, state.estimated]);
    if (history.length > KEPT / dt) history.shift();
    move();
    c.predict();
    state.ticks += 1;
  }

  // Positions step by step (Verlet); the string is taut or slack, never longer than it is.
  function move() {
    const from = {...robot};
    for (let i = 1; i <= SUBSTEPS; i++) {
      robot.x = from.x + (target.x - from.x) * i / SUBSTEPS;
      robot.r = from.r + (target.r - from.r) * i / SUBSTEPS;
      let ax = 0, ay = -plan.gravity;
      if (hand) {
        ax += (DRAG * (hand.x - load.x) - 0.4 * (load.x - before.x) / h) / plan.mass;
        ay += (DRAG * (hand.y - load.y) - 0.4 * (load.y - before.y) / h) / plan.mass;
      }
      const next = {x: 2 * load.x - before.x + ax * h * h, y: 2 * load.y - before.y + ay * h * h};
      const dx = next.x - robot.x, dy = next.y - plan.height, far = Math.hypot(dx, dy);
      if (far > robot.r) {
        next.x = robot.x + dx * robot.r / far;
        next.y = plan.height + dy * robot.r / far;
      }
      before = load;
      load = next;
    }
  }

  const color = name => getComputedStyle(document.body).getPropertyValue(name).trim();
  const view = {left: plan.view[0], right: plan.view[1], low: plan.view[2], high: plan.view[3]};
  const scale = () => scene.clientWidth / (view.right - view.left);
  const place = (x, y) => [(x - view.left) * scale(), (view.high - y) * scale()];

  function fitted(canvas, height) {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    const g = canvas.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    return g;
  }

  function line(g, points, style, width) {
    g.beginPath();
    points.forEach((p, i) => (i ? g.lineTo(...p) : g.moveTo(...p)));
    g.strokeStyle = style;
    g.lineWidth = width;
    g.stroke();
  }

  function disc(g, [x, y], radius, style, ring) {
    g.beginPath();
    g.arc(x, y, radius, 0, 2 * Math.PI);
    if (ring) {
      g.strokeStyle = style;
      g.lineWidth = 3;
      g.stroke();
    } else {
      g.fillStyle = style;
      g.fill();
    }
  }

  function draw() {
    const g = fitted(scene, (view.high - view.low) * scale());
    const ink = color('--md-default-fg-color'), pale = color('--md-default-fg-color--lighter');
    line(g, [place(view.left, plan.height), place(view.right, plan.height)], pale, 3);
    line(g, plan.path.map(p => place(p[0], p[1])), pale, 1.5);
    line(g, [place(robot.x, plan.height), place(load.x, load.y)], ink, 1.5);
    if (hand) line(g, [place(load.x, load.y), place(hand.x, hand.y)], '#d55e00', 1.5);
    const [x, y] = place(robot.x, plan.height);
    g.fillStyle = blocked > 0 ? '#d55e00' : ink;
    g.fillRect(x - 17, y - 8, 34, 16);
    const [px, py] = path(state.ticks);
    const [cx, cy] = place(px, py);
    line(g, [[cx - 6, cy], [cx + 6, cy]], '#009e73', 2);
    line(g, [[cx, cy - 6], [cx, cy + 6]], '#009e73', 2);
    disc(g, place(load.x, load.y), 11, '#0072b2');
    disc(g, place(c.estimate(0), c.estimate(1)), 15, '#e69f00', true);
    drawChart(ink, pale);
  }

  function drawChart(ink, pale) {
    const height = 130, g = fitted(chart, height), width = chart.clientWidth, left = 46;
    const top = 1e3 * Math.max(0.01, ...history.map(e => Math.max(...e)));
    const step = [5, 10, 20, 50, 100, 200, 500, 1000].find(s => top / s <= 3) ?? 2000;
    const end = step * Math.ceil(top / step);
    g.font = '12px system-ui, sans-serif';
    g.fillStyle = ink;
    for (let v = 0; v <= end; v += step) {
      const y = height - 16 - (height - 26) * v / end;
      line(g, [[left, y], [width, y]], pale, 0.5);
      g.fillText(`${v} mm`, 0, y + 4);
    }
    [['#0072b2', 0, 'load from plan'], ['#e69f00', 1, 'estimate from load']].forEach(([style, which, name], i) => {
      const points = history.map((e, k) => [
        left + (width - left) * k / (KEPT / dt), height - 16 - (height - 26) * 1e3 * e[which] / end,
      ]);
      line(g, points, style, 1.8);
      g.fillStyle = style;
      g.fillText(name, left + 8 + 110 * i, height - 2);
    });
  }

  function say() {
    const seconds = (state.ticks * dt).toFixed(1);
    const overflows = c.overflows();
    told.textContent = `${seconds} s · row ${c.row()} of ${c.rows()} · load ${(1e3 * state.error).toFixed(1)} mm from its plan` +
      ` · estimate ${(1e3 * state.estimated).toFixed(1)} mm off · number overflows ${overflows}` +
      (covered > 0 ? ' · camera covered' : '') + (blocked > 0 ? ' · trolley blocked' : '');
  }

  let last = null, owed = 0;
  function frame(now) {
    if (last !== null) owed = Math.min(owed + (now - last) / 1e3, 3 * dt);  // a slow computer has slow time
    last = now;
    for (; owed >= dt; owed -= dt) tick();
    draw();
    say();
    requestAnimationFrame(frame);
  }

  const at = event => {
    const r = scene.getBoundingClientRect();
    return {x: view.left + (event.clientX - r.left) / scale(), y: view.high - (event.clientY - r.top) / scale()};
  };
  scene.addEventListener('pointerdown', event => {
    hand = at(event);
    scene.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  scene.addEventListener('pointermove', event => { if (hand) hand = at(event); });
  for (const name of ['pointerup', 'pointercancel']) scene.addEventListener(name, () => { hand = null; });
  const actions = {
    restart,
    push: () => { before = {x: before.x - 0.4 * h, y: before.y}; },
    cover: () => { covered = Math.round(1 / dt); },
    block: () => { blocked = Math.round(0.5 / dt); },
    feedback: event => { feedback = event.target.checked; },
  };
  box.querySelectorAll('[data-do]').forEach(e => {
    e.addEventListener(e.type === 'checkbox' ? 'change' : 'click', actions[e.dataset.do]);
  });
  restart();
  window.controllerPage = {state, c, tick, restart, actions};
  requestAnimationFrame(frame);
})();
