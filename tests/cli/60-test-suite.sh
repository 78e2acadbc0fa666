# tests/run.sh ends with CTest's exit code, and a label that no test has is an error rather than a suite that passed.
# Here in a tree of its own, with nothing to build.
set -eu
: "${LAKE_SOURCE_DIR:?run this by ctest}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/tests" "$scratch/launcher" "$scratch/build/dev" "$scratch/bin"
cp "$LAKE_SOURCE_DIR/tests/run.sh" "$scratch/tests"
cp "$LAKE_SOURCE_DIR/launcher/debian-packages.sh" "$scratch/launcher"
printf '#!/bin/sh\n' >"$scratch/bin/cmake"
chmod +x "$scratch/bin/cmake"
cat >"$scratch/build/dev/CTestTestfile.cmake" <<'C'
add_test(good true)
set_tests_properties(good PROPERTIES LABELS good)
add_test(bad false)
set_tests_properties(bad PROPERTIES LABELS bad)
C

suite() { # expected exit code: 0, or "not 0"; arguments
  want=$1 code=0
  shift
  PATH="$scratch/bin:$PATH" LAKE_NO_INSTALL=1 sh "$scratch/tests/run.sh" "$@" >"$scratch/log" 2>&1 || code=$?
  if [ "$code" != 0 ]; then code="not 0"; fi
  [ "$code" = "$want" ] || { echo "tests/run.sh $*: exit code $code, wanted $want"; cat "$scratch/log"; exit 1; }
}
suite 0 -L good
suite "not 0" -L bad
suite "not 0" -L 'good|bad'
suite "not 0" -L no-such-label
grep -q 'No tests were found' "$scratch/log" || { cat "$scratch/log"; exit 1; }
