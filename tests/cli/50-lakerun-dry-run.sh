# --dry-run prints the exact commands and starts nothing.
. "$(dirname "$0")/lakerun.inc"

cat >job.json <<'J'
{
  "name": "demo",
  "env": {"CORPUS": "/data/it's here"},
  "workdir": "/no such folder",
  "mpirun": "/opt/mpi/bin/mpirun",
  "remote": ["ssh", "-oBatchMode=yes", "{host}"],
  "remote_lakerun": "/opt/lake/bin/lakerun",
  "roles": {
    "feeder": {"kind": "process", "command": ["touch", "{role}-{index}-{count}-{attempt}", "{{job} {job}"], "count": 3,
               "hosts": ["localhost", "nodeA"], "cpus": "0,2-900", "env": {"X": "1"}},
    "trainer": {"kind": "mpi", "command": ["train", "--attempt", "{attempt}", "a;b", ""], "count": 4,
                "hosts": ["nodeA:2", "nodeB:2"], "cpus": "0-1", "mpirun_args": ["--mca", "btl", "self,tcp"]}
  }
}
J
cat >want <<'W'
# feeder.0 on localhost, CPUs 0,2-900
cd '/no such folder' && env -u LAKERUN_OLD 'CORPUS=/data/it'\''s here' X=1 LAKERUN_JOB=demo LAKERUN_ROLE=feeder LAKERUN_INDEX=0 LAKERUN_COUNT=3 LAKERUN_ATTEMPT=0 taskset -c 0,2-900 touch feeder-0-3-0 '{job} demo'
# feeder.1 on nodeA, CPUs 0,2-900
env -u LAKERUN_OLD ssh -oBatchMode=yes nodeA 'exec env '\''CORPUS=/data/it'\''\'\'''\''s here'\'' X=1 LAKERUN_JOB=demo LAKERUN_ROLE=feeder LAKERUN_INDEX=1 LAKERUN_COUNT=3 LAKERUN_ATTEMPT=0 /opt/lake/bin/lakerun --keep --keep-signal=TERM --keep-term-ms=3000 '\''--keep-workdir=/no such folder'\'' --keep-cpus=0,2-900 -- touch feeder-1-3-0 '\''{job} demo'\'''
# feeder.2 on localhost, CPUs 0,2-900
cd '/no such folder' && env -u LAKERUN_OLD 'CORPUS=/data/it'\''s here' X=1 LAKERUN_JOB=demo LAKERUN_ROLE=feeder LAKERUN_INDEX=2 LAKERUN_COUNT=3 LAKERUN_ATTEMPT=0 taskset -c 0,2-900 touch feeder-2-3-0 '{job} demo'
# trainer: 4 ranks on nodeA:2,nodeB:2, CPUs 0-1
cd '/no such folder' && env -u LAKERUN_OLD 'CORPUS=/data/it'\''s here' LAKERUN_JOB=demo LAKERUN_ROLE=trainer LAKERUN_COUNT=4 LAKERUN_ATTEMPT=0 /opt/mpi/bin/mpirun -n 4 --oversubscribe --bind-to none --tag-output --cpu-set 0-1 --host nodeA:2,nodeB:2 --mca btl self,tcp -x CORPUS -x LAKERUN_JOB -x LAKERUN_ROLE -x LAKERUN_COUNT -x LAKERUN_ATTEMPT train --attempt 0 'a;b' ''
W
env -i PATH="$PATH" LAKERUN_OLD=1 "$LAKE_BIN/lakerun" --dry-run job.json >got 2>err.log || die "exit $?"
# As root mpirun needs leave to run; for others it must not be given.
sed -i 's/ OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1//' got
diff want got || die "the commands differ"
[ ! -s err.log ] || die "text on stderr"

# A site's MCA settings stay outside of a rank, and go inside of one; so does what makes mpirun refuse to start.
line() { grep -v '^#' | sed 's/^.*env //; s/ LAKERUN_JOB.*//'; }
cat >one.json <<'J'
{"roles": {"t": {"kind": "process", "command": ["true"]}}}
J
got=$(env -i PATH="$PATH" OMPI_MCA_btl=self PMIX_MCA_x=1 OMPI_X=1 PMI_FD=3 ORTE_Y=1 "$LAKE_BIN/lakerun" -n one.json | line)
[ "$got" = "-u OMPI_X -u PMI_FD -u ORTE_Y" ] || die "outside of a rank: $got"
got=$(env -i PATH="$PATH" OMPI_MCA_btl=self PMIX_RANK=0 "$LAKE_BIN/lakerun" -n one.json | line)
[ "$got" = "-u OMPI_MCA_btl -u PMIX_RANK" ] || die "inside of a rank: $got"

# What is printed is what a shell runs: the arguments come back as they are in the job file.
cat >odd.json <<'J'
{"env": {"V": "a 'b' \"c\" $HOME `id` \\"}, "roles": {"t": {"kind": "process", "command":
 ["sh", "-c", "printf '%s\\n' \"$V\" \"$@\"", "sh", "", "~", "*", "a b", "it's", "$HOME", "`id`", "\\", "!x", "#", "-n", "é", "{{a}"]}}}
J
"$LAKE_BIN/lakerun" -n odd.json | sh >shell
"$LAKE_BIN/lakerun" odd.json 2>err.log | sed 's/^t\.0 | //' >direct || die "exit $?"
printf '%s\n' "a 'b' \"c\" \$HOME \`id\` \\" "" "~" "*" "a b" "it's" '$HOME' '`id`' '\' '!x' '#' '-n' 'é' '{a}' >want
diff want shell || die "the shell got other words"
diff want direct || die "lakerun gave other words"

# --set changes counts.
got=$("$LAKE_BIN/lakerun" -n --set t.count=3 one.json | grep -c '^# t\.')
[ "$got" = 3 ] || die "--set gave $got"
