#!/bin/sh
# A compiler that optimizes less than it is told to, for code that runs for a moment: lightly.sh gcc -O3 ...
for word; do
  shift
  [ "$word" = -O3 ] && word=-O1
  set -- "$@" "$word"
done
exec "$@"
