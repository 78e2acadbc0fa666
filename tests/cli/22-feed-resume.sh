# A feeder that is killed again and again ends with the same bytes as one that never was.
. "$(dirname "$0")/lake.inc"

mkdir in
python3 - <<'P'
import gzip, json
words = "the of and to in a is that for it as was with be by on not he his but at are this have from or had an".split()
def text(n, seed):
    out = []
    for _ in range(n):
        seed = (seed * 1103515245 + 12345) % 2**31
        out.append(words[seed >> 8 & 31 if (seed >> 8 & 31) < len(words) else 0])
    return " ".join(out)
for i in range(12):
    open(f"in/{i:02}.txt", "w").write(text(200 + 31 * i, i + 1))
with gzip.open("in/20.jsonl.gz", "wt") as f:
    for i in range(60):
        f.write(json.dumps({"text": text(i % 70, i + 99)}) + "\n")
with open("in/30.jsonl", "w") as f:
    for i in range(40):
        f.write(json.dumps({"text": text(i % 90, i + 999)}) + "\n")
P
feed="in --create --id a --index 1 --count 2 --seq-len 32 --mesh 2x2 --rows 1 --epochs 2"
ok lake feed text file:straight $feed
straight=$(tgb digest straight a)
count=${straight%% *}
[ "$count" -gt 250 ] || die "only $count TGBs"

# Killed once the store holds so many objects more than at the start of this incarnation: an event, not a time.
mkdir killed
objects() { find killed -type f | wc -l; }
kills=0
for round in $(seq 12); do
  before=$(objects)
  lake feed text file:killed $feed --rate 400 >round.out 2>round.err &
  pid=$!
  while kill -0 $pid 2>/dev/null && [ "$(objects)" -lt $((before + round * 3)) ]; do sleep 0.01; done
  if kill -KILL $pid 2>/dev/null; then kills=$((kills + 1)); fi
  wait $pid 2>/dev/null || :
done
[ $kills -ge 8 ] || die "only $kills of the kills struck"
ok lake feed text file:killed $feed --json
is "$(json 'j["next_seq"], int(j["epoch"]) > 8')" "('$count', True)" "the last incarnation"
is "$(tgb digest killed a)" "$straight" "killed and straight"
ok lake verify file:killed --chain all

# Started once more it has nothing to do.
ok lake feed text file:killed $feed --json
is "$(json 'j["tgb_count"], j["next_seq"], j["reason"]')" "('0', '$count', 'end')" "nothing left"

# A drain commits what is appended, exits 0, retires nothing; the next incarnation goes on. Each of the three signals.
for signal in TERM INT USR1; do
  mkdir drained$signal
  lake feed text file:drained$signal $feed --rate 200 --json >drain.json 2>drain.err &
  pid=$!
  while [ "$(find drained$signal -name '*.tgb' | wc -l)" -lt 5 ]; do kill -0 $pid || die "gone before the signal"; sleep 0.01; done
  kill -$signal $pid
  wait $pid || die "drain by $signal: exit $?: $(cat drain.err)"
  python3 - <<'P' || die "summary of a drain"
import json
j = json.load(open("drain.json"))
assert j["reason"] == "drained" and not j["retired"] and j["committed_count"] == j["tgb_count"] != "0", j
P
  ok lake feed text file:drained$signal $feed
  is "$(tgb digest drained$signal a)" "$straight" "drained by $signal and straight"
done

# What would break the promise is refused before anything is written: no epoch is claimed either.
state() { find killed -type f | sort | xargs sha256sum; }
state >before
echo more >>in/00.txt
fails 2 "the input of a changed" lake feed text file:killed $feed
git_like=$(stat -c %s in/00.txt)
truncate -s $((git_like - 5)) in/00.txt
echo extra >in/99.txt
fails 2 "the input of a changed" lake feed text file:killed $feed
rm in/99.txt
fails 2 "other options" lake feed text file:killed in --id a --index 0 --count 2
state >after
cmp -s before after || die "a refused feeder changed something"
ok lake feed text file:killed $feed
