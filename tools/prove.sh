#!/usr/bin/env bash
# Runs the proofs. Frama-C is not among the packages of `make setup`, since it takes 0.9 GB: it is installed here, if we are root.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v frama-c >/dev/null; then
  install='apt-get update && apt-get install -y --no-install-recommends frama-c-base'
  if ((EUID == 0)) && command -v apt-get >/dev/null; then
    echo "frama-c is missing: $install"
    DEBIAN_FRONTEND=noninteractive bash -c "$install"
  else
    echo "frama-c is missing, 0.9 GB; install it as root (Debian, Ubuntu):" >&2
    echo "  $install" >&2
    exit 1
  fi
fi
exec .venv/bin/python -m tests.proof.campaign "$@"
