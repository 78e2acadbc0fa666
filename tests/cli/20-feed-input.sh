# feed text: every kind of input arrives, whole and in order; what cannot be used is said and counted.
. "$(dirname "$0")/lake.inc"

mkdir -p in/b/deep in/bad
printf 'plain text\nwith two lines\n' >in/a.txt
printf 'dos\r\nlines\r\n' >in/crlf.txt
: >in/empty.txt
printf '{"text":"one"}\r\n{"text":"two"}\r\n\r\n{"n":1,"text":"th\\u00e9e \\ud83d\\ude00 \\"q\\""}' >in/b/x.jsonl
printf '{"text":"four"}\n{"text":""}\n{"text":"five"}\n' | gzip >in/b/y.jsonl.gz
printf 'zipped' | gzip >in/b/deep/z.txt.gz
{ printf 'member one, '; } | gzip >in/two.gz
{ printf 'member two'; } | gzip >>in/two.gz
ok lake feed text file:ns in --create --id a --seq-len 24 --mesh 2x3 --rows 2 --json
is "$(json 'j["reason"], j["retired"], j["document_count"], j["skipped_count"], j["empty_count"]')" \
  "('end', True, '9', '0', '3')" summary
is "$(json 'j["commit_count"] <= j["attempt_count"], j["tgb_count"] == j["committed_count"] == j["next_seq"]')" "(True, True)" counts
tgb documents ns a >got
python3 - <<'P' || die "other documents"
import json
assert json.load(open("got")) == ["plain text\nwith two lines\n", "zipped", "one", "two", 'th\u00e9e \U0001F600 "q"',
    "four", "five", "dos\r\nlines\r\n", "member one, member two"], json.load(open("got"))
P
ok lake verify file:ns

# Not UTF-8, not JSON, no such field: passed over with a warning each, or repaired.
printf 'caf\xe9' >in/bad/latin1.txt
printf '{"text":"ok"}\nnonsense\n{"body":"b"}\n' >in/bad/m.jsonl
run lake feed text file:bad in/bad --create --id a --seq-len 8 --json
is $code 0 "exit with skipped documents"
is "$(wc -l <err.log)" 3 "warnings"
grep -q "warning: skipped document 0 (in/bad/latin1.txt, byte 0): not UTF-8" err.log || die "the warning"
is "$(json 'j["document_count"], j["skipped_count"]')" "('1', '3')" "skipped"
is "$(tgb documents bad a)" '["ok"]' documents
run lake feed text file:rep in/bad --create --id a --seq-len 8 --invalid replace --json
is "$(json 'j["document_count"], j["skipped_count"], j["replaced_count"]')" "('2', '2', '1')" "replaced"
is "$(tgb documents rep a)" '["caf\ufffd", "ok"]' "replaced"
run lake feed text file:field in/bad/m.jsonl --create --id a --seq-len 8 --field body
is "$(tgb documents field a)" '["b"]' "--field"
{ for i in $(seq 30); do echo nonsense; done; echo '{"text":"sense"}'; } >many.jsonl
run lake feed text file:many many.jsonl --create --id a --seq-len 8
is "$(wc -l <err.log)" 11 "warnings have an end"
grep -q "30 skipped" out.log || die "but are counted"

# The end of the input: the last TGB is padded, or dropped.
printf 'abcdefghij' >ten.txt
ok lake feed text file:pad ten.txt --create --id a --seq-len 8
is "$(tgb documents pad a)" '["abcdefghij"]' pad
ok lake feed text file:drop ten.txt --create --id a --seq-len 8 --tail drop --json
is "$(json 'j["tgb_count"]')" 1 drop
# More passes follow one another without padding between; limits stop early.
ok lake feed text file:passes ten.txt --create --id a --seq-len 8 --epochs 3
is "$(tgb documents passes a)" '["abcdefghij", "abcdefghij", "abcdefghij"]' passes
ok lake feed text file:ever ten.txt --create --id a --seq-len 8 --epochs 0 --max-tgbs 20 --rate 1000 --json
is "$(json 'j["tgb_count"], j["reason"], j["retired"]')" "('20', 'limit', True)" "for ever, but 20"
ok lake feed text file:ever ten.txt --id a --epochs 0 --max-tgbs 20 --json
is "$(json 'j["tgb_count"], j["next_seq"]')" "('0', '20')" "20 in all"
ok lake feed text file:ever ten.txt --id a --epochs 0 --limit-tgbs 3 --stats-file stats --json
is "$(json 'j["tgb_count"], j["next_seq"], j["retired"]')" "('3', '23', False)" "3 more"
python3 -c 'import json; l=[json.loads(x) for x in open("stats")]; assert len(l)==1 and l[0]["next_seq"]=="23"' || die stats
# An input without a usable document goes round once, not for ever.
ok lake feed text file:none in/empty.txt --create --id a --seq-len 8 --epochs 0 --json
is "$(json 'j["tgb_count"], j["reason"]')" "('0', 'end')" "nothing to feed"

# Compressed slices hold the same tensors.
ok lake feed text file:z /usr/share/common-licenses/Apache-2.0 --create --id a --seq-len 512 --codec zstd
ok lake verify file:z
[ "$(find z/data -name '*.tgb' -printf '%s\n' | awk '{n += $1} END {print n}')" -lt 60000 ] || die "zstd saved nothing"
