#!/usr/bin/env bash
# Writes requirements.lock: what a clean environment gets from pyproject.toml today, as exact versions.
set -euo pipefail
cd "$(dirname "$0")/.."

env=build/lock
rm -rf "$env"
"${PYTHON:-python3}" -m venv "$env"
pip() { "$env/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install --quiet '.[dev]'
pins=$(pip freeze --exclude stepmap)

# An address or a local path instead of a version would work on this machine only.
if grep -vE '^[A-Za-z0-9._-]+==[A-Za-z0-9.!_-]+$' <<<"$pins"; then
  echo "the lines above are not plain versions; requirements.lock is unchanged" >&2
  exit 1
fi
printf '# Every package of the development environment. Written by `make lock`.\n%s\n' "$pins" >requirements.lock
rm -rf "$env"
