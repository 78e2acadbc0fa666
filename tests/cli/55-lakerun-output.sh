# Output: whole prefixed lines, in order, however they are written; and a reader that leaves or sleeps.
. "$(dirname "$0")/lakerun.inc"

cat >job.json <<'J'
{"roles": {"a": {"kind": "process", "command": ["sh", "-c", "printf 'one\\ntwo'; sleep 0.1; printf ' more\\n\\n'; echo oops >&2; printf 'dos\\r\\n10%%\\r20%%\\rend'"]}}}
J
run job.json
expect_code 0 "$code" output
printf 'a.0 | one\na.0 | two more\na.0 | \na.0 | dos\na.0 | 10%%\na.0 | 20%%\na.0 | end\n' >want
diff want out.log || die "lines"
expect_has '^a.0 ! oops$' err.log
expect_not "$(printf '\033')" out.log

# A very long line comes in bounded pieces that say so, and none of it is lost.
cat >job.json <<'J'
{"roles": {"a": {"kind": "process", "command": ["sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x; echo; echo after"]}}}
J
run job.json
expect_code 0 "$code" long
[ "$(grep -c '^a.0 + x' out.log)" = 6 ] && [ "$(grep -c '^a.0 | x' out.log)" = 1 ] || die "pieces"
[ "$(tr -dc x <out.log | wc -c)" = 100000 ] || die "bytes were lost"
expect_has '^a.0 | after$' out.log
[ "$(awk '{ if (length > m) m = length } END { print m }' out.log)" -le 16400 ] || die "unbounded"

# Lines of many writers never mix, each writer's own order is kept, and all of it arrives.
printf '{"roles":{"w":{"kind":"process","count":4,"command":["sh","-c","i=0; while [ $i -lt 3000 ]; do echo line $i of {index} end; i=$((i+1)); done"]}}}' >job.json
run job.json
expect_code 0 "$code" many
[ "$(wc -l <out.log)" = 12000 ] || die "lines were lost"
for i in 0 1 2 3; do
  grep "^w.$i " out.log >mine
  seq 0 2999 | sed "s/.*/w.$i | line & of $i end/" >want
  cmp -s want mine || die "w.$i is not whole or not in order"
done

# A reader that is gone does not end the job; one that sleeps does not stop the supervision.
printf '{"roles":{"a":{"kind":"process","command":["sh","-c","seq 1 20000; touch wrote"]}}}' >job.json
code=0
{ LRTEST_MARK=$mark "$LAKE_BIN/lakerun" job.json 2>err.log || echo $? >code; } | head -n 1 >out.log
[ ! -e code ] && [ -e wrote ] || die "a reader that left ended the job"
cat >job.json <<'J'
{"drain_ms": 100, "done_when": "quiet", "roles": {
  "loud": {"kind": "process", "command": ["sh", "-c", "trap 'exit 0' TERM; n=0; while :; do seq 1 100000; n=$((n+1)); touch round-$n; done"]},
  "quiet": {"kind": "process", "command": ["sh", "-c", "[ $LAKERUN_ATTEMPT -ge 3 ] && exec touch quiet-done; sleep 0.2; exit 1"], "restart": {"backoff_ms": 1}}}}
J
mkfifo pipe
sleep 1000 <pipe &
reader=$!
code=0
LRTEST_MARK=$mark timeout 120 "$LAKE_BIN/lakerun" job.json >pipe 2>err.log || code=$?
kill -KILL $reader
[ ! -e round-9 ] || die "the queue is not bounded"
[ -e quiet-done ] || die "a sleeping reader stopped the supervision"
expect_code 0 "$code" "sleeping reader"
none_marked || die "left running"

# Colours for a terminal only, and not when NO_COLOR is set.
if ! script -qec true /dev/null </dev/null >out.log 2>&1; then
  echo "not tested: colours (script finds no terminal; is /dev/pts mounted?)"
  exit 0
fi
printf '{"roles":{"a":{"kind":"process","command":["echo","hi"]}}}' >job.json
script -qec "$LAKE_BIN/lakerun job.json" /dev/null </dev/null >out.log
expect_has "^$(printf '\033')\[36ma.0 |$(printf '\033')\[0m hi" out.log
NO_COLOR=1 script -qec "$LAKE_BIN/lakerun job.json" /dev/null </dev/null >out.log
expect_has '^a.0 | hi' out.log
