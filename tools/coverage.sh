#!/usr/bin/env bash
# Branch coverage of firmware/core, measured by gcov while the tests that run it on this machine do. Fails below 90 %.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=(tests/firmware/test_{link,loop,motor,rows,security,sha256,supervisor,upload}.py
  tests/sil/test_{fixed_point,primitives}.py tests/unit/test_schedule.py)
mapfile -t sources < <(cd firmware/core && ls ./*.c | sed 's|^\./||')
mkdir -p build
.venv/bin/python -m tests.firmware.native_core "${sources[@]}" "${tests[@]}" | tee build/coverage.txt
awk '/^all: / { exit !($(NF - 1) >= 90) }' build/coverage.txt
