# feed: each way to be refused has its exit code and one line that says what to do; nothing is written.
. "$(dirname "$0")/lake.inc"

echo "some text" >t.txt
fails 3 "no namespace at" lake feed text file:none t.txt --id a
[ ! -e none ] || die "a feeder without --create created something"
fails 2 "--create wants --seq-len" lake feed text file:none t.txt --id a --create
fails 2 "does not divide among C = 2" lake feed text file:none t.txt --id a --create --seq-len 7 --mesh 1x2
[ ! -e none ] || die "a refused --create created something"
fails 2 "--id NAME is missing" lake feed text file:none t.txt
fails 2 "unknown kind of feeder 'txt'" lake feed txt file:none t.txt --id a
fails 2 "is missing" lake feed text file:none --id a
fails 3 "missing.txt" lake feed text file:none t.txt missing.txt --id a --create --seq-len 8
mkdir empty
fails 2 "not one file" lake feed text file:none empty --id a --create --seq-len 8
fails 2 "neither a file nor a folder" lake feed text file:none /dev/null --id a --create --seq-len 8
fails 2 "the index counts from 0" lake feed text file:none t.txt --id a --index 2 --count 2 --create --seq-len 8
fails 2 "--tail cut: choose pad or drop" lake feed text file:none t.txt --id a --tail cut
fails 2 "--rate fast" lake feed text file:none t.txt --id a --rate fast
fails 2 "mem:none: a mem: store" lake feed text mem:none t.txt --id a --create --seq-len 8
[ ! -e none ] || die "something was created"

ok lake init file:ns --mesh 2x2 --rows 2 --text-seq-len 16
cp -r ns before
fails 2 "its sequences have 16 tokens and --seq-len says 32" lake feed text file:ns t.txt --id a --seq-len 32
fails 2 "its slices have 2 rows and --rows says 4" lake feed text file:ns t.txt --id a --rows 4
fails 2 "its mesh is 2x2 and --mesh says 4x1" lake feed text file:ns t.txt --id a --mesh 4x1 --create --seq-len 16
fails 2 "id" lake feed text file:ns t.txt --id 'a/b'
diff -r before ns || die "a refused feeder wrote something"
ok lake init file:raw
fails 2 "its schema has 0 tensors and the text feeder makes 5" lake feed text file:raw t.txt --id a
ok lake init file:near --tensor tokens:u16:8 --tensor labels:u16:8 --tensor position_ids:i64:8 \
  --tensor segment_ids:i32:8 --tensor loss_mask:u8:8
fails 2 "position_ids:i64" lake feed text file:near t.txt --id a
fails_json 2 INVALID usage lake feed text file:near t.txt --id a --json

# Namespace and flags that fit: with and without saying them again.
ok lake feed text file:ns t.txt --id a --create --seq-len 16 --rows 2 --mesh 2x2
ok lake feed text file:ns t.txt --id b

ok lake init file:one --tensor tokens:u16:8
fails 2 "its schema has 1 tensor and the text feeder makes 5" lake feed text file:one t.txt --id a
ok lake feed text file:ns t.txt --id b
is "$(cat out.log)" "b: 0 TGBs fed, next is 1 (end); nothing to commit; 0 documents, 0 skipped" "summary of a start with nothing to do"
ok lake feed text file:ns t.txt --id b --json
is "$(json 'j["tgb_count"], j["mb_per_second"]')" "('0', 0)" "the same as JSON"

# A link that leads nowhere is named and passed over; an input of which nothing can be used is refused.
mkdir links
echo "some text" >links/a.txt
ln -s nowhere links/b.txt
ln -s c.txt links/c.txt
run lake feed text file:ns links --id l
is "$code $(cat err.log)" "0 lake feed: warning: skipped links/b.txt: a symbolic link that leads to no file
lake feed: warning: skipped links/c.txt: a symbolic link that leads to no file" "links that lead nowhere"
grep -q "^l: 1 TGB fed, next is 1 (end); .* 1 document, 0 skipped$" out.log || die "summary"
fails 3 "links/b.txt" lake feed text file:ns links/b.txt --id m
printf '\377\376\n' >bytes.txt
run lake feed text file:ns bytes.txt --id s
is $code 2 "nothing but skipped documents"
is "$(tail -1 err.log)" "lake feed: not one usable document: all 1 of s were skipped (see the warnings); give another input or other options" "text"
ok lake ls file:ns --producers --json
is "$(json '[p["retired"] for p in j["producers"] if p["id"] == "s"]')" "[False]" "not finished"
ok lake feed text file:ns bytes.txt --id s2 --index 1 --count 2
ok lake feed text file:ns bytes.txt --id s3 --invalid replace

# A damaged input: what was fed before it stays, the error names the file, and a repaired file goes on.
mkdir in
head -c 3000 /usr/share/common-licenses/Apache-2.0 >in/a.txt
head -c 30000 /usr/share/common-licenses/GPL-3 | gzip >in/b.txt.gz
cp in/b.txt.gz good.gz
truncate -s 4000 in/b.txt.gz
fails 6 "in/b.txt.gz: the compressed file is cut short" lake feed text file:cut in --create --id a --seq-len 64 --json
ok lake verify file:cut

# No patience at all: what was appended cannot be visible yet. It ends in 7, and the next start goes on.
ok lake init file:late --text-seq-len 64
fails 7 "a: " lake feed text file:late /usr/share/common-licenses/GPL-3 --id a --timeout 0
fails_json 7 TIMEOUT timeout lake feed text file:late /usr/share/common-licenses/GPL-3 --id a --timeout 0 --json
ok lake feed text file:late /usr/share/common-licenses/GPL-3 --id a
ok lake verify file:late

# The older incarnation of an id is fenced with 4 while it runs.
for i in $(seq 20000); do echo 'a line of text that goes on and on'; done >long.txt
mkdir fence
lake feed text file:fence long.txt --create --id a --seq-len 64 --rate 50 >old.out 2>old.err &
old=$!
while [ "$(find fence -name '*.tgb' | wc -l)" -lt 3 ]; do kill -0 $old || die "gone: $(cat old.err)"; sleep 0.01; done
ok lake feed text file:fence long.txt --id a --limit-tgbs 5
code=0
wait $old || code=$?
is $code 4 "the fenced feeder"
is "$(wc -l <old.err)" 1 "one line"
ok lake verify file:fence

# A start that is refused fences nobody: the feeder of that id that runs goes on and drains.
mkdir calm
lake feed text file:calm long.txt --create --id a --seq-len 64 --rate 50 >old.out 2>old.err &
old=$!
committed() { lake ls file:calm --json 2>/dev/null | python3 -c 'import json,sys; print(json.load(sys.stdin)["next_step"])' 2>/dev/null || echo 0; }
while [ "$(committed)" -lt 1 ]; do kill -0 $old || die "gone: $(cat old.err)"; sleep 0.01; done
fails 2 "other options" lake feed text file:calm long.txt --id a --document-max 999999
fails 2 "the input of a changed" lake feed text file:calm t.txt --id a
kill -TERM $old
code=0
wait $old || code=$?
is "$code $(cat old.err)" "0 " "the feeder that ran while another start was refused"
ok lake ls file:calm --producers --json
is "$(json 'j["producers"][0]["epoch"]')" 1 "epochs claimed"
