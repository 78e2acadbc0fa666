# Several feeders share the input by index: started together, they lose and repeat no document, and each one's bytes do
# not depend on the others.
. "$(dirname "$0")/lake.inc"

mkdir in
for i in $(seq 60); do printf 'file %d %s\n' $i "$(head -c $((i * 13 % 400)) /dev/zero | tr '\0' x)" >in/$i.txt; done
for i in $(seq 200); do printf '{"text":"line %d"}\n' $i; done >in/lines.jsonl
ok lake feed text file:whole in --create --id all --seq-len 64 --mesh 2x2 --rows 1
tgb documents whole all >whole.json

for i in 0 1 2; do
  lake feed text file:ns in --create --id f$i --index $i --count 3 --seq-len 64 --mesh 2x2 --rows 1 >f$i.out 2>f$i.err &
  pids[$i]=$!
done
for i in 0 1 2; do wait ${pids[$i]} || die "feeder $i: $(cat f$i.err)"; done
for i in 0 1 2; do
  [ ! -s f$i.err ] || die "feeder $i: $(cat f$i.err)"
  tgb documents ns f$i >f$i.json
  ok lake feed text file:alone$i in --create --id f$i --index $i --count 3 --seq-len 64 --mesh 2x2 --rows 1
  is "$(tgb digest ns f$i)" "$(tgb digest alone$i f$i)" "feeder $i alone and in company"
done
python3 - <<'P' || die "documents were lost or repeated"
import json
whole = json.load(open("whole.json"))
parts = [json.load(open(f"f{i}.json")) for i in range(3)]
assert len(whole) == 260 and len(set(whole)) == 260
for i in range(3):
    assert parts[i] == whole[i::3], i
P
ok lake verify file:ns --chain all
ok lake ls file:ns --producers --json
is "$(json 'all(p["retired"] for p in j["producers"])')" True "all retired"
