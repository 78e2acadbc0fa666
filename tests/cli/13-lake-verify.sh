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
fails 6 "$(name "$newest")" lake verify file:bad
fails 6 "$(name "$newest")" lake ls file:bad
fresh; flip "bad/$(name $((newest - 1)))" 60; damaged manifest "cannot be read"

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
fails 6 "lakestream.json" lake verify file:bad
fails 3 "no namespace at" lake verify file:nowhere
fails_json 3 NOTFOUND notfound lake verify file:nowhere --json
