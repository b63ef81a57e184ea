# Development of stepmap. `make help` lists the targets.

PYTHON ?= python3# creates .venv; 3.11 or newer
JOBS ?= $(shell echo $$(($$(nproc) + 3)))# parallel test processes; three more than cores, as tests often wait for boards

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMP := $(VENV)/.setup-done

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: prove coverage help setup system demo test check bench bench-balls bench-dances bench-direct bench-events bench-first-frame bench-identify bench-import bench-mechanisms bench-planner bench-readme bench-ros bench-strings bench-swingups bench-theatre bench-versions bench-viewers flood soak lock clean bench-gaits wheel

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with the locked packages and stepmap itself, editable

system:
	@PYTHON='$(PYTHON)' tools/system_packages.sh

# pip check: the lock must satisfy what pyproject.toml asks for.
$(STAMP): requirements.lock pyproject.toml | system
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'stepmap needs Python 3.11 or newer: make PYTHON=python3.11 ...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --no-deps --requirement requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	$(PIP) check
	@touch $@

demo: setup ## optimize, generate, build, flash an emulated STM32F405, upload; it controls a robot that a Kinect watches
	$(BIN)/stepmap demo
	$(BIN)/stepmap bench examples/suspended_mass.toml --board stm32f405

# Bytecode is kept whatever the environment says: tests start hundreds of processes that would compile everything again.
# Matrices are small, and there are more processes than cores: threads of numpy's own would only wait for each other.
test: check ## run all checks, then all tests
	env -u PYTHONDONTWRITEBYTECODE OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

check: setup ## format, lint, types, layers, C, and the quick part of the proofs, without running anything
	@tools/check.sh

bench: setup ## measure the core, the optimizer, what commands take, the generated code, the firmware, the Kinect, real time, floods and imported robots
	$(BIN)/python tests/bench/core.py
	$(BIN)/python tests/bench/optimal.py
	$(BIN)/python tests/bench/dynamics.py
	$(BIN)/python tests/bench/commands.py
	$(BIN)/python tests/bench/codegen.py
	$(BIN)/python tests/bench/firmware.py
	$(BIN)/python tests/bench/depth.py
	$(BIN)/python tests/bench/realtime.py
	$(BIN)/python tests/bench/flood.py
	$(BIN)/python -m tests.bench.importing

bench-readme: ## put the speeds of the last `make bench` into README.md
	$(BIN)/python tests/bench/readme.py

bench-dances: setup ## twenty dances that nothing was tuned for on the marionette: iterations, CPU time, forces of strings
	$(BIN)/python tests/bench/dances.py

bench-direct: setup ## direct optimal control: swing-up, helicopter, canyon, gaits, beside CasADi's virtual machine and fatrop
	$(BIN)/python tests/bench/direct.py

bench-balls: setup ## a marionette on ball joints beside the one with Euler angles, in turns: step, derivatives, curvature
	$(BIN)/python tests/bench/balls.py

.PHONY: bench-campaign
bench-campaign: setup ## ten thousand filtered runs and runs on the bench as campaigns, with their CPU time; fill docs/campaigns.md
	$(BIN)/python -m tests.bench.campaign --docs

bench-events: setup ## steps with strings and contacts: costs, and 40 throws of a marionette on seven strings
	$(BIN)/python tests/bench/events.py

bench-first-frame: setup ## from an empty folder to a mechanism that moves on the live page: seconds, cold and warm
	$(BIN)/python tests/bench/first_frame.py

bench-gaits: setup ## gaits of the planar biped: effort, work, designs of the shank, studies, published cycles, robots with other masses that walk 50 steps
	$(BIN)/python -m tests.bench.gaits

bench-identify: setup ## derivatives by parameters, fits, sigmas of many draws, what runs of the firmware teach; fill docs/identify.md
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/bench/identify.py --docs

bench-ros: setup ## what a bridge to ROS 2 and a bag cost; fills docs/ros.md
	$(BIN)/python -m tests.bench.ros --docs

bench-viewers: setup ## what rerun reads of a recording; installs it into build/viewers, 0.8 GB
	test -x build/viewers/bin/rerun || { python3 -m venv build/viewers && build/viewers/bin/pip install --quiet "rerun-sdk>=0.41"; }
	$(BIN)/python tests/bench/viewers.py build/viewers/bin/rerun

bench-import: setup ## read some 290 robots of other people's packages, which are downloaded; compare with Pinocchio and MuJoCo; fill docs/import.md
	$(BIN)/python -m tests.bench.importing --docs

bench-mechanisms: setup ## run the nine mechanisms of examples/mechanisms on a process and an F405; fill docs/mechanisms.md
	$(BIN)/python tests/bench/mechanisms.py --docs

bench-planner: setup ## plan in two scenes from 20 seeds each; extensions per second beside OMPL's, where it is installed
	$(BIN)/python tests/bench/planner.py

bench-strings: setup ## strike and drop the mass on a string, on emulated F405 and F100; what its filter makes of it, and costs
	$(BIN)/python tests/bench/strings.py

bench-swingups: setup ## swing up six mechanisms from 20 starts each within their limits, and with torque 10 % off
	$(BIN)/python tests/bench/swingups.py

bench-theatre: setup ## plays and dances on a process and an F405, changed plays solved again; fill docs/choreography.md and docs/imitation.md
	$(BIN)/python tests/bench/theatre.py --docs

bench-versions: setup ## the core and the optimizer beside another checkout: make bench-versions OTHER=folder
	$(BIN)/python tests/bench/versions.py $(OTHER)

wheel: setup ## build sdist and wheel, install the wheel into a fresh environment nobody can write to, and walk the chain from there
	$(BIN)/python -m tools.try_wheel

SITE := build/site-env
SITE_STAMP := $(SITE)/.setup-done

# An environment of its own, with that of development behind it: pages are made from stepmap itself.
$(SITE_STAMP): requirements-docs.lock $(STAMP)
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --requirement requirements-docs.lock
	@here=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  there=$$($(SITE)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  echo "import site; site.addsitedir('$$here')" >"$$there/development.pth"
	@touch $@

.PHONY: site tutorials
tutorials: setup ## go through the tutorials of the dancer and of the biped, which take longer than a test may
	$(BIN)/python -m pytest tests/bench/tutorials.py

site: $(SITE_STAMP) ## build the documentation's pages into build/site/html, run its notebooks, check links, look at it in a headless Chromium
	$(SITE)/bin/python -m tools.site
	$(SITE)/bin/python -m tools.site.look

flood: setup ## a minute of keyless bytes at full line rate for each attack, on emulated boards that run
	$(BIN)/python tests/bench/flood.py

.PHONY: fuzz fuzz-files mutants fingerprints
fuzz: setup ## libFuzzer on parser, upload, reader of schedules and store, MINUTES=5 each, with sanitizers
	PYTHON=$(BIN)/python tests/fuzz/run.sh $$(( $(or $(MINUTES),5) * 60 ))

fuzz-files: setup ## N=100000 mutated jobs, rigs, fault files, schedules, URDF, MJCF, BVH and recordings each; goes on where it was
	$(BIN)/python -m tests.fuzz.files --count $(or $(N),100000)

mutants: setup ## put SAMPLE=422 faults into firmware/core, hybrid, group and gait code; tests should notice 90 %; goes on where it was
	$(BIN)/python -m tools.mutants --sample $(or $(SAMPLE),422) --seed $(or $(SEED),1)

fingerprints: setup ## compare the bits of all examples with tests/data/fingerprints.json, also computed as on an old processor
	$(BIN)/python -m tests.fingerprints
	$(BIN)/python -m tests.fingerprints --old-processor

soak: setup ## HOURS=1 of simulated ticks of the firmware with random faults, wraps included, then an hour of the bench in lock-step
	$(BIN)/python -m tests.firmware.soak $(or $(HOURS),1)
	$(BIN)/python -m tests.hil.soak

.PHONY: pictures
pictures: setup ## draw docs/images: architecture, a tick, and the live page of an emulated F405 in a headless Chromium
	$(BIN)/python -m tools.pictures
	$(BIN)/python -m tools.pictures.live

coverage: setup ## branches and decisions of firmware/core that tests take; writes build/bench/coverage.json, fills docs/soundness.md
	tools/coverage.sh --docs

prove: setup ## prove that no tick of any committed job overflows, divides by zero or leaves its memory; fill docs/soundness.md
	tools/prove.sh --docs

lock: ## pin the newest packages pyproject.toml allows in requirements.lock
	@PYTHON='$(PYTHON)' tools/lock.sh

clean: ## remove .venv and everything built or cached in this folder
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
