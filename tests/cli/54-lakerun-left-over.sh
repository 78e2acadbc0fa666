# Nothing is left running: not after a normal end, nor a signal, nor SIGKILL on lakerun or on one of its keepers; not
# even what put itself into a session of its own and ignores every signal.
. "$(dirname "$0")/lakerun.inc"

cat >tree.sh <<'S'
# A command with a child, a grandchild in its own session, and an orphan, all deaf.
trap '' TERM HUP INT USR1
sh -c 'setsid sh -c "sleep 1000 & sleep 1000" & sleep 1000' &
(setsid sleep 1000 &)
echo up
[ "$1" = end ] && exit 0
while :; do sleep 0.05; done
S
job() { printf '{"drain_ms":100,"term_ms":100,"roles":{"a":{"kind":"process","count":2,"command":["sh","tree.sh","%s"]}}}' "$1" >job.json; }
up() { [ "$(grep -sc ' | up$' out.log)" = 2 ] && [ "$(marked | wc -l)" -ge 10 ]; }

# A normal end: the command is over, so what it left behind goes too.
job end
run job.json
expect_code 0 "$code" "normal end"
none_marked || die "left after a normal end: $(marked)"

job stay
launch job.json
wait_for up
kill -TERM $pid
finish
expect_code 143 "$code" "SIGTERM"
none_marked || die "left after SIGTERM: $(marked)"

launch job.json
wait_for up
kill -KILL $pid
finish
expect_code 137 "$code" "SIGKILL on lakerun"
wait_for none_marked

# A killed keeper takes its command with it; lakerun ends the rest and starts the unit again.
launch job.json
wait_for up
keeper=$(sed 's/.*) . \([0-9]*\).*/\1/' "/proc/$(pid_of 'a\.0')/stat")
before=$(marked)
kill -KILL "$keeper"
wait_for has '^lakerun: a.0: started again' err.log
expect_has '^lakerun: a.0: signal KILL after' err.log
gone() { for p in $old; do [ ! -d "/proc/$p" ] || grep -q ') Z ' "/proc/$p/stat" 2>/dev/null || return 1; done; }
# All of the old a.0 is gone: what is left of `before` belongs to a.1 or is lakerun.
one=$(pid_of 'a\.1')
session_of() { sed 's/.*) . [0-9]* [0-9]* \([0-9]*\).*/\1/' "/proc/$1/stat" 2>/dev/null || true; }
old="$keeper"
for p in $before; do [ "$(session_of "$p")" = "$keeper" ] && old="$old $p"; done
wait_for gone
[ "$one" = "$(pid_of 'a\.1')" ] && [ -d "/proc/$one" ] || die "the other unit was touched"
kill -TERM $pid
finish
none_marked || die "left after the keeper: $(marked)"

# Orphans that never stop writing hold up nothing: neither the restart nor the memory.
cat >loud.sh <<'S'
[ "$LAKERUN_ATTEMPT" = 0 ] || exec sleep 1000
for _ in $(seq 1 16); do yes '' & done
wait
S
printf '{"drain_ms":100,"roles":{"loud":{"kind":"process","command":["sh","loud.sh"],"restart":{"backoff_ms":1}}}}' >job.json
launch job.json
wait_for has '^loud.0 | $' out.log
kill -KILL "$(sed 's/.*) . \([0-9]*\).*/\1/' "/proc/$(pid_of 'loud\.0')/stat")"
wait_for has '^lakerun: loud.0: started again' err.log
peak_kb=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB$/\1/p' "/proc/$pid/status")
[ "$peak_kb" -lt 50000 ] || die "lakerun grew to $peak_kb kB"
kill -TERM $pid
finish
none_marked || die "left after the loud ones: $(marked)"

# A child that was there before lakerun, by an exec, is none of its business.
printf '{"roles":{"a":{"kind":"process","command":["sh","-c","[ $LAKERUN_ATTEMPT = 1 ]"],"restart":{"backoff_ms":1}}}}' >job.json
bash -c 'sleep 1000 & echo $! >before; exec "$LAKE_BIN/lakerun" job.json' >out.log 2>err.log || die "exit $?"
kill -0 "$(cat before)" || die "lakerun ended a process that it did not start"
kill -KILL "$(cat before)"
