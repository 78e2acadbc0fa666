# ls and inspect on a stream of two producers with segments.
. "$(dirname "$0")/lake.inc"

mkdir in
for i in $(seq 40); do printf 'document %d says nothing of note, but says it %d times over\n' $i $i >in/$i.txt; done
ok lake init file:ns --mesh 2x1 --text-seq-len 16 --tail-max 8 --note n
ok lake feed text file:ns in --id a --index 0 --count 2
ok lake feed text file:ns in --id b --index 1 --count 2

ok lake ls file:ns --json
is "$(json '[int(s["step"]) for s in j["steps"]] == list(range(int(j["next_step"])))')" True "steps are dense"
is "$(json 'sorted({s["producer"] for s in j["steps"]})')" "['a', 'b']" producers
is "$(json '[[int(s["seq"]) for s in j["steps"] if s["producer"]==p] == list(range(sum(s["producer"]==p for s in j["steps"]))) for p in "ab"]')" \
  "[True, True]" "seqs are gap-free"
is "$(json 'all(isinstance(s[k], str) for s in j["steps"] for k in ("step","seq","epoch","bytes"))')" True "64-bit numbers are strings"
steps=$(json 'j["next_step"]')
[ "$steps" -gt 40 ] || die "only $steps steps"
is "$(json 'j["segment_count"] > 0')" True "segments"
cp out.log all.json

ok lake ls file:ns
head -1 out.log | grep -q "steps 0..$steps  open  mesh 2x1  producers 2" || die "header"
is "$(tail -n +3 out.log | wc -l)" "$steps" "lines"
# Any range is that part of the whole, across segments and tail.
for range in "0 5" "7 9" "$((steps - 3)) $steps" "6 $((steps - 1))" "3 3" "$steps 999999"; do
  set -- $range
  run lake ls file:ns --from $1 --to $2 --json
  is $code 0 "range $range"
  # One that holds nothing is told, in one line.
  case $range in
  "3 3" | "$steps "*) is "$(cat err.log)" "lake ls: no committed step in $1..$2; the live steps are 0..$steps" "range $range" ;;
  *) [ ! -s err.log ] || die "text on stderr for range $range" ;;
  esac
  is "$(json "j['steps'] == json.load(open('all.json'))['steps'][$1:$2]")" True "range $range"
done
run lake ls file:ns --from 100000
is "$code $(cat err.log)" "0 lake ls: no committed step in 100000..; the live steps are 0..$steps" "beyond the newest"
is "$(wc -l <out.log)" 2 "lines beyond the newest"
ok lake ls file:ns --from 100000 --limit 0
ok lake ls file:ns --from 4 --limit 3 --json
is "$(json '[s["step"] for s in j["steps"]]')" "['4', '5', '6']" limit

ok lake ls file:ns --producers --json
is "$(json '[(p["id"],p["epoch"],p["retired"],p["offset"]) for p in j["producers"]]')" "[('a', '1', True, '20'), ('b', '1', True, '20')]" producers
is "$(json 'sum(int(p["next_seq"]) for p in j["producers"])')" "$steps" "next seqs"
is "$(json 'all(p["state"].startswith("text1 list=") for p in j["producers"])')" True state
ok lake ls file:ns --versions --json
is "$(json '[int(v["version"]) for v in j["versions"]] == list(range(1, int(j["version"]) + 1))')" True versions
ok lake ls file:ns --versions
ok lake ls file:ns --producers
fails 2 "choose one" lake ls file:ns --producers --versions

ok lake init file:empty
ok lake ls file:empty --json
is "$(json 'j["version"], j["steps"]')" "('0', [])" "an empty namespace"
ok lake ls file:empty --producers --json
ok lake ls file:empty --versions --json
is "$(json 'j["versions"]')" "[]" "no versions"
run lake ls file:empty --from 0 --to 5
is "$code $(cat err.log)" "0 lake ls: no committed step in 0..5; there is none at all" "a range of nothing"

ok lake inspect file:ns
is "$(json 'j["kind"], j["namespace"]["note"]')" "('namespace', 'n')" namespace
ok lake inspect file:ns --version newest
is "$(json 'j["kind"], j["next_step"], len(j["producers"])')" "('manifest', '$steps', 2)" manifest
ok lake inspect file:ns --version 1
is "$(json 'j["version"], j["tail"]')" "('1', [])" "the first version claims an epoch"
ok lake inspect file:ns --segment 3
is "$(json 'j["kind"], j["level"], [s["step"] for s in j["steps"]][:2]')" "('segment', 0, ['0', '1'])" segment
key=$(json 'j["key"]')
ok lake inspect file:ns "$key"
is "$(json 'j["kind"]')" segment "by key"
ok lake inspect file:ns --step 5 --frames
is "$(json 'j["kind"], j["slice_count"], len(j["frames"]), j["frames"][1]["codec"]')" "('tgb', 2, 2, 'none')" tgb
is "$(json "j['producer'] == json.load(open('all.json'))['steps'][5]['producer']")" True "the step's own TGB"
key=$(json 'j["key"]')
ok lake inspect "ns/$key"
is "$(json 'j["kind"]')" tgb "a local file"
(cd "ns/$(dirname "$key")" && lake inspect "$(basename "$key")" >/dev/null) || die "a file in this folder"
if [ -e ns/manifest/hint ]; then
  ok lake inspect file:ns manifest/hint
  is "$(json 'j["kind"]')" hint hint
fi
fails 3 "step $steps is not there: $steps steps are committed" lake inspect file:ns --step "$steps"
fails 3 "no/such" lake inspect file:ns no/such
fails 3 "no namespace at " lake inspect file:nowhere
fails 3 "9999" lake inspect file:ns --version 9999
fails 3 "nothing was committed yet" lake inspect file:empty --version newest
fails 3 "in no segment" lake inspect file:ns --segment $((steps - 1))
fails 2 "choose one" lake inspect file:ns --step 1 --version 1
echo hello >file
fails 6 "not an object of Lakestream" lake inspect file
: >empty.tgb
fails 6 "empty" lake inspect empty.tgb
fails_json 3 NOTFOUND notfound lake inspect file:ns --version 9999 --json
