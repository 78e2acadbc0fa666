# verify: a good stream has no fault; each kind of damage is found, named, and ends in 6 without a change to anything.
. "$(dirname "$0")/lake.inc"

mkdir in
for i in $(seq 20); do printf 'document %d of the twenty, some words, more words\n' $i >in/$i.txt; done
ok lake init file:good --mesh 2x2 --text-seq-len 16 --tail-max 8
ok lake feed text file:good in --id a
ok lake verify file:good --json
is "$(json 'j["ok"], j["fault_count"], j["faults"]')" "(True, '0', [])" "a good stream"
steps=$(json 'j["step_count"]')
is "$(json 'int(j["tgb_count"]), int(j["slice_count"])')" "($steps, $((steps * 4)))" "all was read"
ok lake verify file:good --chain all --json
is "$(json 'j["manifest_count"] == j["version"]')" True "the whole chain"
ok lake verify file:good --fast
grep -q "no fault" out.log || die "text of --fast"
ok lake verify file:good --from 3 --to 9 --json
is "$(json 'j["step_count"]')" 6 range
fails 2 "--from $steps: only $steps steps are committed" lake verify file:good --from "$steps"
fails 2 "--to $((steps + 1)): only $steps steps are committed" lake verify file:good --to $((steps + 1))
fails 2 "steps 4 to 3: that range is empty" lake verify file:good --from 4 --to 3
fails 2 "steps 3 to 3: that range is empty" lake verify file:good --from 3 --to 3
fails_json 2 INVALID usage lake verify file:good --from 1000 --json
fails 2 "--chain none: 'all' or a whole number" lake verify file:good --chain none
for jobs in 1 16; do ok lake verify file:good --jobs $jobs; done
ok lake init file:empty
ok lake verify file:empty
ok lake init file:z --text-seq-len 256 --codec zstd
ok lake feed text file:z /usr/share/common-licenses/Apache-2.0 --id a
ok lake verify file:z

object() { (cd good && lake inspect . --step "$1") | python3 -c 'import json,sys; print(json.load(sys.stdin)["key"])'; }
flip() { # file, offset: one bit
  python3 - "$1" "$2" <<'P'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[int(sys.argv[2])] ^= 4
open(sys.argv[1], "wb").write(data)
P
}
damaged() { # kind of fault, words of it
  find bad -type f -exec sha256sum {} + | sort >before
  fails 6 "fault" lake verify file:bad
  grep -q "^fault: $1 .*$2" out.log || die "no fault '$1' with '$2'"
  awk '/^fault: /{o = $3; sub(/:$/, "", o); n = gsub(o, "&"); if (n != 1 || gsub(/restore/, "&") > 1) exit 1}' out.log ||
    die "a fault names its object or the remedy more than once"
  run lake verify file:bad --json
  is $code 6 "exit with --json"
  is "$(json 'j["ok"], int(j["fault_count"]) == len(j["faults"]) > 0, j["faults"][0]["kind"]')" "(False, True, '$1')" "JSON report"
  find bad -type f -exec sha256sum {} + | sort >after
  cmp -s before after || die "verify changed something"
  rm -rf bad
}
fresh() { rm -rf bad; cp -r good bad; }

key=$(object 5)
fresh; flip "bad/$key" 100; damaged tgb "slice 0.*step 5 cannot be read"
fresh; flip "bad/$key" 100; lake verify file:bad --fast >/dev/null || die "--fast reads no slices"
fresh; truncate -s -7 "bad/$key"; damaged tgb "its descriptor says"
fresh; truncate -s 0 "bad/$key"; damaged tgb "has 0 bytes"
fresh; flip "bad/$key" -1; damaged tgb footer
fresh; flip "bad/$key" -1; run lake verify file:bad --fast; is $code 6 "--fast reads footers"
fresh; rm "bad/$key"; damaged tgb "is missing"
fresh; cp "bad/$(object 6)" "bad/$key"; damaged tgb "another TGB"
fresh; flip "bad/$key" 3; damaged tgb "not a TGB"

segment=$(find good/segment -name '*.segment' | sort | head -1); segment=${segment#good/}
fresh; rm "bad/$segment"; damaged segment "is missing"
fresh; flip "bad/$segment" 50; damaged segment "$(basename "$segment")"

# Damaged manifests: the newest cannot be passed over, an older one only breaks the chain.
newest=$(lake inspect file:good --version newest | python3 -c 'import json,sys; print(json.load(sys.stdin)["version"])')
name() { printf 'manifest/%020d.manifest' "$1"; }
fresh; truncate -s -3 "bad/$(name "$newest")"
for c in verify ls; do
  fails 6 "the newest version cannot be read: file:$PWD/bad: $(name "$newest"): " lake $c file:bad
  is "$(grep -o "$(name "$newest")" err.log | wc -l)" 1 "names of the object"
  grep -q "; restore the object$" err.log || die "no remedy"
done
fresh; flip "bad/$(name $((newest - 1)))" 60; damaged manifest "cannot be read"

# Manifests that are missing: found by what is left, wherever they were.
mv good plain
ok lake init file:good --mesh 2x2 --text-seq-len 16 --tail-max 8
for i in $(seq 6); do ok lake feed text file:good in --id a --limit-tgbs 3; done
version() { lake inspect file:good "$@" | python3 -c 'import json,sys; print(json.load(sys.stdin)["version"])'; }
for i in $(seq 20); do # until the hint is two versions behind: how many versions a feeder makes is its own affair
  ok lake feed text file:good in/1.txt --id b$i
  newest=$(version --version newest) hint=$(version manifest/hint)
  [ "$newest" -lt $((hint + 2)) ] || break
done
ok lake verify file:good --chain all
fresh; rm "bad/$(name $((hint + 1)))"
damaged manifest "$(name $((hint + 1))): it is missing, yet version $((hint + 2)) is there; whatever was committed after version $hint is lost"
fresh; rm bad/manifest/hint "bad/$(name 5)" "bad/$(name 6)"
damaged manifest "$(name 5): it and all to version 6 are missing, yet version 7 is there"
fresh; rm "bad/$(name 1)"
damaged manifest "$(name 1): it is missing, yet version 2 is there; a reader that stands before it sees nothing newer"
fresh; for v in $(seq $hint $newest); do rm "bad/$(name $v)"; done
damaged manifest "$(name $hint): it is missing, yet manifest/hint knows of version $hint"
fresh; rm -r bad/manifest
damaged manifest "$(name 1): it is missing, yet data/.*tgb is of an epoch that no version before claims"
fresh; rm -r bad/manifest/*
run lake verify file:bad
grep -q "yet segment/.* knows of version" out.log || die "a segment tells no version"
# A pin needs what the newest version does not know.
pin() { # row, step, version
  PYTHONPATH=/dev/null /usr/bin/python3 - bad "$@" <<'P'
import json, os, sys, xxhash
root, row, step, version = sys.argv[1:]
members = {"kind": "lakestream-pin", "format": 1, "namespace": json.load(open(root + "/lakestream.json"))["uuid"],
           "row": row, "step": step, "version": version}
text = json.dumps(members, indent="\t")[:-2] + ",\n"
os.makedirs(root + "/watermark/g")
open(root + "/watermark/g/c.json", "w").write(text + '\t"check":\t"%s"\n}\n' % xxhash.xxh3_64_hexdigest(text.encode()))
P
}
if /usr/bin/python3 -c 'import xxhash' 2>/dev/null; then
  fresh; pin 2 1 2; ok lake verify file:bad
  fresh; pin 9998 4999 2; damaged manifest "yet watermark/g/c.json needs step 4999"
  fresh; pin 2 1 4999; damaged manifest "yet watermark/g/c.json knows of version 4999"
fi
# Names under a boundary mark are dead, so missing ones are no fault; a mark above all versions is one.
rm -rf good
ok lake init file:good --text-seq-len 16 --version-block 4
for i in $(seq 12); do ok lake feed text file:good in --id a --limit-tgbs 1; done
fresh; mkdir bad/boundary; : >bad/boundary/00000000000000000000; : >bad/boundary/00000000000000000001
for v in 1 2 4 5 6 7; do rm "bad/$(name $v)"; done
ok lake verify file:bad --chain all
rm "bad/$(name 9)"; damaged manifest "$(name 9): it is missing, yet version 10 is there"
fresh; mkdir bad/boundary; : >bad/boundary/00000000000000000099
damaged manifest "yet boundary/0*99 knows of version 400"
rm -rf good; mv plain good
newest=$(lake inspect file:good --version newest | python3 -c 'import json,sys; print(json.load(sys.stdin)["version"])')

# Every bad version of the chain is one line.
ok lake init file:long --text-seq-len 16
for i in $(seq 12); do ok lake feed text file:long in --id a --limit-tgbs 1; done
for v in 3 4 9; do flip "long/$(name $v)" 60; done
fails 6 "3 faults" lake verify file:long --chain all
for v in 3 4 9; do is "$(grep -c "^fault: manifest $(name $v): " out.log)" 1 "lines on version $v"; done
is "$(grep -c '^fault: ' out.log)" 3 "lines"

# Two histories of one namespace: version k of the other one does not follow version k-1 of this one.
ok lake init file:other --schema good/lakestream.json
cp good/lakestream.json other/lakestream.json
for i in 1 2 3; do ok lake feed text file:other in/$i.txt --id b$i; done
newest_other=$(lake inspect file:other --version newest | python3 -c 'import json,sys; print(json.load(sys.stdin)["version"])')
k=$((newest < newest_other ? newest : newest_other))
[ $k -ge 2 ] || die "too few versions"
fresh
for v in $(seq $((k + 1)) "$newest"); do rm "bad/$(name "$v")"; done
rm -f bad/manifest/hint
cp "other/$(name $k)" "bad/$(name $k)"
cp -r other/data other/segment bad/ 2>/dev/null || :
damaged chain "readers disagree"

fresh
printf 'x' >bad/lakestream.json
fails 6 "file:$PWD/bad: lakestream.json: not valid JSON at line 1 column 1; restore the object" lake verify file:bad
fails 3 "no namespace at" lake verify file:nowhere
fails_json 3 NOTFOUND notfound lake verify file:nowhere --json
