# Trainers as one mpirun: started again together, prefixed per rank, drained, told apart from producers; nothing left.
. "$(dirname "$0")/lakerun.inc"
need_mpi

# One rank dies by SIGKILL: mpirun ends all, and all start again together with the next attempt; a producer that is
# killed meanwhile does not touch them.
cat >rank.sh <<'S'
echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE attempt $LAKERUN_ATTEMPT role $LAKERUN_ROLE count $LAKERUN_COUNT index ${LAKERUN_INDEX-none} x $X"
echo "warn $OMPI_COMM_WORLD_RANK of $LAKERUN_ATTEMPT" >&2
if [ "$LAKERUN_ATTEMPT" = 0 ]; then
  [ "$OMPI_COMM_WORLD_RANK" = 1 ] && { until [ -e die ]; do sleep 0.05; done; kill -KILL $$; }
  exec sleep 1000
fi
until [ -e go ]; do sleep 0.05; done
echo "done $OMPI_COMM_WORLD_RANK"
S
cat >job.json <<'J'
{"env": {"X": "a b"}, "roles": {
  "feeder": {"kind": "process", "count": 2, "command": ["sleep", "1000"], "restart": {"backoff_ms": 10}},
  "trainer": {"kind": "mpi", "count": 3, "command": ["sh", "rank.sh"], "restart": {"backoff_ms": 10}}}}
J
launch --json sum.json job.json
for r in 0 1 2; do wait_for has "^trainer.$r | rank $r of 3 attempt 0 role trainer count 3 index none x a b\$" out.log; done
touch die
for r in 0 1 2; do wait_for has "^trainer.$r | rank $r of 3 attempt 1 role trainer count 3 index none x a b\$" out.log; done
for r in 0 1 2; do wait_for has "^trainer.$r ! warn $r of 1\$" err.log; done
kill -KILL "$(pid_of 'feeder\.1')"
wait_for has '^lakerun: feeder.1: started again' err.log
touch go
finish
expect_code 0 "$code" "trainers"
for r in 0 1 2; do expect_has "^trainer.$r | done $r\$" out.log; done
expect_has '^lakerun: trainer: exit 137, rank 1 first after .*; starts again in 0.0 s, restart 1 of 3$' err.log
expect_has '^lakerun: trainer  *2  *1  *1  finished  *trainer.1 exit 137, attempt 0' err.log
expect_has '^trainer ! mpirun noticed that process rank 1 with PID' err.log
[ "$(grep -c ' attempt ' out.log)" = 6 ] || die "the trainers were touched by a producer's end"
python3 - <<'P' || die "summary"
import json
t = json.load(open("sum.json"))["roles"]["trainer"]
assert (t["kind"], t["count"], t["started"], t["restarts"]) == ("mpi", 3, 2, 1), t
assert (t["first_failure"]["rank"], t["first_failure"]["code"], t["first_failure"]["attempt"]) == (1, 137, 0), t
P
none_marked || die "left running: $(marked)"

# The limit, and the code of the rank that failed.
printf '{"roles":{"t":{"kind":"mpi","count":2,"command":["sh","-c","[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 5; exec sleep 1000"],"restart":{"limit":1,"backoff_ms":1}}}}' >job.json
run job.json
expect_code 5 "$code" "rank's code"
# mpirun names the rank of an exit code most of the time, not always.
expect_has '^lakerun: t  *2  *1  *2  failed  *t\(.1\)* exit 5, attempt 0' err.log
printf '{"roles":{"t":{"kind":"mpi","count":2,"command":["sh","-c","[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 4; exec sleep 1000"],"restart":{"backoff_ms":1}}}}' >job.json
run job.json
expect_code 4 "$code" "final code of a rank"
expect_has '^lakerun: t  *1  *0  *1  failed' err.log

# A preempted job: USR1 reaches every rank, they commit and end with 0, and so does lakerun.
cat >drain.sh <<'S'
trap 'echo "committed $OMPI_COMM_WORLD_RANK"; exit 0' USR1
echo up
while :; do sleep 0.05; done
S
printf '{"drain_ms":60000,"roles":{"t":{"kind":"mpi","count":3,"command":["sh","drain.sh"]}}}' >job.json
up() { [ "$(grep -sc ' | up$' out.log)" = 3 ]; }
for s in TERM USR1; do
  launch job.json
  wait_for up
  kill -$s $pid
  finish
  expect_code 0 "$code" "preempted by $s"
  for r in 0 1 2; do expect_has "^t.$r | committed $r\$" out.log; done
  none_marked || die "left running: $(marked)"
done

# Ranks that listen to nobody; and SIGKILL on lakerun, on mpirun, on a keeper.
printf "trap '' USR1 TERM\necho up \$LAKERUN_ATTEMPT\nwhile :; do sleep 0.05; done\n" >deaf.sh
printf '{"drain_ms":100,"term_ms":2000,"roles":{"t":{"kind":"mpi","count":3,"command":["sh","deaf.sh"],"restart":{"backoff_ms":1}}}}' >job.json
up() { [ "$(grep -sc " | up $1\$" out.log)" = 3 ]; }
launch job.json
wait_for up 0
kill -TERM $pid
finish
expect_code 143 "$code" "deaf ranks"
none_marked || die "left after SIGTERM: $(marked)"
launch job.json
wait_for up 0
kill -KILL $pid
wait $pid || true
wait_for none_marked
launch job.json
wait_for up 0
kill -KILL "$(pid_of t)"
wait_for up 1
[ "$(marked | wc -l)" -le 9 ] || die "the old ranks live on: $(marked | wc -l)"
keeper=$(sed 's/.*) . \([0-9]*\).*/\1/' "/proc/$(pid_of t)/stat")
kill -KILL "$keeper"
wait_for up 2
few() { [ "$(marked | wc -l)" -le 9 ]; }
wait_for few
kill -INT $pid
kill -INT $pid
finish
none_marked || die "left after killed keepers: $(marked)"

# Unfinished lines of several ranks at once stay apart and come out whole.
printf '{"roles":{"t":{"kind":"mpi","count":2,"command":["sh","-c","printf \\"a $OMPI_COMM_WORLD_RANK \\"; sleep 0.3; printf \\"b\\"; sleep 0.3; echo \\" c\\"; printf end"]}}}' >job.json
run job.json
expect_code 0 "$code" partial
for r in 0 1; do
  expect_has "^t.$r | a $r b c\$" out.log
  expect_has "^t.$r | end\$" out.log
done
[ "$(wc -l <out.log)" = 4 ] || die "lines"
printf '{"roles":{"t":{"kind":"mpi","count":2,"command":["sh","-c","i=0; while [ $i -lt 2000 ]; do echo this is line $i of rank $OMPI_COMM_WORLD_RANK and [1,0] no tag; i=$((i+1)); done"]}}}' >job.json
run job.json
expect_code 0 "$code" many
for r in 0 1; do
  grep "^t.$r " out.log >mine
  seq 0 1999 | sed "s/.*/t.$r | this is line & of rank $r and [1,0] no tag/" >want
  cmp -s want mine || die "rank $r is not whole or not in order"
done

# From within a rank of another MPI job, as a batch system may start it.
cat >job.json <<'J'
{"roles": {
  "p": {"kind": "process", "command": ["sh", "-c", "env | grep -c -E '^(OMPI|PMIX|PMI|ORTE)_'; touch counted"]},
  "t": {"kind": "mpi", "count": 2, "command": ["sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE; until [ -e counted ]; do sleep 0.05; done"]}}}
J
# Open MPI gives ranks a terminal, where lakerun would colour.
NO_COLOR=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LRTEST_MARK=$mark mpirun -n 1 --oversubscribe --bind-to none \
  "$LAKE_BIN/lakerun" job.json >out.log 2>err.log </dev/null || die "within a rank: exit $?"
expect_has '^t.0 | rank 0 of 2$' out.log
expect_has '^t.1 | rank 1 of 2$' out.log
expect_has '^p.0 | 0$' out.log
