#!/usr/bin/env bash
# Branches and decisions of firmware/core, counted by clang while the tests that run it on this machine do. Fails below 90 %.
# The first clang that counts MC/DC well is not among the packages of `make setup`: it is installed here, if we are root.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v clang-19 >/dev/null || ! command -v llvm-cov-19 >/dev/null; then
  install='apt-get update && apt-get install -y --no-install-recommends clang-19 llvm-19 libclang-rt-19-dev'
  if ((EUID == 0)) && command -v apt-get >/dev/null; then
    echo "clang 19 is missing: $install"
    DEBIAN_FRONTEND=noninteractive bash -c "$install"
  else
    echo "clang 19 is missing; install it as root (Debian, Ubuntu):" >&2
    echo "  $install" >&2
    exit 1
  fi
fi
# Whatever compiles the core for itself, by one of these modules.
mapfile -t tests < <(grep -lE 'native_core|(loop|link)_board|test_supervisor' tests/firmware/test_*.py)
tests+=(tests/sil/test_primitives.py tests/unit/test_schedule.py)
exec .venv/bin/python -m tests.firmware.decisions "$@" "${tests[@]}"
