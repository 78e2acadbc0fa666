# Signals to lakerun: drain, deadline, TERM, deadline, KILL, in that order; exit 0 only if everything drained by itself.
. "$(dirname "$0")/lakerun.inc"

cat >tame.sh <<'S'
trap 'echo got USR1; exit 0' USR1
trap 'echo got TERM; exit 0' TERM
echo up
while :; do sleep 0.05; done
S
cat >stubborn.sh <<'S'
trap 'echo got USR1' USR1
trap 'echo got TERM' TERM
echo up
until [ -e enough ]; do sleep 0.05; done
S
job() {
  printf '{"drain_ms":%s,"term_ms":%s,"roles":{"a":{"kind":"process","count":2,"command":["sh","tame.sh"],"drain_signal":"USR1"},"b":{"kind":"process","command":["sh","%s"],"drain_signal":"USR1"}}}' "$1" "$2" "$3" >job.json
}
no_tame() { [ -z "$(grep -lszx -e "LAKERUN_ROLE=a" /proc/[0-9]*/environ | xargs -r grep -lszx -e "LRTEST_MARK=$mark" 2>/dev/null)" ]; }
up() { [ "$(grep -sc ' | up$' out.log)" = 3 ]; }

# Everything drains: exit 0, whatever asked for it.
for s in TERM INT HUP USR1; do
  job 60000 60000 tame.sh
  launch job.json
  wait_for up
  kill -$s $pid
  finish
  expect_code 0 "$code" "$s"
  expect_has "^lakerun: got SIG$s\$" err.log
  [ "$(grep -c ' | got USR1$' out.log)" = 3 ] || die "drain signal to all"
  expect_not 'got TERM' out.log
  expect_has "^lakerun: job: stopped by SIG$s after .*, exit 0\$" err.log
  none_marked || die "left running"
done

# A child that ignores the drain signal and TERM: the deadlines lead on to KILL, and the code is that of the signal. How
# soon the child hears of the signals is not ours to say, so their order is asserted further below.
printf '{"drain_ms":200,"term_ms":200,"roles":{"b":{"kind":"process","command":["sh","stubborn.sh"],"drain_signal":"USR1"}}}' >job.json
launch --json sum.json job.json
wait_for has '^b.0 | up$' out.log
kill -TERM $pid
finish
expect_code 143 "$code" "stubborn"
[ "$(grep -E '^lakerun: (draining|sending)' err.log | tr '\n' ' ')" = 'lakerun: draining: 1 running lakerun: sending TERM: 1 running lakerun: sending KILL: 1 running ' ] || die "phases"
expect_has '^lakerun: b .* killed ' err.log
grep -q '"state":.*"killed"' sum.json || die "summary"
# What lakerun itself ended is no failure of the role.
expect_has '^lakerun: b  *1  *0  *0  killed  *-$' err.log
none_marked || die "left running"

# Somebody in a hurry: a second SIGINT goes on to TERM, a third to KILL, whatever the deadlines are.
job 3600000 3600000 stubborn.sh
launch job.json
wait_for up
kill -INT $pid
wait_for has '^b.0 | got USR1$' out.log
for i in 0 1; do wait_for has "^a.$i | got USR1\$" out.log; done
wait_for no_tame
kill -TERM $pid # repeated by others, this changes nothing
kill -INT $pid
wait_for has '^b.0 | got TERM$' out.log
expect_not 'sending KILL' err.log
kill -INT $pid
finish
expect_code 130 "$code" "three SIGINT"
expect_has '^lakerun: sending KILL: 1 running$' err.log
[ "$(grep '^b.0 | got' out.log | tr '\n' ' ')" = 'b.0 | got USR1 b.0 | got TERM ' ] || die "order"
expect_has '^lakerun: a .* drained ' err.log
expect_has '^lakerun: b .* killed ' err.log
none_marked || die "left running"

# The state is how a unit ended, not how far the stop had come: somebody else's KILL, and an end by itself.
for end in killed terminated; do
  launch job.json
  wait_for up
  kill -INT $pid
  for i in 0 1; do wait_for has "^a.$i | got USR1\$" out.log; done
  wait_for no_tame
  kill -INT $pid
  wait_for has '^b.0 | got TERM$' out.log
  if [ $end = killed ]; then kill -KILL "$(pid_of 'b\.0')"; else touch enough; fi
  finish
  expect_code 130 "$code" "$end in the TERM phase"
  expect_not 'sending KILL' err.log
  expect_has "^lakerun: b .* $end " err.log
  none_marked || die "left running"
done

# A unit that waits for its restart is not started once the job drains.
printf '{"drain_ms":60000,"roles":{"a":{"kind":"process","command":["sh","tame.sh"]},"b":{"kind":"process","command":["sh","-c","echo once; exit 1"],"restart":{"backoff_ms":3600000,"backoff_max_ms":3600000}}}}' >job.json
launch job.json
wait_for has 'b.0: exit 1 after .* starts again' err.log
wait_for has '^a.0 | up$' out.log
kill -USR1 $pid
finish
expect_code 0 "$code" "waiting unit"
[ "$(grep -c once out.log)" = 1 ] || die "it was started again"
expect_has '^lakerun: b  *1  *0  *1  stopped  *b.0 exit 1' err.log

# When the deciding role is through, the rest is drained, and how it ends does not spoil the exit code.
printf '{"drain_ms":200,"term_ms":200,"done_when":"m","roles":{"b":{"kind":"process","command":["sh","stubborn.sh"]},"m":{"kind":"process","command":["sh","-c","until grep -q up out.log; do sleep 0.05; done"]}}}' >job.json
run job.json
expect_code 0 "$code" "done"
expect_has '^lakerun: job: m finished after .*, exit 0$' err.log
none_marked || die "left running"

# nohup: a SIGHUP that was ignored stays ignored.
job 60000 60000 tame.sh
(trap '' HUP; LRTEST_MARK=$mark exec "$LAKE_BIN/lakerun" job.json) >out.log 2>err.log &
pid=$!
wait_for up
kill -HUP $pid
kill -USR1 $pid
finish
expect_code 0 "$code" "nohup"
expect_has '^lakerun: got SIGUSR1$' err.log
