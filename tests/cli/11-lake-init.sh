# init: every way to say a schema, and every way to get it wrong. Nothing is created by a command that fails.
. "$(dirname "$0")/lake.inc"

ok lake init file:raw
grep -q "raw slices" out.log || die "text of a raw namespace"
ok lake init file:typed --mesh 4x2 --rows 3 --tensor tokens:u16:128 --tensor image:u8:3x4x5 --tensor weight:f32:- \
  --codec zstd --tail-max 64 --note "a note" --json
is "$(json 'j["namespace"]["mesh"]')" "{'d': 4, 'c': 2}" mesh
is "$(json 'j["namespace"]["rows_per_slice"]')" 3 rows
is "$(json '[(t["name"],t["dtype"],t["shape"]) for t in j["namespace"]["tensors"]]')" \
  "[('tokens', 'u16', ['128']), ('image', 'u8', ['3', '4', '5']), ('weight', 'f32', [])]" tensors
is "$(json 'j["namespace"]["codec"], j["namespace"]["tail_max"], j["namespace"]["note"]')" "('zstd', 64, 'a note')" others
is "$(json 'j["namespace"]["slice_bytes"]')" $((768 + 192 + 64)) "slice bytes, each tensor on 64"

# The next namespace from the last one's lakestream.json: the same but for its identity; the command line wins.
ok lake init file:again --schema typed/lakestream.json --json
is "$(json 'len(j["namespace"]["tensors"]), j["namespace"]["note"], j["namespace"]["codec"]')" "(3, 'a note', 'zstd')" schema
cmp -s typed/lakestream.json again/lakestream.json && die "two namespaces with one uuid"
ok lake init file:wider --schema typed/lakestream.json --mesh 8 --rows 1 --codec none --json
is "$(json 'j["namespace"]["mesh"]["d"], j["namespace"]["mesh"]["c"], j["namespace"]["rows_per_slice"], j["namespace"]["codec"]')" \
  "(8, 1, 1, 'none')" "command line over file"
echo '{"mesh":"2x2","tensors":[{"name":"x","dtype":"bf16","shape":[7]}],"rows_per_slice":"5"}' >mine.json
ok lake init file:mine --schema mine.json --json
is "$(json 'j["namespace"]["tensors"][0]["dtype"], j["namespace"]["rows_per_slice"]')" "('bf16', 5)" mine
ok lake init file:text --mesh 2x4 --rows 2 --text-seq-len 64 --json
is "$(json '[(t["name"],t["dtype"],t["shape"][0]) for t in j["namespace"]["tensors"]]')" \
  "[('tokens', 'u16', '16'), ('labels', 'u16', '16'), ('position_ids', 'i32', '16'), ('segment_ids', 'i32', '16'), ('loss_mask', 'u8', '16')]" text

cp typed/lakestream.json before
fails 4 "already holds namespace" lake init file:typed
cmp -s before typed/lakestream.json || die "init over a namespace changed it"
fails_json 4 EXISTS conflict lake init file:typed --json

fails 2 "does not divide among C = 4 ranks; the nearest that does is 64" lake init file:bad --mesh 2x4 --text-seq-len 63
fails 2 "--mesh 2y4: write DxC" lake init file:bad --mesh 2y4
fails 2 "--mesh 0x4" lake init file:bad --mesh 0x4
fails 2 "--mesh 65536x2" lake init file:bad --mesh 65536x2
fails 2 "write name:dtype:SHAPE" lake init file:bad --tensor tokens
fails 2 "unknown dtype 'u15'" lake init file:bad --tensor tokens:u15:4
fails 2 "SHAPE is" lake init file:bad --tensor tokens:u16:4x0
fails 2 "is taken by" lake init file:bad --tensor x:u16:4 --tensor x:u16:4
fails 2 "choose none or zstd" lake init file:bad --codec lz4
fails 2 "choose one" lake init file:bad --tensor x:u16:4 --text-seq-len 8
fails 2 "raw slices hold one row" lake init file:bad --rows 2
fails 3 "no.json" lake init file:bad --schema no.json
echo '{"mesh":' >bad.json
fails 2 "bad.json: not valid JSON at line 1" lake init file:bad --schema bad.json
echo '{"tensor":[]}' >bad.json
fails 2 "member 'tensor' is unknown" lake init file:bad --schema bad.json
fails 2 "URL" lake init
fails_json 9 UNSUPPORTED unsupported lake init s3x://bucket/x --json
fails 2 "mem:foo: a mem: store lives and ends with one process" lake init mem:foo
fails_json 2 INVALID usage lake init mem:foo --json
for c in ls inspect verify seal reclaim; do fails 2 "mem:foo: a mem: store" lake $c mem:foo; done
fails 3 "file:/proc/foo: lakestream.json: the store's folder cannot be made there" lake init file:/proc/foo
[ ! -e bad ] || die "a command that failed created something"
