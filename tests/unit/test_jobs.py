"""Job files: what a good one means, and what every mistake is answered with, line by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.jobs.read import RESERVED
from stepmap_codegen.generate import choices_in
from stepmap_hil.bench.settings import settings_in
from tests.messages import told as message_of

GOOD = """\
[system]
name = "suspended_mass"
mass = 0.2
[time]
dt = "1/30"
duration = 1.0
[start]
ym = 0.25
r = 0.75
[reference]
kind = "expressions"
[reference.let]
x = "0.1*sin(2*t)"
[reference.of]
xm = "x"
r = 0.8
[weights]
terminal = 10
[weights.state]
q = 100
ym = 50
v = 1
[weights.input]
rho_next = 1
[limits]
r = { low = 0.4, high = 1.5, weight = 30 }
xr_next = { high = 0.9, weight = 5 }
[solver]
method = "gauss-newton"
max_iterations = 7
tolerance = 1e-9
stages = [0.5, 1]
guess = "release"
[noise]
gate = 5
[noise.process]
q = 1e-3
[noise.measurement]
mass.x = 0.01
"mass.y" = 0.02
xr = "1/100"
r = 0.04
"""


def load(folder: Path, text: str) -> jobs.Job:
    path = folder / "try.toml"
    path.write_text(text)
    return jobs.load(path)


def test_a_good_job(tmp_path: Path) -> None:
    job = load(tmp_path, GOOD)
    assert (job.name, job.steps, job.dt) == ("try", 30, 1 / 30)
    assert job.system.parameter_values[0] == 0.2
    np.testing.assert_array_equal(job.pose, [0.0, 0.25, 0.0, 0.75])
    np.testing.assert_array_equal(job.weights.state, [100, 50, 0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(job.weights.terminal, 10 * job.weights.state)
    np.testing.assert_array_equal(job.weights.input, [1, 1])
    assert job.limits == (
        sm.SoftLimit(3, low=0.4, high=1.5, weight=30),
        sm.SoftLimit(0, high=0.9, weight=5, of_input=True),
    )
    assert job.solver == jobs.Solver("gauss-newton", 7, 1e-9, (0.5, 1.0), "release")
    assert job.noise is not None
    assert job.noise.gate == 5
    np.testing.assert_array_equal(job.noise.process, [1e-3, 1e-3, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(job.noise.start, job.noise.process)
    np.testing.assert_array_equal(job.noise.measurement, [0.01, 0.02, 0.01, 0.04])
    assert job.reference.named == ("xm", "r")


def test_what_is_built_from_it(tmp_path: Path) -> None:
    job = load(tmp_path, GOOD)
    problem = job.problem()
    np.testing.assert_array_equal(problem.start, job.step.rest([0.0, 0.25, 0.0, 0.75]))
    np.testing.assert_array_equal(np.diagonal(problem.cost.Q), job.weights.state)
    np.testing.assert_allclose(problem.cost.x_ref[:, 0], 0.1 * np.sin(2 * job.t), atol=1e-15)
    np.testing.assert_array_equal(problem.cost.x_ref[:, 1], 0.25)  # not named: it stays at the start
    np.testing.assert_array_equal(problem.cost.u_ref[:, 1], 0.8)
    assert problem.guess is not None
    np.testing.assert_array_equal(problem.guess.u, np.tile([0.0, 0.75], (30, 1)))
    ekf, belief = job.ekf(), job.belief()
    np.testing.assert_allclose(np.diagonal(ekf.measurement), [1e-4, 4e-4, 1e-4, 1.6e-3])
    np.testing.assert_array_equal(belief.P, ekf.process)
    np.testing.assert_array_equal(belief.x, job.start)


def test_a_part_of_the_way(tmp_path: Path) -> None:
    job = load(tmp_path, GOOD)
    half, whole = job.cost(0.5), job.cost()
    np.testing.assert_allclose(half.x_ref, (job.start + whole.x_ref) / 2, rtol=1e-15)
    np.testing.assert_allclose(half.u_ref, (job.held + whole.u_ref) / 2, rtol=1e-15)


def test_stages_end_where_the_direct_way_ends(tmp_path: Path) -> None:
    newton = GOOD.replace("gauss-newton", "newton").replace("max_iterations = 7", "").replace("1e-9", "1e-12")
    staged = load(tmp_path, newton).solve().require()
    direct = load(tmp_path, newton.replace("[0.5, 1]", "[1]")).solve().require()
    assert staged.cost == pytest.approx(direct.cost, rel=1e-12)
    assert len(staged.history) > len(direct.history)


def test_solutions_agree_with_direct_calls(tmp_path: Path) -> None:
    job = load(tmp_path, GOOD.replace("stages = [0.5, 1]\n", ""))
    problem = job.problem()
    found = sm.optimize(problem, method="gauss-newton", max_iterations=7, tolerance=1e-9)
    np.testing.assert_array_equal(job.solve().trajectory.x, found.trajectory.x)


def test_defaults(tmp_path: Path) -> None:
    job = load(tmp_path, minimal())
    assert job.solver == jobs.Solver()
    assert job.noise is None
    assert job.limits == ()
    np.testing.assert_array_equal(job.weights.terminal, job.weights.state)
    with pytest.raises(sm.ModelError, match=r"no table \[noise\]"):
        job.ekf()


def minimal(
    system: str = "pendulum", weights: str = "input = { torque = 1 }", time: str = "dt = 0.1\nsteps = 5"
) -> str:
    return (
        f'[system]\nname = "{system}"\n[time]\n{time}\n[reference]\nkind = "expressions"\nof = {{}}\n'
        f"[weights]\nstate = {{}}\n{weights}\n"
    )


def test_a_terminal_table_replaces_some_weights(tmp_path: Path) -> None:
    job = load(tmp_path, GOOD.replace("terminal = 10", "terminal = { ym = 7, p = 3 }"))
    np.testing.assert_array_equal(job.weights.terminal, [100, 7, 0, 0, 3, 3, 1, 1])


def test_tables_of_later_stages_are_kept(tmp_path: Path) -> None:
    job = load(tmp_path, GOOD + "".join(f"[{name}]\nanything = [1, {{ x = 2 }}]\n" for name in RESERVED))
    assert all(job.document[name] == {"anything": [1, {"x": 2}]} for name in RESERVED)


def test_arguments_have_the_type_of_their_default(tmp_path: Path) -> None:
    text = minimal("double_pendulum", "input = { torque1 = 1 }")
    assert len(load(tmp_path, text.replace("torque1", "forces")).system.inputs) == 2
    for value, said in (("1", "expected true or false, got 1"), ("false", "has no force input")):
        with pytest.raises(sm.JobError, match=said):
            load(tmp_path, text.replace("[time]", f"actuated = {value}\n[time]"))
    with pytest.raises(sm.JobError, match=r"expected a whole number, got 2\.5"):
        load(tmp_path, minimal("pendulum_chain").replace("[time]", "n = 2.5\n[time]"))


def test_put_on_the_constraints_only_if_asked(tmp_path: Path) -> None:
    text = GOOD.replace("ym = 0.25\nr = 0.75", "xm = 0.3\nsatisfy = true")
    job = load(tmp_path, text)
    assert job.pose[0] == 0.3
    assert abs(job.system.gaps(job.pose)).max() < 1e-14
    np.testing.assert_array_equal(job.pose[2:], [0.0, 1.0])  # the robot stays, the mass gives way


def test_files_with_windows_line_ends_and_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert jobs.load(path).steps == 30
    path.write_bytes(GOOD.replace("\n", "\r\n").replace("dt =", "dtt =").encode())
    with pytest.raises(sm.JobError, match=r"windows\.toml:5: time\.dtt"):
        jobs.load(path)


# mistakes ---------------------------------------------------------------------------------------------------------

MISTAKES = [
    # what, by what, line, what is said
    ("[system]", "[sytem]", 1, "no table is called 'sytem'\nhint: Did you mean 'system'?"),
    ("[limits]", "[colours]", 25, "no table is called 'colours'\nhint: There are system, time"),
    ("mass = 0.2", "mas = 0.2", 3, "no argument is called 'mas'\nhint: Did you mean 'mass'? There are name,"),
    ("mass = 0.2", 'mass = "heavy"', 3, "system.mass: expected a number, got 'heavy': unknown name 'heavy'"),
    ("mass = 0.2", "mass = true", 3, "system.mass: expected a number, got true"),
    ("mass = 0.2", "mass = -1", 1, "system: mass on frame 'mass': must not be negative"),
    ("mass = 0.2", "mass = nan", 3, "system.mass: must be finite, got nan"),
    ('"suspended_mass"', '"suspended_mas"', 2, "no system is called 'suspended_mas'\nhint: Did you mean 'suspended"),
    ('name = "suspended_mass"\n', "", 1, "system: 'name' is missing\nhint: Name one of "),
    ('"suspended_mass"\nmass', '"pendulum_chain"\nmass', 1, "system: 'pendulum_chain_5' has no force input"),
    ('"1/30"', '"33 ms"', 5, "time.dt: expected a number of seconds, got '33 ms'"),
    ('"1/30"', '"t/30"', 5, "time.dt: expected a number of seconds, and 't/30' changes with t"),
    ('"1/30"', "0", 5, "time.dt: must be positive, got 0"),
    ('"1/30"', "[0.1]", 5, "time.dt: expected a number of seconds, got a list"),
    ("duration = 1.0", "duration = 1.01", 6, "a whole number of steps: 1.01 s is 30.3 steps of 0.0333333333 s"),
    ("duration = 1.0", "duration = 0", 6, "time.duration: the horizon must have at least one step of 0.0333333 s"),
    ("duration = 1.0", "duration = -1", 6, "time.duration: the horizon must have at least one step"),
    ("duration = 1.0", "duration = -1e308", 6, "must have at least one step of 0.0333333 s, got -1e+308 s"),
    ("duration = 1.0", "steps = 0", 6, "time.steps: the horizon must have at least one step, got 0"),
    ("duration = 1.0", "steps = 1.5", 6, "time.steps: expected a whole number, got 1.5"),
    ("duration = 1.0", "steps = true", 6, "time.steps: expected a whole number, got true"),
    ("duration = 1.0", "", 4, "time: give either duration [s] or steps"),
    ("duration = 1.0", "duration = 1.0\nsteps = 30", 4, "time: give either duration [s] or steps"),
    ("ym = 0.25", "yn = 0.25", 8, "start.yn: no coordinate is called 'yn'\nhint: Did you mean 'ym'? There are xm"),
    ("ym = 0.25", "ym = 0.3", 7, "start: the pose is off constraint 'string' by -0.05 m; give coordinates that agree"),
    ("ym = 0.25", "ym = 9\nxr = 0\nxm = 0\nsatisfy = true", 11, "start.satisfy: no pose near the given one"),
    ("ym = 0.25", "ym = 0.25\nsatisfy = 1", 9, "start.satisfy: expected true or false, got 1"),
    ('kind = "expressions"', 'kind = "expression"', 11, "reference.kind: no choice is called 'expression'\nhint: Did"),
    ('kind = "expressions"', 'file = "x.csv"', 10, "reference: 'kind' is missing\nhint: Name one of expressions, w"),
    ('kind = "expressions"', 'kind = "csv"', 12, "reference.let: no key is called 'let'\nhint: There are kind"),
    ('kind = "expressions"', 'kind = "expressions"\nmomenta = "none"', 12, "reference.momenta: no choice is called"),
    ('x = "0.1*sin(2*t)"', 'x = "0.1*sin(2*t"', 13, "reference.let.x: '(' was never closed (position 8 of"),
    ('x = "0.1*sin(2*t)"', 't = "0.1*sin(2*t)"', 13, "reference.let.t: cannot name a formula"),
    ('x = "0.1*sin(2*t)"', '"a b" = 1', 13, "reference.let.'a b': cannot name a formula"),
    ('x = "0.1*sin(2*t)"', 'x = "y"\ny = 1', 13, "reference.let.x: unknown name 'y'"),
    ('xm = "x"', 'xmm = "x"', 15, "reference.of.xmm: no coordinate or force input is called 'xmm'\nhint: Did you"),
    ('xm = "x"', 'xm = "z"', 15, "reference.of.xm: unknown name 'z'"),
    ('xm = "x"', 'xm = "1/t"', 15, "reference.of.xm: the formula has no finite value at t = 0 s"),
    ('xm = "x"', "xm = [1, 2]", 15, "reference.of.xm: expected a number, got a list"),
    ('xm = "x"', "xm = inf", 15, "reference.of.xm: must be finite, got inf"),
    ('[reference.of]\nxm = "x"\nr = 0.8\n', "", 10, "reference: 'of' is missing\nhint: Give formulas of time"),
    ("terminal = 10", "terminal = -1", 18, "weights.terminal: must not be negative, got -1"),
    ("terminal = 10", "terminals = 10", 18, "weights.terminals: no key is called 'terminals'\nhint: Did you mean"),
    ("q = 100", "Q = 100", 20, "weights.state.Q: no state is called 'Q'\nhint: There are xm, ym, xr, r, p_xm"),
    ("ym = 50", "ym = -50", 21, "weights.state.ym: must not be negative, got -50"),
    ("ym = 50", "p_yn = 50", 21, "weights.state.p_yn: no state is called 'p_yn'\nhint: Did you mean 'p_ym'?"),
    ("ym = 50", "ym = [50]", 21, "weights.state.ym: expected a number, got a list"),
    ("rho_next = 1", "rho_next = 0", 23, "weights.input: input 'xr_next' has none, or zero; every input needs"),
    ("rho_next = 1", "xr_next = 1", 23, "weights.input: input 'r_next' has none, or zero"),
    ("rho_next = 1", "rho_next = 1\nr_next = 0", 25, "weights.input.r_next: input 'r_next' has none, or zero"),
    ("[weights.input]\nrho_next = 1\n", "", 17, "weights: 'input' is missing\nhint: Give weights by input name"),
    ("r = { low", "rr = { low", 26, "limits.rr: no state or input is called 'rr'"),
    ("low = 0.4, high = 1.5", "low = 1.5, high = 0.4", 26, "limits.r: SoftLimit: low (1.5) must be below high (0.4)"),
    ("low = 0.4, high = 1.5, weight = 30", "weight = 30", 26, "limits.r: give low, high or both"),
    ("weight = 30", "weight = 0", 26, "limits.r: SoftLimit: weight must be positive"),
    ("weight = 30", "wait = 30", 26, "limits.r.wait: no key is called 'wait'\nhint: Did you mean 'weight'?"),
    (", weight = 30", ", rate = 3", 26, "limits.r.rate: give the rate of an input, or low and high of the velocity"),
    (", weight = 30", ", weight = 30, rate = 3", 26, "limits.r.rate: a limit of the rate is hard, and has no weight"),
    ("low = 0.4, high = 1.5, weight = 30", "low = -9", 26, "limits.r.low: -9 is beyond the system's own limits"),
    ("low = 0.4, high = 1.5, weight = 30", "low = 1.5, high = 1", 26, "limits.r: low (1.5) must be below high (1)"),
    ("r = { low = 0.4, high = 1.5, weight = 30 }", "r_next = { rate = 0 }", 26, "limits.r_next.rate: must be positive"),
    ("r = { low = 0.4, high = 1.5, weight = 30 }", "use = 1.5", 26, "limits.use: must be a part of the motors' limits"),
    ("[limits]", "[goal]\nxm = 1\n[limits]", 1, "give either the table [reference] or the table [goal]\nhint: [ref"),
    ("[limits]", "[end]\nstill = true\n[limits]", 26, "end.still: no key is called 'still'\nhint: There are rest"),
    ("[limits]", "[weights.controller]\nstate = { q = 1 }\n[limits]", 25, "weights.controller: 'input' is missing"),
    ("r = { low = 0.4, high = 1.5, weight = 30 }", "r = 3", 26, "limits.r: expected a table, got 3"),
    ('"gauss-newton"', '"gauss"', 29, "solver.method: no choice is called 'gauss'"),
    ("max_iterations = 7", "max_iterations = -7", 30, "solver.max_iterations: must not be negative, got -7"),
    ("max_iterations = 7", "max_iterations = 7.0", 30, "solver.max_iterations: expected a whole number, got 7.0"),
    ("tolerance = 1e-9", "tolerance = -1", 31, "solver.tolerance: must not be negative"),
    ("[0.5, 1]", "[0.5]", 32, "solver.stages: must be positive parts of the way that end in 1"),
    ("[0.5, 1]", "[]", 32, "solver.stages: must be positive parts"),
    ("[0.5, 1]", '[0.5,\n"one", 1]', 33, "solver.stages[2]: expected a number, got 'one'"),
    ('guess = "release"', 'guess = "good"', 33, "solver.guess: no choice is called 'good'\nhint: There are hold"),
    ("gate = 5", "gate = 0", 35, "noise.gate: must be a positive number of standard deviations"),
    ("q = 1e-3", "q = -1e-3", 37, "noise.process.q: must not be negative"),
    ("mass.x = 0.01", "mass.z = 0.01", 39, "noise.measurement.mass.z: no sensor channel is called 'mass.z'\nhint: Did"),
    ("mass.x = 0.01\n", "", 38, "noise.measurement: sensor channel 'mass.x' has none, or zero; every channel"),
    ("[noise.process]\nq = 1e-3\n", "", 34, "noise: 'process' is missing\nhint: Give standard deviations per step"),
    ("gate = 5", "gates = 5", 35, "noise.gates: no key is called 'gates'\nhint: Did you mean 'gate'?"),
    ('[time]\ndt = "1/30"\nduration = 1.0\n', "", 1, "the table [time] is missing: dt, and duration or steps"),
    ("duration = 1.0", "duration = 1.0\nduration = 2.0", 7, "is not valid TOML: Cannot overwrite a value (column"),
    ("duration = 1.0", "duration 1.0", 6, "is not valid TOML: Expected '=' after a key"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "said"), MISTAKES, ids=lambda value: str(value)[:40])
def test_mistakes_are_answered_with_file_and_line(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    assert GOOD.count(old) >= 1
    with pytest.raises(sm.JobError) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    error = caught.value
    path = str(tmp_path / "try.toml")
    assert (error.file, error.line) == (path, line)
    assert str(error).startswith(f"{path}:{line}: ")
    assert said in message_of(error)
    assert "\n" not in str(error)
    assert isinstance(error, ValueError)
    assert isinstance(error, sm.StepmapError)


def test_a_table_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(sm.JobError, match=r"try\.toml:1: limits: expected a table, got 3"):
        load(tmp_path, "limits = 3\n" + GOOD.replace("[limits]", "[bench]"))


def test_text_that_ends_too_early(tmp_path: Path) -> None:
    with pytest.raises(sm.JobError, match=r"try\.toml:2: is not valid TOML"):
        load(tmp_path, '[system]\nname = "')


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(sm.JobError, match=r"nothing\.toml: cannot be read: No such file"):
        jobs.load(tmp_path / "nothing.toml")
    with pytest.raises(sm.JobError, match=r"is a folder, and not a job file\nhint: Name the job file"):
        jobs.load(tmp_path)
    (tmp_path / "crane.toml").write_text(GOOD)
    with pytest.raises(sm.JobError, match=r"cannot be read: No such file.*\nhint: Did you mean '.*crane\.toml'\?"):
        jobs.load(tmp_path / "cran.toml")
    path = tmp_path / "latin.toml"
    path.write_bytes(b"[system]\n# caf\xe9\n")
    with pytest.raises(sm.JobError, match=r"latin\.toml:2: is not UTF-8 text"):
        jobs.load(path)


def test_a_guess_that_leads_nowhere_says_so(tmp_path: Path) -> None:
    # The string is to be shortened to nothing within one step: no trajectory follows that.
    text = GOOD.replace('"release"', '"reference"').replace("r = 0.8", 'r = "0.75 - 100*t"').replace("0.5, 1", "1")
    job = load(tmp_path, text)
    with pytest.raises(sm.ConvergenceError, match=r"no trajectory\ncause: .*\nhint: .*than 'reference'"):
        job.solve()


def test_the_tables_of_later_stages_are_read_from_the_loaded_job(tmp_path: Path) -> None:
    """The file is read once: with its lines, and its content as it was."""
    job = load(tmp_path, GOOD + "[codegen]\nword = 24\n[bench]\nio_cycles = 0\n")
    (tmp_path / "try.toml").unlink()
    assert job.root.source == (GOOD + "[codegen]\nword = 24\n[bench]\nio_cycles = 0\n").encode()
    assert choices_in(job.root).options.word == 24
    with pytest.raises(sm.JobError, match=r"bench\.io_cycles: must be 1 to 100") as caught:
        settings_in(job.root)
    assert caught.value.line == GOOD.count("\n") + 4
