#!/usr/bin/env bash
# Runs every static check and the quick part of the proofs, side by side and all of them even if one fails, and fails at the end if any did.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT

headings=() processes=() failed=()
trap 'kill "${processes[@]}" 2>/dev/null; exit 130' INT TERM # what runs in the background ignores Ctrl-C
check() { # heading command...
  "${@:2}" >"$said/${#headings[@]}" 2>&1 &
  headings+=("$1") processes+=("$!")
}

check "mypy" "$bin/mypy" --strict host/stepmap codegen/stepmap_codegen hil/stepmap_hil # takes longest
check "ruff format" "$bin/ruff" format --check .
check "ruff check" "$bin/ruff" check .
check "imports" "$bin/lint-imports" --no-logo

# Our own C: tracked or about to be; neither generated nor test data.
own_c() {
  git ls-files --cached --others --exclude-standard --deduplicate -- '*.c' '*.h' \
    ':(exclude,glob)**/generated/**' ':(exclude)tests/data/'
}
sources=()
own_c >/dev/null || failed+=("list of C files")
while read -r file; do
  [[ -e $file ]] && sources+=("$file")
done < <(own_c)
if ((${#sources[@]})); then
  check "clang-format" clang-format --dry-run -Werror "${sources[@]}"
  mkdir -p build/cppcheck # results of files that have not changed
  check "cppcheck" cppcheck --cppcheck-build-dir=build/cppcheck --quiet --std=c11 --enable=warning,style,performance,portability --inline-suppr \
    --suppress=missingIncludeSystem --suppress=toomanyconfigs -U__AVX512F__ -U__AVX__ -USM_IN_LANES --error-exitcode=1 -I tests/data/sample_model "${sources[@]}"
fi
check "gcc" tools/check_c.sh
check "proofs" "$bin/python" -m tests.proof.quick

for number in "${!headings[@]}"; do
  wait "${processes[number]}" || failed+=("${headings[number]}")
  echo "== ${headings[number]}"
  cat "$said/$number"
done
if ((${#failed[@]})); then
  (IFS=, && echo "== failed: ${failed[*]}") >&2
  exit 1
fi
echo "== all checks passed"
