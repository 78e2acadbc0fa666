# Bad job files and command lines: one line that says what and where, the exit code of its class, nothing started.
. "$(dirname "$0")/lakerun.inc"

bad() { # text of the job, expected error
  printf '%s' "$1" >job.json
  run job.json
  expect_code "${3:-2}" "$code" "$1"
  printf 'lakerun: %s\n' "$2" >want
  diff want err.log || die "other error for $1"
  [ ! -s out.log ] && [ ! -e started ] || die "something was started for $1"
}
role() { printf '{"roles":{"feeder":{%s}}}' "$1"; }
cmd='"kind":"process","command":["touch","started"]'

bad '{"roles"' 'job.json: not valid JSON at line 1 column 8'
bad '[]' 'job.json: must be an object'
bad '{"role":1}' 'job.json: role: unknown member (known here: name, env, workdir, roles, drain_ms, term_ms, deadline_ms, done_when, remote, remote_lakerun, mpirun)'
bad '{}' 'job.json: roles: must be an object of 1 to 64 roles'
bad '{"roles":{}}' 'job.json: roles: must be an object of 1 to 64 roles'
bad '{"name":3,"roles":{}}' 'job.json: name: must be a string'
bad '{"name":"a","name":"b","roles":{}}' 'job.json: name: is there twice; keep one'
bad '{"roles":{"Feeder":{}}}' "job.json: roles.Feeder: a role's name is a lower-case letter, then up to 31 of a-z 0-9 _ -"
bad '{"roles":{"a":[]}}' 'job.json: roles.a: must be an object'
bad "$(role '"command":["x"]')" 'job.json: roles.feeder.kind: is missing; it is process or mpi'
bad "$(role '"kind":"thread","command":["x"]')" 'job.json: roles.feeder.kind: must be one of: process, mpi'
bad "$(role '"kind":"process"')" 'job.json: roles.feeder.command: is missing; give the program and its arguments as an array'
bad "$(role '"kind":"process","command":"touch started"')" 'job.json: roles.feeder.command: must be an array of 1 to 4096 strings'
bad "$(role '"kind":"process","command":["x",7]')" 'job.json: roles.feeder.command: word 1 must be a string'
bad "$(role '"kind":"process","command":["x","{rank}"]')" 'job.json: roles.feeder.command[1]: unknown placeholder {rank}; known here: {job} {role} {count} {attempt} {index}; write {{ for a brace'
bad "$(role '"kind":"mpi","command":["x","{index}"]')" 'job.json: roles.feeder.command[1]: unknown placeholder {index}; known here: {job} {role} {count} {attempt}; write {{ for a brace'
bad "$(role '"kind":"process","command":["x","{index"]')" 'job.json: roles.feeder.command[1]: { without }; write {{ for a brace'
bad "$(role "$cmd"',"count":0')" 'job.json: roles.feeder.count: must be a whole number from 1 to 4096'
bad "$(role "$cmd"',"count":"2"')" 'job.json: roles.feeder.count: must be a whole number from 1 to 4096'
bad "$(role "$cmd"',"count":1.5')" 'job.json: roles.feeder.count: must be a whole number from 1 to 4096'
bad "$(role "$cmd"',"restart":{"backoff":1}')" 'job.json: roles.feeder.restart.backoff: unknown member (known here: policy, limit, backoff_ms, backoff_max_ms, healthy_ms, fatal)'
bad "$(role "$cmd"',"restart":{"policy":"maybe"}')" 'job.json: roles.feeder.restart.policy: must be one of: on-failure, always, never'
bad "$(role "$cmd"',"restart":{"backoff_ms":9,"backoff_max_ms":8}')" 'job.json: roles.feeder.restart.backoff_max_ms: must not be below backoff_ms'
bad "$(role "$cmd"',"restart":{"fatal":[0]}')" 'job.json: roles.feeder.restart.fatal: must hold exit codes from 1 to 255'
bad "$(role "$cmd"',"drain_signal":"KILL"')" 'job.json: roles.feeder.drain_signal: must be one of: TERM, INT, HUP, QUIT, USR1, USR2'
bad "$(role '"kind":"mpi","command":["x"],"drain_signal":"TERM"')" 'job.json: roles.feeder.drain_signal: must be USR1 or USR2: mpirun forwards no other to its ranks'
bad "$(role "$cmd"',"mpirun_args":["-v"]')" 'job.json: roles.feeder.mpirun_args: is for roles of kind mpi'
bad "$(role "$cmd"',"required":1')" 'job.json: roles.feeder.required: must be true or false'
bad "$(role "$cmd"',"env":{"A B":"x"}')" 'job.json: roles.feeder.env.A B: is no name of an environment variable'
bad "$(role "$cmd"',"env":{"A":1}')" 'job.json: roles.feeder.env.A: must be a string'
bad "$(role "$cmd"',"env":{"LAKERUN_ROLE":"x"}')" 'job.json: roles.feeder.env.LAKERUN_ROLE: lakerun sets the LAKERUN_ variables itself; choose another name'
bad "$(role "$cmd"',"hosts":["-oProxyCommand=x"]')" "job.json: roles.feeder.hosts: '-oProxyCommand=x' is no host name"
bad "$(role "$cmd"',"hosts":["a:2"]')" "job.json: roles.feeder.hosts: 'a:2': slots (:N) are for roles of kind mpi; name a host twice to give it two processes"
bad "$(role "$cmd"',"cpus":"1-"')" "job.json: roles.feeder.cpus: '1-' is no set of CPUs; write numbers and ranges such as 0-3,8"
no_cpu='job.json: roles.feeder.cpus: there is no CPU 1000 here; this machine has'
if [ -r /sys/devices/system/cpu/online ]; then
  bad "$(role "$cmd"',"cpus":"0,1000"')" "$no_cpu $(cat /sys/devices/system/cpu/online)"
fi
# Without sysfs, as in a bare chroot, it is found out another way.
printf '%s' "$(role "$cmd"',"cpus":"0,1000"')" >job.json
bare() { LRTEST_MARK=$mark "$LAKE_BIN/lakerun" job.json; }
if [ -r /sys/devices/system/cpu/online ]; then
  bare() { unshare -m sh -c 'mount -t tmpfs none /sys && exec "$LAKE_BIN/lakerun" job.json'; }
fi
if [ ! -r /sys/devices/system/cpu/online ] || unshare -m mount -t tmpfs none /sys 2>err.log; then
  code=0
  bare >out.log 2>err.log || code=$?
  expect_code 2 "$code" "CPUs without sysfs"
  expect_has "^lakerun: $no_cpu [0-9][0-9,-]*\$" err.log
  [ ! -e started ] || die "something was started without sysfs"
else
  echo "not tested: a machine without sysfs (no mount namespaces here)"
fi
bad '{"done_when":"x","roles":{"feeder":{'"$cmd"'}}}' "job.json: done_when: there is no role 'x'"
bad '{"remote":["ssh"],"roles":{"feeder":{'"$cmd"'}}}' 'job.json: remote: must name {host} in one of its words'
bad '{"roles":{"a":{'"$cmd"',"count":4096},"b":{'"$cmd"'}}}' 'job.json: 4097 processes in all; lakerun supervises at most 4096: lower the counts'

# Not found: 3.
bad '{"workdir":"/no/such","roles":{"feeder":{'"$cmd"'}}}' "job.json: workdir: there is no folder '/no/such'; make it first" 3
bad '{"roles":{"a":{'"$cmd"'},"b":{"kind":"process","command":["no-such-program"]}}}' "job.json: roles.b: there is no program 'no-such-program' to run; install it, or give its path" 3
bad '{"mpirun":"no-mpirun","roles":{"t":{"kind":"mpi","command":["true"]}}}' "job.json: roles.t: there is no program 'no-mpirun' to run; install it, or give its path" 3
rm -f job.json
run job.json
expect_code 3 "$code" "no job file"
expect_has '^lakerun: job.json: cannot be opened: No such file or directory; give the path of a job file$' err.log

# The command line: 2.
printf '%s' "$(role "$cmd")" >job.json
usage() {
  want="$1"
  shift
  run "$@"
  expect_code 2 "$code" "$*"
  expect_has "$want" err.log
  [ "$(wc -l <err.log)" = 1 ] && [ ! -e started ] || die "more than one line, or a start: $*"
}
usage '^lakerun: give a job file; see lakerun --help$'
usage '^lakerun: give one job file, not 2; see' job.json job.json
usage "^lakerun: unknown option '--nope'; see" --nope job.json
usage "^lakerun: option '--json' needs a value; see" --json
usage '^lakerun: --set feeder=2: write ROLE.count=N$' --set feeder=2 job.json
usage '^lakerun: --set x.count=2: job.json has no role' --set x.count=2 job.json
usage '^lakerun: --set feeder.count=0: the count must be' --set feeder.count=0 job.json
usage '^lakerun: --json /no/such/file: cannot be written: No such file' --json /no/such/file job.json

run --version
expect_code 0 "$code" --version
expect_has '^lakerun [0-9]*\.[0-9]*\.[0-9]*$' out.log
run --help
expect_code 0 "$code" --help
expect_has '^usage: lakerun ' out.log

# The man page names every member and option, and its example is a good job file.
page=$source_dir/docs/man/lakerun.1
sed -n '/^\.EX/,/^\.EE/p' "$page" | grep -v '^\.E' >job.json
run --dry-run job.json
expect_code 0 "$code" "the man page's example"
expect_has ' lake feed text .* --index 1 --count 2 ' out.log
for text in '{"x":1}' "$(role '"x":1')" "$(role "$cmd"',"restart":{"x":1}')"; do
  printf '%s' "$text" >job.json
  run job.json
  names=$(sed -n 's/.*(known here: \(.*\))$/\1/p' err.log | tr -d ,)
  [ -n "$names" ] || die "no names in the error"
  for name in $names; do
    sed 's/\\-/-/g' "$page" | grep -qE "^(\.B )?$name\$" || die "the man page lacks $name"
  done
done
run --help
for option in $(grep -oE '\-\-[a-z-]+' out.log); do
  sed 's/\\-/-/g' "$page" | grep -q -e "$option" || die "the man page lacks $option"
done
