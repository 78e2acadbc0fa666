#!/bin/bash
# kill -9 at random times, LAKE_KILLS runs of it (3; the full test is LAKE_KILLS=20): in each run two feeders write and
# four ranks learn under lakerun, a feeder and the whole trainer job are killed at random moments, and the end is
# compared with an undisturbed run on the same batches: same weights, same data, all steps there once.
set -eu
bin=${LAKE_BIN:?where the programs are}
for program in lake lakerun train_lm; do [ -x "$bin/$program" ] || exit 77; done
runs=${LAKE_KILLS:-3}
seed=${LAKE_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "seed: LAKE_SEED=$seed"
RANDOM=$((seed % 32768))
work=$(mktemp -d "${TMPDIR:-/tmp}/lake-kill-XXXXXX")
job=
stop() {
  if [ -n "$job" ]; then
    kill -TERM "$job" 2>/dev/null || true
    wait "$job" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap stop EXIT
fail() {
  echo "kill20: run $run: $*" >&2
  [ ! -e "$work/log" ] || tail -n 60 "$work/log" >&2
  exit 1
}
steps=120
mkdir "$work/text" "$work/tmp"
for i in $(seq 1 40); do seq "$i" 7 2000 | sed "s/^/line $i of the text, number /" >"$work/text/$i.txt"; done

# job_file GROUP FEEDERS
job_file() {
  cat >"$work/job.json" <<EOF
{ "name": "$1", "deadline_ms": 120000,
  "env": { "OMPI_MCA_orte_tmpdir_base": "$work/tmp", "OMPI_MCA_btl_vader_backing_directory": "$work/tmp",
           "OMPI_MCA_btl_vader_single_copy_mechanism": "none" },
  "roles": {
    "trainer": { "kind": "mpi", "count": 4, "restart": { "limit": 5, "backoff_ms": 50 },
      "command": ["$bin/train_lm", "--url", "$url", "--steps", "$steps", "--group", "$1", "--ckpt-dir", "$work/$1",
                  "--ckpt-every", "10", "--log-every", "0", "--hidden", "48", "--csv", "$work/$1.csv",
                  "--summary", "$work/$1.txt"] }$2 } }
EOF
}
feeders() {
  cat <<EOF
,
    "feeder": { "kind": "process", "count": 2, "restart": { "backoff_ms": 50 },
      "command": ["$bin/lake", "feed", "text", "--id", "feeder-{index}", "--index", "{index}", "--count", "2",
                  "--epochs", "0", "--max-tgbs", "$((steps / 2))", "--rate", "40", "$url", "$work/text"] }
EOF
}
unit_pid() { sed -n "s/^lakerun: $1: started.* pid \([0-9]*\).*/\1/p" "$work/log" | tail -n 1; }
children_of() { cat /proc/[0-9]*/stat 2>/dev/null | sed -n "s/^\([0-9]*\) (.*) [A-Za-z] $1 .*/\1/p"; }
now_ms() { date +%s%3N; }

killed=0
# kill_at MS UNIT: at that time after the start, whatever the unit is doing then; one that has ended is let be.
kill_at() {
  local left=$((begin + $1 - $(now_ms))) pid
  [ "$left" -le 0 ] || sleep "$(printf '%d.%03d' $((left / 1000)) $((left % 1000)))"
  pid=$(unit_pid "$2")
  [ -n "$pid" ] || return 0
  # shellcheck disable=SC2046 # a list of words
  if kill -KILL "$pid" $(children_of "$pid") 2>/dev/null; then killed=$((killed + 1)); fi
}

for run in $(seq 1 "$runs"); do
  rm -rf "$work/store" "$work/killed" "$work/straight" "$work"/*.csv "$work"/*.txt
  url=file:$work/store
  "$bin/lake" init --mesh 2x2 --rows 2 --text-seq-len 256 "$url" >/dev/null
  job_file killed "$(feeders)"
  : >"$work/log"
  begin=$(now_ms)
  "$bin/lakerun" "$work/job.json" >>"$work/log" 2>&1 &
  job=$!
  feeder_ms=$((RANDOM % 1500)) trainer_ms=$((RANDOM % 3000))
  if [ $feeder_ms -lt $trainer_ms ]; then
    kill_at $feeder_ms "feeder\.$((RANDOM % 2))"
    kill_at $trainer_ms trainer
  else
    kill_at $trainer_ms trainer
    kill_at $feeder_ms "feeder\.$((RANDOM % 2))"
  fi
  wait $job || fail "the job ended with exit code $?"
  job=
  "$bin/lake" seal "$url" >"$work/sealed"
  grep -q " at $steps steps" "$work/sealed" || fail "$(cat "$work/sealed"), expected $steps steps"
  "$bin/lake" verify "$url" >"$work/verified" || fail "$(cat "$work/verified")"
  job_file straight ""
  : >"$work/log"
  "$bin/lakerun" "$work/job.json" >>"$work/log" 2>&1 || fail "the undisturbed run failed"
  # Every step is in the CSV once, in order; and the end is the same.
  cut -d, -f1 "$work/killed.csv" | tail -n +2 | diff - <(seq 0 $((steps - 1))) >/dev/null || fail "steps are not gap-free"
  for key in steps weights data loss; do
    mine=$(sed -n "s/^$key=//p" "$work/killed.txt")
    [ -n "$mine" ] || fail "no $key"
    [ "$mine" = "$(sed -n "s/^$key=//p" "$work/straight.txt")" ] || fail "$key differs"
  done
  echo "run $run of $runs: feeder at $feeder_ms ms, trainers at $trainer_ms ms: identical," \
    "weights $(sed -n 's/^weights=//p' "$work/killed.txt")"
done
echo "passed: $runs runs, $killed kills"
