#!/usr/bin/env bash
# Writes requirements.lock: what a clean environment gets from pyproject.toml today, as exact versions; and
# requirements-docs.lock: what the documentation needs beside them.
set -euo pipefail
cd "$(dirname "$0")/.."

env=build/lock
rm -rf "$env"
"${PYTHON:-python3}" -m venv "$env"
pip() { "$env/bin/python" -m pip --disable-pip-version-check "$@"; }

# The pins of what is installed. An address or a local path instead of a version would work on this machine only.
pins() {
  local found
  found=$(pip freeze --exclude stepmap)
  if grep -vE '^[A-Za-z0-9._-]+==[A-Za-z0-9.!_-]+$' <<<"$found" >&2; then
    echo "the lines above are not plain versions; the locks are unchanged" >&2
    return 1
  fi
  echo "$found"
}

pip install --quiet '.[dev]'
development=$(pins)
pip install --quiet --constraint <(echo "$development") '.[docs]'
both=$(pins)
printf '# Every package of the development environment. Written by `make lock`.\n%s\n' "$development" >requirements.lock
printf '# What `make site` needs beside requirements.lock. Written by `make lock`.\n%s\n' \
  "$(LC_ALL=C comm -13 <(LC_ALL=C sort <<<"$development") <(LC_ALL=C sort <<<"$both"))" >requirements-docs.lock
rm -rf "$env"
