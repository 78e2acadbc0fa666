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

# The servers that the chosen tests need run before CTest and are stopped whatever happens; one that cannot be had is
# told to the tests. Here they are scripts that keep a diary.
mkdir -p "$scratch/tests/servers"
for name in rgw azurite gcs; do
  cat >"$scratch/tests/servers/$name.sh" <<'S'
server=$(basename "$0" .sh)
echo "$1 $server" >>"$DIARY"
[ "$1" = start ] || exit 0
[ "$server" != gcs ] || { echo "gcs: there is no go here" >&2; exit 1; }
mkdir -p "$2"
echo "export LAKE_TEST_${server}_URL=here" >"$2/env"
echo "http://$server"
S
done
cat >"$scratch/build/dev/CTestTestfile.cmake" <<C
add_test(s3 sh -c "echo test >>$scratch/diary; test \"\$LAKE_TEST_rgw_URL\" = here")
set_tests_properties(s3 PROPERTIES LABELS "store;needs-rgw")
add_test(gcs sh -c "echo \"\$LAKE_TEST_WITHOUT_gcs\"; exit 77")
set_tests_properties(gcs PROPERTIES LABELS "other;needs-gcs;needs-azurite" SKIP_RETURN_CODE 77)
add_test(bad sh -c "test -z \"\$LAKE_TEST_rgw_URL\$LAKE_TEST_azurite_URL\"; exit 1")
set_tests_properties(bad PROPERTIES LABELS bad)
add_test(hang sh -c "echo test >>$scratch/diary; echo \$\$ >$scratch/pid; exec sleep 300")
set_tests_properties(hang PROPERTIES LABELS "hang;needs-rgw")
C
export DIARY=$scratch/diary

diary() { # line...: what was written since, in order
  { [ $# -eq 0 ] || printf '%s\n' "$@"; } | diff - "$scratch/diary" || { echo "the diary of the servers is another"; cat "$scratch/log"; exit 1; }
  : >"$scratch/diary"
}
: >"$scratch/diary"
suite 0 -L store
diary 'start rgw' test 'stop rgw'
suite "not 0" -L bad
diary
suite "not 0" -L 'bad|store'
diary 'start rgw' test 'stop rgw'
suite 0 -L other
sort -o "$scratch/diary" "$scratch/diary"
diary 'start azurite' 'start gcs' 'stop azurite' 'stop gcs'
grep -q 'NO SERVER, .*: gcs: there is no go here' "$scratch/log" || { cat "$scratch/log"; exit 1; }
grep -q 'gcs.*Skipped' "$scratch/log" || { cat "$scratch/log"; exit 1; }

for signal in TERM INT; do
  rm -f "$scratch/pid"
  # A job in the background begins with SIGINT ignored, which a shell cannot undo.
  PATH="$scratch/bin:$PATH" LAKE_NO_INSTALL=1 \
    env --default-signal=INT sh "$scratch/tests/run.sh" -L hang >"$scratch/log" 2>&1 &
  pid=$!
  until [ -s "$scratch/pid" ] && grep -q test "$scratch/diary"; do
    kill -0 $pid 2>/dev/null || { cat "$scratch/log"; exit 1; }
    sleep 0.1
  done
  kill -$signal $pid
  code=0
  wait $pid || code=$?
  [ $code -gt 128 ] || { echo "exit code $code after SIG$signal"; exit 1; }
  diary 'start rgw' test 'stop rgw'
  while grep -q . "/proc/$(cat "$scratch/pid")/cmdline" 2>/dev/null; do sleep 0.1; done # CTest's time limit ends it
done

# What a server's folder keeps of keys: DIR/env is its owner's only, and nothing is left once the server was stopped; of a
# folder that no server made nothing is taken.
(
  umask 022
  server=none
  . "$LAKE_SOURCE_DIR/tests/servers/server.inc"
  for made in yes no; do
    use_folder "$scratch/server-$made"
    mkdir -p "$dir/run" "$dir/tls" "$dir/mon" "$dir/osd"
    [ $made = no ] || : >"$dir/.lake-test-server"
    echo key | tee "$dir/keyring" "$dir/curl.conf" "$dir/tls/ca.key" "$dir/mon/keyring" "$dir/start.log" >/dev/null
    setting SECRET "a b" | keep_env
    [ "$(stat -c %a "$dir/env")" = 600 ] || { echo "DIR/env is of mode $(stat -c %a "$dir/env")"; exit 1; }
    [ "$(. "$dir/env" && echo "$SECRET")" = "a b" ] || { echo "DIR/env: $(cat "$dir/env")"; exit 1; }
    stop_processes
    left=$(cd "$dir" && find . -type f | sort | tr '\n' ' ')
    [ $made = yes ] && want="./.lake-test-server ./start.log " ||
      want="./curl.conf ./keyring ./mon/keyring ./start.log ./tls/ca.key "
    [ "$left" = "$want" ] || { echo "left of a server ($made): $left"; exit 1; }
  done
)
