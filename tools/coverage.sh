#!/usr/bin/env bash
# Branches and decisions of firmware/core, counted by clang while the tests that run it on this machine do. Fails below 90 %.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=(tests/firmware/test_{decisions,link,loop,loop_guards,motor,rows,security,sha256,supervisor,turns,upload}.py
  tests/sil/test_primitives.py tests/unit/test_schedule.py)
exec .venv/bin/python -m tests.firmware.decisions "${tests[@]}"
