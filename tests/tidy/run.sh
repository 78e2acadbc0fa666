#!/bin/bash
# tests/run.sh -L with a label that no test has must fail: a mistyped label would look like a pass.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/tree/tests" "$scratch/tree/launcher" "$scratch/tree/build/dev" "$scratch/bin"
cp "$LAKE_SOURCE_DIR/tests/run.sh" "$scratch/tree/tests/"
cp "$LAKE_SOURCE_DIR/launcher/debian-packages.sh" "$scratch/tree/launcher/"
printf '#!/bin/sh\nexit 0\n' >"$scratch/bin/cmake" # nothing is built, so there is no test at all
chmod +x "$scratch/bin/cmake"
code=0
PATH=$scratch/bin:$PATH LAKE_NO_INSTALL=1 sh "$scratch/tree/tests/run.sh" -L nolabel >"$scratch/said" 2>&1 || code=$?
if [ "$code" -eq 0 ] || ! grep -q 'No tests were found' "$scratch/said"; then
  echo "exit $code:"
  cat "$scratch/said"
  exit 1
fi
