# Roles on other machines: here hosts that only have a name of their own, entered by a stand-in for ssh.
. "$(dirname "$0")/lakerun.inc"
unshare -u true 2>/dev/null || { echo "skipped: no host names of one's own"; exit 77; }

# As ssh does: options, a host, then one string for that host's shell; the environment does not come along.
cat >rsh.sh <<'S'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec unshare -u env -i "PATH=$PATH" "HOME=/" "LRTEST_MARK=$LRTEST_MARK" "TMPDIR=${TMPDIR:-/tmp}" "OMPI_ALLOW_RUN_AS_ROOT=1" \
  "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" sh -c "hostname $host; exec sh -c \"\$0\"" "$*"
S
chmod +x rsh.sh
cat >remote.sh <<'S'
echo "index $LAKERUN_INDEX attempt $LAKERUN_ATTEMPT on $(hostname) in $(pwd) with $V and $1, CPUs $(sed -n 's/Cpus_allowed_list:.//p' /proc/self/status)"
trap 'echo drained; exit 0' USR1
while :; do sleep 0.05; done
S
cat >job.json <<J
{"workdir": "$scratch", "remote": ["$scratch/rsh.sh", "-oBatchMode=yes", "{host}"], "env": {"V": "it's \"V\""}, "drain_ms": 60000,
 "roles": {"f": {"kind": "process", "count": 3, "command": ["sh", "remote.sh", "a  b"], "hosts": ["nodeA", "localhost"], "cpus": "0",
   "drain_signal": "USR1", "restart": {"backoff_ms": 1}}}}
J
here=$(hostname)
up() { [ "$(grep -sc ' | index .* attempt ' out.log)" -ge "$1" ]; }
launch job.json
wait_for up 3
expect_has "^f.0 | index 0 attempt 0 on nodeA in $scratch with it's \"V\" and a  b, CPUs 0\$" out.log
expect_has "^f.1 | index 1 attempt 0 on $here in $scratch with it's \"V\" and a  b, CPUs 0\$" out.log
expect_has "^f.2 | index 2 attempt 0 on nodeA in $scratch" out.log

# A remote process that dies starts again.
kill -KILL "$(pgrep -f "^sh remote.sh a" | while read -r p; do tr '\0' '\n' <"/proc/$p/environ" | grep -qx LAKERUN_INDEX=2 && echo "$p"; done)"
wait_for has "^f.2 | index 2 attempt 1 on nodeA" out.log
expect_has '^lakerun: f.2: exit 137 after' err.log
# The drain signal reaches them.
kill -TERM $pid
finish
expect_code 0 "$code" "remote drain"
[ "$(grep -c ' | drained$' out.log)" = 3 ] || die "not all drained"
none_marked || die "left running: $(marked)"

# Deaf ones are killed; and when lakerun itself is killed, the end of the connection ends them.
sed -i "s/trap .*/trap '' USR1 TERM/" remote.sh
sed -i 's/"drain_ms": 60000/"drain_ms": 100, "term_ms": 100/' job.json
launch job.json
wait_for up 3
kill -TERM $pid
finish
expect_code 143 "$code" "deaf remote"
none_marked || die "left running: $(marked)"
launch job.json
wait_for up 3
kill -KILL $pid
wait $pid || true
wait_for none_marked

# A CPU that the other machine does not have, and a command that it does not have.
printf '{"remote":["%s","{host}"],"roles":{"f":{"kind":"process","command":["no-such-program"],"hosts":["nodeA"]}}}' "$scratch/rsh.sh" >job.json
run job.json
expect_code 127 "$code" "no remote program"
expect_has "^f.0 ! lakerun: cannot run 'no-such-program'" err.log

# mpirun over several hosts, with the variables of the job on each.
need_mpi
cat >job.json <<J
{"env": {"V": "it's"}, "roles": {"t": {"kind": "mpi", "count": 4, "hosts": ["nodeA:2", "nodeB:2"], "restart": {"backoff_ms": 1},
  "mpirun_args": ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", "$scratch/rsh.sh"],
  "command": ["sh", "-c", "echo rank \$OMPI_COMM_WORLD_RANK attempt \$LAKERUN_ATTEMPT on \$(hostname) with \$V; until [ -e $scratch/go ]; do [ -e $scratch/die-\$OMPI_COMM_WORLD_RANK-\$LAKERUN_ATTEMPT ] && kill -KILL \$\$; sleep 0.05; done"]}}}
J
launch job.json
for r in 0 1; do wait_for has "^t.$r | rank $r attempt 0 on nodeA with it's\$" out.log; done
for r in 2 3; do wait_for has "^t.$r | rank $r attempt 0 on nodeB with it's\$" out.log; done
touch die-3-0
for r in 0 1 2 3; do wait_for has "^t.$r | rank $r attempt 1 on node" out.log; done
touch go
finish
expect_code 0 "$code" "two hosts"
expect_has '^lakerun: t  *2  *1  *1  finished  *t.3 exit 137, attempt 0' err.log
none_marked || die "left running: $(marked)"
rm go
launch job.json
for r in 0 1 2 3; do wait_for has "^t.$r | rank $r attempt 0 on node" out.log; done
kill -KILL $pid
wait $pid || true
wait_for none_marked
