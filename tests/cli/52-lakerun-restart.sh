# Restarts: by index, with the attempt told; limits, final codes, policies; and what the report says of it.
. "$(dirname "$0")/lakerun.inc"

# A producer killed by SIGKILL comes back as itself while the others and the deciding role go on undisturbed.
cat >job.json <<'J'
{"done_when": "main", "roles": {
  "feeder": {"kind": "process", "count": 2, "command": ["sh", "-c", "echo up $LAKERUN_INDEX {index} {count} $LAKERUN_COUNT $LAKERUN_ROLE $LAKERUN_JOB $LAKERUN_ATTEMPT {attempt}; exec sleep 1000"], "restart": {"backoff_ms": 10}},
  "main": {"kind": "process", "command": ["sh", "-c", "echo up; until [ -e go ]; do sleep 0.05; done; echo end $LAKERUN_ATTEMPT"]}}}
J
launch --json sum.json job.json
wait_for has '^main.0 | up$' out.log
wait_for has '^feeder.0 | up 0 0 2 2 feeder job 0 0$' out.log
wait_for has '^feeder.1 | up 1 1 2 2 feeder job 0 0$' out.log
kill -KILL "$(pid_of 'feeder\.1')"
wait_for has '^feeder.1 | up 1 1 2 2 feeder job 1 1$' out.log
touch go
finish
expect_code 0 "$code" "a killed producer"
expect_has '^main.0 | end 0$' out.log
expect_not '^feeder.0 | up .* 1$' out.log
expect_has '^lakerun: feeder.1: signal KILL after .*; starts again in 0.0 s, restart 1 of 10$' err.log
expect_has '^lakerun: feeder .* 3 .* 1 .* 1  not drained  *feeder.1 signal KILL, attempt 0, after ' err.log
expect_has '^lakerun: main .* 1 .* 0 .* 0  finished  *-$' err.log
python3 - <<'P' || die "summary"
import json
s = json.load(open("sum.json"))
f = s["roles"]["feeder"]
assert s["exit_code"] == 0 and s["reason"] == "main finished" and s["job"] == "job", s
assert (f["started"], f["restarts"], f["failures"]) == (3, 1, 1), f
e = f["first_failure"]
assert (e["index"], e["attempt"], e["signal"], e["exit_code"], e["code"], e["rank"]) == (1, 0, "KILL", None, 137, None), e
assert [u["attempt"] for u in f["units"]] == [0, 1], f
assert s["roles"]["main"]["first_failure"] is None and s["roles"]["main"]["state"] == "finished"
P
none_marked || die "left running"

# The limit counts failures in a row; the job ends with the first code of the row, and the others are drained.
cat >job.json <<'J'
{"roles": {
  "bad": {"kind": "process", "command": ["sh", "-c", "echo try $LAKERUN_ATTEMPT; [ $LAKERUN_ATTEMPT = 0 ] && exit 3; exit 5"], "restart": {"limit": 2, "backoff_ms": 1}},
  "good": {"kind": "process", "command": ["sh", "-c", "trap 'echo drained; exit 0' TERM; echo up; while :; do sleep 0.05; done"]}}}
J
run job.json
expect_code 3 "$code" "the limit"
[ "$(grep -c '^bad.0 | try' out.log)" = 3 ] || die "limit 2 must give 3 attempts"
expect_has '^lakerun: bad.0: exit 5 after .*; no restart is left of 2 in a row$' err.log
expect_has '^lakerun: bad  .* failed  *bad.0 exit 3, attempt 0' err.log

# An attempt that lived healthy_ms ends the row: with 0 every attempt did, so the limit of 1 is never reached.
cat >job.json <<'J'
{"roles": {"x": {"kind": "process", "command": ["sh", "-c", "[ $LAKERUN_ATTEMPT -ge 5 ] || exit 1"], "restart": {"limit": 1, "backoff_ms": 1, "healthy_ms": 0}}}}
J
run job.json
expect_code 0 "$code" "healthy_ms"
expect_has '^lakerun: x  .* 6 .* 5 .* 5  finished' err.log

# Codes that a retry cannot help end a role at once; a list of one's own replaces them.
for c in 2 4 6 8 9; do
  printf '{"roles":{"x":{"kind":"process","command":["sh","-c","exit %s"],"restart":{"backoff_ms":1}}}}' $c >job.json
  run job.json
  expect_code $c "$code" "final code"
  expect_has "^lakerun: x.0: exit $c after .*; a retry cannot help that code (restart.fatal)\$" err.log
  expect_has '^lakerun: x  *1  *0  *1  failed' err.log
done
printf '{"roles":{"x":{"kind":"process","command":["sh","-c","[ $LAKERUN_ATTEMPT = 1 ] || exit 4"],"restart":{"backoff_ms":1,"fatal":[7]}}}}' >job.json
run job.json
expect_code 0 "$code" "own list of final codes"

# A signal is 128 + its number; never means never; a role that is not required only gets reported.
printf '{"roles":{"x":{"kind":"process","command":["sh","-c","kill -SEGV $$"],"restart":{"policy":"never"}}}}' >job.json
run job.json
expect_code 139 "$code" "signal"
expect_has '^lakerun: x.0: signal SEGV after .*; its restart policy is never$' err.log
cat >job.json <<'J'
{"done_when": "main", "roles": {
  "extra": {"kind": "process", "required": false, "command": ["sh", "-c", "exit 1"], "restart": {"policy": "never"}},
  "main": {"kind": "process", "command": ["sh", "-c", "until grep -q never err.log; do sleep 0.05; done"]}}}
J
run job.json
expect_code 0 "$code" "not required"
expect_has '^lakerun: extra .* failed  *extra.0 exit 1' err.log

# always: also exit 0 starts again.
cat >job.json <<'J'
{"done_when": "main", "roles": {
  "extra": {"kind": "process", "command": ["sh", "-c", "[ $LAKERUN_ATTEMPT -lt 3 ] || touch fourth"], "restart": {"policy": "always", "backoff_ms": 1}},
  "main": {"kind": "process", "command": ["sh", "-c", "until [ -e fourth ]; do sleep 0.05; done"]}}}
J
run job.json
expect_code 0 "$code" "always"

# One unit's long backoff holds up no other's restart.
cat >job.json <<'J'
{"done_when": "fast", "roles": {
  "slow": {"kind": "process", "command": ["sh", "-c", "exit 1"], "restart": {"backoff_ms": 3600000, "backoff_max_ms": 3600000}},
  "fast": {"kind": "process", "command": ["sh", "-c", "[ $LAKERUN_ATTEMPT -ge 5 ] || exit 1; until grep -q slow.0..exit err.log; do sleep 0.05; done"], "restart": {"backoff_ms": 1}}}}
J
run job.json
expect_code 0 "$code" "backoff"
expect_has '^lakerun: slow  *1  *0  *1  stopped' err.log
expect_has '^lakerun: fast  *6  *5  *5  finished' err.log

# The job's own deadline is exit code 7.
printf '{"deadline_ms":100,"roles":{"x":{"kind":"process","command":["sleep","1000"]}}}' >job.json
run job.json
expect_code 7 "$code" "deadline"
expect_has '^lakerun: the deadline of 100 ms has passed$' err.log

# A program that vanished, and a folder as a program: the shell's codes.
printf '{"roles":{"x":{"kind":"process","command":["./{role}-none"]}}}' >job.json
run job.json
expect_code 127 "$code" "vanished program"
expect_has "^x.0 ! lakerun: cannot run './x-none': No such file or directory\$" err.log

# The CPU set and a clean start: no signal blocked or ignored, only three descriptors, its own group.
cat >job.json <<'J'
{"roles": {"x": {"kind": "process", "cpus": "0", "command": ["sh", "-c", "grep -E '^(SigBlk|SigIgn|Cpus_allowed_list)' /proc/self/status; ls /proc/$$/fd; ulimit -n; read a b c d pgrp rest </proc/$$/stat; [ $pgrp = $$ ] && echo group"]}}}
J
ulimit -S -n 200
run job.json
expect_code 0 "$code" "clean start"
expect_has 'SigBlk:.0000000000000000$' out.log
expect_has 'SigIgn:.0000000000000000$' out.log
expect_has 'Cpus_allowed_list:.0$' out.log
[ "$(grep -c '^x.0 | [0-9]$' out.log)" = 3 ] || die "descriptors leak"
expect_has '^x.0 | 200$' out.log
expect_has '^x.0 | group$' out.log
