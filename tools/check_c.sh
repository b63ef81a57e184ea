#!/usr/bin/env bash
# Compiles the C runtime with every warning an error, against samples of the model.h it is generated with:
# NAME.c against each tests/data/sample_model/NAME/*/model.h, since sizes of zero and options change what is compiled.
# Arguments: the files to check; without any, the whole runtime.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob

# What passed is not checked again: a stamp is named by the contents of the file, of what it includes, and of the tools and this script.
stamps=build/check
mkdir -p "$stamps"
tools=$({ gcc --version; cppcheck --version; cat tools/check_c.sh; } | sha256sum)

files=("$@")
(($#)) || files=(host/stepmap/graph/runtime/*.c)
((${#files[@]})) || echo "no C files to check"

status=0
for file in "${files[@]}"; do
  samples=(tests/data/sample_model/"$(basename "$file" .c)"/*/)
  if ! grep -q '#include "model.h"' "$file"; then
    samples=(.)
  elif ((${#samples[@]} == 0)); then
    echo "$file: cannot be checked without a sample of its model.h; see tools/sample_model.py" >&2
    status=1
  fi
  for sample in "${samples[@]}"; do
    places=(-I "$sample" -I host/stepmap/graph/runtime) # a model.h includes what its functions compute with
    stamp=$stamps/$({ echo "$tools"; gcc -MM "${places[@]}" "$file" | sed 's/^[^:]*://; s/\\$//' | xargs sha256sum; } | sha256sum | cut -c -64)
    [[ -e $stamp ]] && continue
    good=0
    # Optimized, since that is when gcc sees values that are never set and indices out of bounds.
    gcc -std=c11 -O2 -Wall -Wextra -Wconversion -Wshadow -Werror "${places[@]}" -c "$file" -o /dev/null || good=1
    # A model's sizes are constants, so conditions on them are always known; a definition leaves the sample's alone.
    cppcheck --quiet --std=c11 --enable=warning,style,performance,portability --inline-suppr --error-exitcode=1 \
      --suppress=missingIncludeSystem --suppress=toomanyconfigs -D__SSE2__ --suppress=knownConditionTrueFalse "${places[@]}" "$file" || good=1
    if ((good == 0)); then touch "$stamp"; else status=1; fi
  done
done
exit "$status"
