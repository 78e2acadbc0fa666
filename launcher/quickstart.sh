#!/bin/sh
# Lakestream in one command: builds it, then trains a small language model on the text of this machine, kills a
# feeder and the whole trainer job with SIGKILL, and shows that the result is the one of a run that nobody disturbed.
#
#   sh launcher/quickstart.sh [--dir DIR] [--store file|s3|s3://BUCKET/PREFIX] [--steps N] [--build DIR]
#      [--keep] [--help]
#
# Leaves the picture, the CSV and the logs in DIR (./lakestream-demo); no process and no other file. After SIGKILL on
# this script the processes end, too; the batches stay in DIR until the next run. What it wrote to an object store of
# yours stays there.
set -eu

steps=400
dir=
store='file'
build=
keep=no

usage() {
  cat <<'EOF'
usage: sh launcher/quickstart.sh [OPTIONS]
Install what is missing (Debian packages), build, and run the demonstration: 2 feeders, 4 trainer ranks, two kills.

  --dir DIR     where results go (./lakestream-demo)
  --store WHERE where batches go: file (a plain folder inside DIR, the default);
                s3: an S3 gateway, Ceph's, which is started for this run and keeps objects in memory;
                s3 with AWS_ENDPOINT_URL set: bucket lakestream-demo of that store, which must exist;
                s3://BUCKET/PREFIX: a store of yours, with the settings and credentials that other S3 programs use
  --steps N     training steps, an even number from 200 (400)
  --build DIR   programs of this build folder; nothing is installed or built
  --keep        keep the batches and the checkpoints, too
  --help
EOF
}

die() {
  echo "quickstart: $*" >&2
  exit 1
}

misuse() {
  echo "quickstart: $*; see sh launcher/quickstart.sh --help" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
  --dir | --store | --steps | --build)
    [ $# -ge 2 ] || misuse "$1 wants a value"
    case $1 in
    --dir) dir=$2 ;;
    --store) store=$2 ;;
    --steps) steps=$2 ;;
    --build) build=$2 ;;
    esac
    shift 2
    ;;
  --keep) keep=yes && shift ;;
  --help | -h) usage && exit 0 ;;
  *) misuse "unknown option $1" ;;
  esac
done
gateway=no
case $store in
file) ;;
s3)
  if [ -n "${AWS_ENDPOINT_URL_S3:-}${AWS_ENDPOINT_URL:-}" ]; then store=s3://lakestream-demo; else gateway=yes; fi
  ;;
s3://?*) ;;
*) misuse "--store $store is not known; it can be: file, s3, s3://BUCKET/PREFIX" ;;
esac
case $store in
*[\"\\[:cntrl:]?]*) misuse "--store $store: leave out quotes, backslashes, control characters and options" ;;
esac
case $steps in
'' | *[!0-9]*) misuse "--steps $steps: a whole number is wanted" ;;
esac
if [ "$steps" -lt 200 ] || [ $((steps % 2)) -ne 0 ]; then misuse "--steps $steps: an even number from 200 is wanted"; fi

root=$(cd "$(dirname "$0")/.." && pwd)
if [ -n "$build" ]; then
  build=$(cd "$build" 2>/dev/null && pwd) || misuse "--build: there is no such folder"
  for program in lake lakerun train_lm plot_run; do
    [ -x "$build/bin/$program" ] || misuse "--build $build: there is no bin/$program"
  done
  built=yes
else
  build=$root/build/quickstart built=no
fi
# shellcheck source=launcher/debian-packages.sh
. "$root/launcher/debian-packages.sh"

title() { printf '\n== %s\n' "$*"; }

# --- the folder of the results: made by us, or not touched ---------------------------------------------------------
dir=${dir:-lakestream-demo}
case $dir in
/*) ;;
*) dir=${PWD%/}/$dir ;;
esac
# Before anything is made: the name goes into job files.
case $dir in
*[\"\\[:cntrl:]]*)
  misuse "the folder $dir has a quote, a backslash or a control character in its name; choose another with --dir"
  ;;
esac
mkdir -p "$dir" 2>/dev/null || die "cannot make the folder $dir; choose another with --dir"
dir=$(cd "$dir" && pwd)
if [ ! -e "$dir/.lakestream-demo" ] && [ -n "$(ls -A "$dir")" ]; then
  die "the folder $dir is not empty and not of an earlier quickstart; choose another with --dir"
fi
: >"$dir/.lakestream-demo" || die "cannot write to the folder $dir; choose another with --dir"

remove_work() { rm -rf "$dir/gateway" "$dir/store" "$dir/checkpoints" "$dir/checkpoints-straight" "$dir/text" "$dir/tmp"; }

# --- nothing is left running, however this script ends --------------------------------------------------------------
# When the script gets SIGKILL, the kernel sends lakerun a TERM, and it ends all that it started. (setpriv is of
# util-linux, which Debian always has; elsewhere SIGKILL is the one end that leaves the job running to its deadline.)
tied=
if setpriv --pdeathsig TERM true 2>/dev/null; then tied="setpriv --pdeathsig TERM"; fi
job_pid=
finish() {
  code=$?
  trap '' INT TERM HUP
  trap - EXIT
  if [ -n "$job_pid" ] && kill -0 "$job_pid" 2>/dev/null; then
    echo "quickstart: stopping the job" >&2
    kill -TERM "$job_pid" 2>/dev/null || :
    wait "$job_pid" 2>/dev/null || :
  fi
  [ "$gateway" != started ] || bash "$root/tests/servers/rgw.sh" stop "$dir/gateway" || :
  [ "$keep" = yes ] || remove_work
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- building -------------------------------------------------------------------------------------------------------
if [ $built = no ]; then
  packages=$LAKE_PACKAGES_BUILD
  [ "$gateway" = no ] || packages="$packages $LAKE_PACKAGES_GATEWAY"
  title "1/8 packages"
  # shellcheck disable=SC2086 # a list of words
  lake_packages_install $packages || die "the packages above are needed"
  printf '%s\n' "$packages"
  echo "all there"

  title "2/8 building in $build"
  if ! { cmake -S "$root" --preset release -B "$build" && cmake --build "$build"; } >"$dir/build.log" 2>&1; then
    tail -n 30 "$dir/build.log" >&2
    die "the build failed; all of its output is in $dir/build.log"
  fi
  tail -n 1 "$dir/build.log"
fi
bin=$build/bin

# --- input: what every Debian system has ----------------------------------------------------------------------------
began=$(date +%s)
title "3/8 real text of this machine"
remove_work
rm -f "$dir"/*.csv "$dir"/*.svg "$dir"/*.log.[0-9] "$dir"/*.txt "$dir/feeders.jsonl" "$dir"/*.json
mkdir -p "$dir/text" "$dir/tmp"
# Licences and copyright notices, copied, so that both runs and a restarted feeder see the same files.
for file in /usr/share/common-licenses/* /usr/share/doc/*/copyright; do
  if [ ! -f "$file" ] || [ -L "$file" ]; then continue; fi
  printf '%s\n' "$file"
done | head -n 400 | while read -r file; do
  cp "$file" "$dir/text/$(printf '%s' "${file#/usr/share/}" | tr / _)"
done
documents=$(find "$dir/text" -type f | wc -l)
[ "$documents" -gt 0 ] || die "no text in /usr/share/common-licenses or /usr/share/doc"
echo "$documents documents, $(cat "$dir"/text/* | wc -c) bytes: licences and copyright notices in /usr/share"

# start_gateway: sets url. A process of its own ends the gateway should this script get SIGKILL.
start_gateway() {
  gateway=started
  endpoint=$(LAKE_SERVER_OWNER=$$ bash "$root/tests/servers/rgw.sh" start "$dir/gateway") ||
    die "there is no gateway; give --store file, or s3://BUCKET/PREFIX for a store that you have"
  . "$dir/gateway/env"
  unset AWS_ENDPOINT_URL_S3 AWS_IGNORE_CONFIGURED_ENDPOINT_URLS AWS_PROFILE AWS_DEFAULT_PROFILE AWS_SESSION_TOKEN \
    AWS_REQUEST_PAYER AWS_USE_DUALSTACK_ENDPOINT AWS_USE_FIPS_ENDPOINT
  export AWS_ENDPOINT_URL="$endpoint" AWS_REGION=us-east-1
  export AWS_ACCESS_KEY_ID="$LAKE_TEST_S3_KEY_ID" AWS_SECRET_ACCESS_KEY="$LAKE_TEST_S3_SECRET"
  url=$LAKE_TEST_S3_URL/demo
  echo "batches go to $url at $endpoint, Ceph's S3 gateway"
}
case $gateway,$store in
yes,*) start_gateway ;;
no,file) url=file:$dir/store ;;
*)
  url=${store%/}/demo-$(date +%Y%m%d-%H%M%S)-$$
  echo "batches go to $url, and stay there; lake doctor $url tells whose store that is"
  ;;
esac
"$bin/lake" init --mesh 2x2 --rows 4 --text-seq-len 256 "$url"

# --- the two jobs ---------------------------------------------------------------------------------------------------
# job NAME CKPT CSV SUMMARY [FEEDERS]: writes $dir/NAME.json. Open MPI's files go below DIR, since a killed rank cannot
# remove its own.
job() {
  cat >"$dir/$1.json" <<EOF
{ "name": "$1", "deadline_ms": 300000,
  "env": { "OMPI_MCA_orte_tmpdir_base": "$dir/tmp", "OMPI_MCA_btl_vader_backing_directory": "$dir/tmp",
           "OMPI_MCA_btl_vader_single_copy_mechanism": "none" },
  "roles": {
    "trainer": { "kind": "mpi", "count": 4, "restart": { "limit": 3, "backoff_ms": 300 },
      "command": ["$bin/train_lm", "--url", "$url", "--steps", "$steps", "--group", "$1", "--ckpt-dir", "$dir/$2",
                  "--ckpt-every", "50", "--log-every", "50", "--csv", "$dir/$3", "--summary", "$dir/$4"] }$5
  } }
EOF
}
job train checkpoints run.csv run.txt ",
    \"feeder\": { \"kind\": \"process\", \"count\": 2, \"restart\": { \"backoff_ms\": 300 },
      \"command\": [\"$bin/lake\", \"feed\", \"text\", \"--id\", \"feeder-{index}\", \"--index\", \"{index}\",
                  \"--count\", \"2\", \"--epochs\", \"0\", \"--max-tgbs\", \"$((steps / 2))\", \"--rate\", \"$((steps / 20))\",
                  \"--stats-file\", \"$dir/feeders.jsonl\", \"$url\", \"$dir/text\"] }"
job straight checkpoints-straight straight.csv straight.txt ""

shown=0
show_log() {
  lines=$(wc -l <"$dir/$1.log")
  [ "$lines" -gt "$shown" ] || return 0
  sed -n "$((shown + 1)),${lines}p" "$dir/$1.log" | sed 's/^/   /'
  shown=$lines
}

# The process that lakerun started last for a unit, and all its children, by /proc: procps may not be installed.
unit_pid() { sed -n "s/^lakerun: $1: started.* pid \([0-9]*\).*/\1/p" "$dir/train.log" | tail -n 1; }
children_of() {
  cat /proc/[0-9]*/stat 2>/dev/null | sed -n "s/^\([0-9]*\) (.*) [A-Za-z] $1 .*/\1/p"
}
last_step() { tail -n 1 "$dir/run.csv" 2>/dev/null | sed -n 's/^\([0-9]\{1,\}\),.*/\1/p'; }

# Steps committed so far.
stream_steps() {
  "$bin/lake" ls --json --limit 1 "$url" 2>/dev/null | sed -n 's/.*"next_step": *"\{0,1\}\([0-9]*\).*/\1/p'
}

# The feeder is killed by its own progress and the trainers by theirs: how long either takes to start differs much.
kills=0
kill_when_due() {
  if [ "$kills" -eq 0 ]; then
    step=$(stream_steps)
    if [ -z "$step" ] || [ "$step" -lt $((steps / 4)) ]; then return 0; fi
    pid=$(unit_pid 'feeder\.0')
    title "5/8 the stream has $step steps: killing feeder 0 (pid $pid) with SIGKILL"
    kill -KILL "$pid" || die "feeder 0 had ended before it could be killed; give more --steps"
    kills=1
  elif [ "$kills" -eq 1 ]; then
    step=$(last_step)
    if [ -z "$step" ] || [ "$step" -lt $((steps * 11 / 20)) ]; then return 0; fi
    pid=$(unit_pid trainer)
    ranks=$(children_of "$pid" | tr '\n' ' ')
    title "6/8 the trainers are at step $step: killing the trainer job (mpirun $pid and ranks ${ranks% }) with SIGKILL"
    # shellcheck disable=SC2086 # a list of words
    kill -KILL "$pid" $ranks || die "the trainers had ended before they could be killed; give more --steps"
    kills=2
  fi
}

# run NAME: starts the job under lakerun and shows what it says until it ends.
run() {
  shown=0
  : >"$dir/$1.log"
  # shellcheck disable=SC2086 # a list of words
  $tied "$bin/lakerun" --json "$dir/$1-lakerun.json" "$dir/$1.json" >>"$dir/$1.log" 2>&1 &
  job_pid=$!
  while kill -0 "$job_pid" 2>/dev/null; do
    show_log "$1"
    [ "$1" != train ] || kill_when_due
    sleep 0.1
  done
  code=0
  wait "$job_pid" || code=$?
  job_pid=
  show_log "$1"
  [ "$code" -lt 128 ] || exit "$code" # stopped by a signal, as lakerun has said
  [ "$code" -eq 0 ] || die "the job ended with exit code $code; its output is in $dir/$1.log"
}

title "4/8 training: 2 feeders write, 4 ranks (2 data-parallel x 2 context-parallel) learn, $steps steps"
run train
[ "$kills" -eq 2 ] || die "only $kills of 2 kills happened; give more --steps"
"$bin/lake" seal "$url"
"$bin/lake" verify "$url"

title "7/8 the same batches again, this time undisturbed"
run straight

# --- the result -----------------------------------------------------------------------------------------------------
title "8/8 result"
of() { sed -n "s/^$2=//p" "$dir/$1.txt"; }
# sum KEY: over the feeders' summaries, whose numbers are strings.
sum() { sed -n "s/.*\"$1\": *\"\{0,1\}\([0-9]*\).*/\1/p" "$dir/feeders.jsonl" | awk '{ n += $1 } END { print n + 0 }'; }
picture=$("$bin/plot_run" "$dir/run.csv" "$dir/run.svg")
printf '%s\n' "$picture" | sed -n 1,2p
{
  echo "steps          $(of run steps), $(of straight steps_per_s) a second in the undisturbed run"
  echo "loss           $(printf '%s\n' "$picture" | sed -n 's/^loss .*  \([0-9.]* to .*\)/\1/p')" \
    "(means of the first and the last part of the picture; the log shows single steps)"
  echo "wait           $(printf '%s\n' "$picture" | sed -n 's/^wait \(p50.*\) over.*/\1/p')"
  commits=$(sum commit_count) attempts=$(sum attempt_count)
  echo "commits        $commits of $attempts attempts won: $((attempts > 0 ? 100 * commits / attempts : 100)) %" \
    "(as the feeders counted that ended by themselves)"
  echo "bytes read     $(of straight read_bytes) for $(of straight delivered_bytes) delivered:" \
    "$(of straight read_per_delivered)"
  echo "killed         1 feeder, 4 trainer ranks with their mpirun; all came back"
  echo "weights        $(of run weights) with kills, $(of straight weights) without"
  echo "data           $(of run data) with kills, $(of straight data) without"
} | tee "$dir/summary.txt"
echo "time           $(($(date +%s) - began)) s without installing and building"
echo "files          $dir/run.svg, run.csv, summary.txt, train.log"
for digest in weights data steps; do
  mine=$(of run $digest)
  if [ -z "$mine" ] || [ "$mine" != "$(of straight $digest)" ]; then
    die "$digest differ between the two runs: this is a bug, please report it with $dir"
  fi
done
printf '\nIDENTICAL: the killed and resumed run has the same weights and has seen the same data, bit for bit.\n'
