#!/usr/bin/env bash
# Fuzzes parser, upload, reader of schedules and store, each for so many seconds, with address and undefined-behaviour
# sanitizers. A run begins with the inputs of tests/fuzz/corpus, a line of hexadecimal digits each, and those that found
# something new before, which are kept in build/fuzz. KEEP=yes writes the fewest, small ones that reach all
# that was reached. Figures: build/bench/fuzz.json, from where `python -m tests.fuzz.docs` takes them.
# RUNS=number tries so many inputs instead, however long that takes.
# usage: tests/fuzz/run.sh SECONDS [TARGET]...
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:?usage: tests/fuzz/run.sh SECONDS}
python=${PYTHON:-$([[ -x .venv/bin/python ]] && echo .venv/bin/python || echo python3)}
out=${FUZZ_OUT:-build/fuzz}
if [[ ${RUNS:-} ]]; then
  limit=-runs=$RUNS span="$RUNS inputs"
else
  limit=-max_total_time=$seconds span="$seconds s"
fi

command -v clang >/dev/null || { echo "install clang and its libFuzzer (Debian: clang, libclang-rt-dev)" >&2; exit 2; }
mkdir -p "$out"
"$python" tools/mavgen.py --out "$out/dialect"

targets=("${@:2}")
((${#targets[@]})) || targets=(link upload schedule store)
status=0
for target in "${targets[@]}"; do
  clang -std=c11 -O1 -g -Wall -Wextra -Wconversion -Wshadow -Werror -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=all -I firmware/core -I tests/firmware -isystem "$out/dialect/c" -o "$out/fuzz_$target" \
    "tests/fuzz/fuzz_$target.c" tests/firmware/flash.c firmware/core/sm_{link,upload,store,sha256,schedule}.c
  kept=$out/kept_$target log=$out/$target${RUNS:+.short}.log
  mkdir -p "$out/corpus_$target" "$kept"
  "$python" - "tests/fuzz/corpus/$target.txt" "$kept" <<'END'
import pathlib, sys
for number, line in enumerate(pathlib.Path(sys.argv[1]).read_text().split()):
    pathlib.Path(sys.argv[2], f"{number}").write_bytes(bytes.fromhex(line))
END
  if "$out/fuzz_$target" "$limit" -max_len=4096 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$out/crash_${target}_" "$out/corpus_$target" "$kept" 2>"$log"; then
    echo "== $target, $span: nothing found"
    found=no
  else
    echo "== $target: see $log and the inputs $out/crash_${target}_*"
    grep -E 'ERROR|SUMMARY|runtime error' "$log" || true
    status=1 found=yes
  fi
  grep -E '^stat::(number|average|new|peak)|DONE' "$log" || true
  if [[ ${KEEP:-} ]]; then
    rm -rf "$kept.small" && mkdir "$kept.small"
    "$out/fuzz_$target" -set_cover_merge=1 -max_len=512 "$kept.small" "$kept" "$out/corpus_$target" 2>"$out/$target.merge.log"
    "$python" - "tests/fuzz/corpus/$target.txt" "$kept.small" <<'END'
import pathlib, sys
lines = {path.read_bytes().hex() for path in pathlib.Path(sys.argv[2]).iterdir()} - {""}
pathlib.Path(sys.argv[1]).write_text("".join(f"{line}\n" for line in sorted(lines, key=lambda line: (len(line), line))))
END
  fi
  if [[ ! ${RUNS:-} && ! ${FUZZ_OUT:-} && $found == no ]]; then # figures of those that found nothing
    "$python" -m tests.fuzz.figures "$target" "$log" "$seconds" "tests/fuzz/corpus/$target.txt"
  fi
done
exit "$status"
