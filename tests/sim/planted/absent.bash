#!/bin/bash
# The libraries that are shipped know nothing of planted bugs: bash absent.bash LIBRARY... PLANTED_LIBRARY. The last one
# is the test build, where the same search must find the switch; else it would prove nothing.
set -eu
count() { nm -A "$1" 2>/dev/null | grep -c 'lki_planted\|LKI_PLANT' || true; }
text() { grep -ac 'lki_planted\|LKI_PLANT' "$1" || true; }
while [ $# -gt 1 ]; do
  if [ "$(count "$1")" != 0 ] || [ "$(text "$1")" != 0 ]; then
    echo "$1 holds a trace of planted bugs" >&2
    exit 1
  fi
  shift
done
[ "$(count "$1")" != 0 ] || { echo "$1 should hold planted bugs" >&2; exit 1; }
