# reclaim and ls --pins: what pins need stays, the rest goes, and what is left verifies and is fed on.
. "$(dirname "$0")/lake.inc"

for i in $(seq 60); do printf 'document %d says nothing of note, but says it %d times over\n' $i $i; done >t.txt
ok lake init file:ns --text-seq-len 16 --tail-max 4 --version-block 4
ok lake feed text file:ns t.txt --id a --limit-tgbs 60
is "$(find ns/data -name '*.tgb' | wc -l)" 60 "TGBs"

ok lake ls file:ns --pins --json
is "$(json 'j["pins"]')" "[]" "no pins"
ok lake reclaim file:ns --json
is "$(json '(j["dry_run"], j["first_live_step"], j["pin_count"], j["tgbs"]["count"], "pinned_step" in j)')" \
  "(False, '0', '0', '0', False)" "without a pin no step goes"
ok lake reclaim file:ns --before 20 --dry-run --json
is "$(json '(j["dry_run"], j["first_live_step"], j["tgbs"]["count"])')" "(True, '20', '20')" "a dry run tells"
is "$(json '(j["announcements"]["count"], j["announcements"]["bytes"])')" "('0', '0')" "announcements are counted, too"
cp out.log dry.json
ok lake ls file:ns --json
is "$(json '(j["first_live_step"], len(j["steps"]))')" "('0', 60)" "a dry run does nothing"
ok lake reclaim file:ns --before 20 --json
is "$(json 'all(j[k] == json.load(open("dry.json"))[k] for k in ("first_live_step", "tgbs", "manifests", "in_flight"))')" True \
  "the dry run told the truth"
is "$(find ns/data -name '*.tgb' | wc -l)" 40 "TGBs that are left"
is "$(find ns/boundary/line -type f 2>/dev/null | wc -l)" 0 "lines"
ok lake ls file:ns --json
is "$(json '[int(s["step"]) for s in j["steps"]] == list(range(20, 60))')" True "the steps that live"
ok lake verify file:ns --chain all
fails 3 "was reclaimed" lake inspect file:ns --step 19
ok lake reclaim file:ns --before 20
grep -q "^deleted 0 TGBs (0 bytes)" out.log || die "nothing is left to do"
fails 2 "--before 0: a whole number from 1" lake reclaim file:ns --before 0
fails 2 "--dry-rn" lake reclaim file:ns --dry-rn
fails 2 "URL" lake reclaim
fails 3 "no namespace at" lake reclaim file:nowhere
fails_json 3 NOTFOUND notfound lake reclaim file:nowhere --json

echo x >ns/data/notes.txt
run lake reclaim file:ns
is $code 0 "a foreign file"
grep -q "warning: 1 objects have names that are not Lakestream's" err.log || die "not told of a foreign file"
[ -e ns/data/notes.txt ] || die "a foreign file was deleted"
rm ns/data/notes.txt

# Pins are written by hand, from docs/format/pin.md, so that they do not lean on the code under test.
/usr/bin/python3 -c 'import xxhash' 2>/dev/null || { echo "no python3-xxhash: pins were not tested"; exit 0; }
pin() { # checkpoint, step (one row a step)
  mkdir -p ns/watermark/g
  /usr/bin/python3 - "$1" "$2" <<'P'
import json, sys, xxhash
uuid = json.load(open("ns/lakestream.json"))["uuid"]
body = '{\n\t"kind":\t"lakestream-pin",\n\t"format":\t1,\n\t"namespace":\t"%s",\n\t"row":\t"%s",\n\t"step":\t"%s",\n\t"version":\t"0",\n' % (
    uuid, sys.argv[2], sys.argv[2])
open("ns/watermark/g/%s.json" % sys.argv[1], "w").write(body + '\t"check":\t"%016x"\n}\n' % xxhash.xxh3_64_intdigest(body))
P
}
pin old 30
pin new 45
pin void 7
ok lake ls file:ns --pins --json
is "$(json '[(p["group"], p["checkpoint"], p["step"], p["holds"]) for p in j["pins"]]')" \
  "[('g', 'new', '45', True), ('g', 'old', '30', True), ('g', 'void', '7', False)]" pins
ok lake ls file:ns --pins
is "$(tail -n +3 out.log | wc -l)" 3 "lines of pins"
grep -q " void " out.log || die "a void pin"
fails 2 "choose one" lake ls file:ns --pins --producers
run lake reclaim file:ns --before 40 --json
is $code 0 "reclaim with pins"
grep -q "warning: 1 pins lie below the first live step" err.log || die "not told of a void pin"
is "$(json '(j["first_live_step"], j["pin_count"], j["pinned_step"], j["void_pin_count"])')" "('30', '2', '30', '1')" "pins bound --before"
rm ns/watermark/g/void.json
before=$(find ns -type f | wc -l)
sed -i 's/"45"/"46"/' ns/watermark/g/new.json
fails 6 "watermark/g/new.json" lake reclaim file:ns
is "$(find ns -type f | wc -l)" "$before" "nothing goes while a pin cannot be read"
pin new 45
rm ns/watermark/g/old.json
ok lake reclaim file:ns --json
is "$(json 'j["first_live_step"]')" 45 "the older checkpoint was dropped"
ok lake verify file:ns --chain all
ok lake feed text file:ns t.txt --id a --limit-tgbs 5
ok lake verify file:ns
ok lake ls file:ns --json
is "$(json '(j["next_step"], len(j["steps"]))')" "('65', 20)" "the stream goes on"
