#!/bin/bash
# train_lm, small: killed and resumed it ends with the digests of a run that was left alone; a drained one, too. Bad
# checkpoints are passed over or refused with one line and the exit code of their class. Run by CTest.
set -eu
bin=${LAKE_BIN:?where the programs are}
[ -x "$bin/lake" ] && [ -x "$bin/train_lm" ] || exit 77
work=$(mktemp -d "${TMPDIR:-/tmp}/lake-train-XXXXXX")
job=
stop() {
  if [ -n "$job" ]; then kill -KILL "$job" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap stop EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# A killed rank leaves its files behind: let them lie where they are removed.
export OMPI_MCA_orte_tmpdir_base=$work OMPI_MCA_btl_vader_backing_directory=$work
steps=60 url=file:$work/store
fail() { echo "train_lm_test: $*" >&2; exit 1; }
command=(mpirun --oversubscribe --bind-to none -n 4 "$bin/train_lm" --hidden 16 --embed 8 --log-every 0)
train() { "${command[@]}" "$@"; }
feed() { # feed N: the stream at $url has N steps then
  "$bin/lake" feed text --id f0 --create --seq-len 64 --rows 2 --mesh 2x2 --epochs 0 --max-tgbs "$1" "$url" "$work/text" \
    >"$work/out" 2>&1
}
wait_lines() { # wait_lines FILE N: until the job has written so many
  until [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; do
    kill -0 $job 2>/dev/null || fail "the run ended too early"
    sleep 0.02
  done
}
# expect CODE TEXT: the last command line of `train` ends with this code and one line that holds the text.
expect() {
  local want=$1 text=$2 got=0
  shift 2
  train "$@" >"$work/out" 2>&1 || got=$?
  [ "$got" -eq "$want" ] || { cat "$work/out"; fail "exit code $got, expected $want: $*"; }
  [ "$(grep -c '^train_lm: ' "$work/out")" -eq 1 ] || { cat "$work/out"; fail "not one line of error: $*"; }
  grep -q "^train_lm: .*$text" "$work/out" || { cat "$work/out"; fail "no '$text': $*"; }
}
same() { # the digests of a summary are those of the undisturbed run
  diff <(grep -E '^(steps|weights|data|loss)=' "$work/straight.txt") \
    <(grep -E '^(steps|weights|data|loss)=' "$work/$1") || fail "$1 differs from the undisturbed run"
}

mkdir "$work/text"
# Text that is the same everywhere.
for i in $(seq 1 40); do seq "$i" 7 2000 | sed "s/^/line $i of the text, number /" >"$work/text/$i.txt"; done

echo "kill -9 in the middle: the stream has 24 steps so far, so it is sure to be there still"
feed 24
"${command[@]}" --url "$url" --ckpt-dir "$work/killed" --ckpt-every 7 --csv "$work/killed.csv" >"$work/log" 2>&1 &
job=$!
wait_lines "$work/killed.csv" 25
ranks=$(cat /proc/[0-9]*/stat 2>/dev/null | sed -n "s/^\([0-9]*\) (.*) [A-Za-z] $job .*/\1/p")
# shellcheck disable=SC2086 # a list of words
kill -KILL $job $ranks
wait $job 2>/dev/null && fail "the killed run ended with exit code 0"
job=
feed $steps
"$bin/lake" seal "$url" >"$work/out"
train --url "$url" --summary "$work/straight.txt" --csv "$work/straight.csv" >"$work/out"
[ "$(wc -l <"$work/straight.csv")" -eq $((steps + 1)) ] || fail "the CSV does not hold a line for each step"
[ "$(sed -n 's/^steps=//p' "$work/straight.txt")" = $steps ] || fail "it did not end with the sealed stream"
ls "$work/killed"/ckpt-*.bin >"$work/out" || fail "no checkpoint"
[ "$(wc -l <"$work/out")" -le 3 ] || fail "more checkpoints than are to be kept"
# What a crash may leave: half a file under a temporary name, and a newest one that is cut short.
newest=$(tail -n 1 "$work/out")
cp "$newest" "$newest.tmp-1"
truncate -s 1000 "$newest"
train --url "$url" --ckpt-dir "$work/killed" --ckpt-every 7 --csv "$work/killed.csv" --summary "$work/killed.txt" \
  >"$work/out" 2>&1
grep -q "warning: $newest: .* passing over" "$work/out" || { cat "$work/out"; fail "no warning of the cut checkpoint"; }
grep -q '^resuming at step 14:' "$work/out" || { cat "$work/out"; fail "it did not resume"; }
same killed.txt
diff <(cut -d, -f1,2 "$work/straight.csv") <(cut -d, -f1,2 "$work/killed.csv") || fail "the CSV differs"
[ ! -e "$newest.tmp-1" ] || fail "the temporary file is still there"
# Pins and checkpoints are the same set.
names() { find "$1" -type f -name "$2*" | sed 's|.*-\([0-9]*\)\..*|\1|' | sort; }
diff <(names "$work/killed" ckpt-) <(names "$work/store/watermark/default" step-) ||
  fail "pins and checkpoints differ"

echo "no checkpoint is readable any more: it starts over, and keeps what it writes, not what it cannot read"
again() { train --url "$url" --ckpt-dir "$work/killed" --ckpt-every 7 --summary "$work/again.txt" "$@" >"$work/out" 2>&1; }
for file in "$work/killed"/ckpt-*.bin; do truncate -s 1000 "$file"; done
names "$work/killed" ckpt- >"$work/unreadable"
again --steps 20
grep -q '^starting at step 0:' "$work/out" || { cat "$work/out"; fail "it did not start over"; }
printf '%s\n' 00000007 00000014 00000020 | sort - "$work/unreadable" | diff - <(names "$work/killed" ckpt-) ||
  fail "not the three new checkpoints and the unreadable ones"
diff <(names "$work/killed" ckpt-) <(names "$work/store/watermark/default" step-) || fail "pins and checkpoints differ"
again
grep -q '^resuming at step 20:' "$work/out" || { cat "$work/out"; fail "it did not resume from what it wrote"; }
same again.txt
# Past the unreadable ones, they are gone or written again.
printf '%s\n' 00000049 00000056 000000$steps | diff - <(names "$work/killed" ckpt-) || fail "not the three newest"
diff <(names "$work/killed" ckpt-) <(names "$work/store/watermark/default" step-) || fail "pins and checkpoints differ"
again
grep -q "^resuming at step $steps:" "$work/out" || { cat "$work/out"; fail "it did not resume at the end"; }

echo "stop at a step, go on twice; a second look trains nothing"
for n in 10 33 $steps $steps; do
  train --url "$url" --group parts --ckpt-dir "$work/parts" --steps "$n" --summary "$work/parts.txt" >"$work/out"
done
same parts.txt

echo "drain on SIGUSR1, while waiting for data that does not come"
url_closed=$url url=file:$work/open
feed 5
url=$url_closed
"${command[@]}" --url "file:$work/open" --ckpt-dir "$work/open-ckpt" --csv "$work/open.csv" >"$work/log" 2>&1 &
job=$!
wait_lines "$work/open.csv" 6
kill -USR1 $job
wait $job || { cat "$work/log"; fail "drained with exit code $?"; }
job=
grep -q 'stopping at step 5 ' "$work/log" || { cat "$work/log"; fail "it did not stop at step 5"; }
[ -e "$work/open-ckpt/ckpt-00000005.bin" ] || fail "no checkpoint at the drain"

echo "refused"
expect 2 'belongs to namespace .* choose another --ckpt-dir' --url "file:$work/open" --ckpt-dir "$work/killed"
expect 2 'holds a model of context 8, embed 8, hidden 16' --url "$url" --ckpt-dir "$work/killed" --context 4
expect 2 'was trained with --seed 1' --url "$url" --ckpt-dir "$work/killed" --seed 2
expect 3 'no namespace at' --url "file:$work/nothing"
expect 2 'need 8 ranks but the communicator has 4' --url "$url" --tp 2 --dp 2
expect 2 'whose mesh is 2x2' --url "$url" --cp 1
expect 2 'option --nonsense is unknown' --url "$url" --nonsense
expect 7 'step 5 of .* is not committed yet' --url "file:$work/open" --deadline-ms 500
"$bin/lake" init --mesh 2x2 "file:$work/raw" >"$work/out"
expect 2 'has no tensor tokens' --url "file:$work/raw"
echo passed
