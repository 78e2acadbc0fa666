# reclaim on a cloud store that refuses to list unfinished uploads: all else is done and the exit code is 0, but the
# summary says so, in text and in JSON.
. "$(dirname "$0")/lake.inc"
command -v curl >/dev/null || { echo "no curl, which tells the server what to do wrong"; exit 77; }
unset "${!AWS_@}" LAKESTREAM_FORCE
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_EC2_METADATA_DISABLED=true
export AWS_ACCESS_KEY_ID=thekey AWS_SECRET_ACCESS_KEY=thesecret
coproc "$LAKE_BIN/faultd" --dialect s3 --auth thekey thesecret
read -r AWS_ENDPOINT_URL <&"${COPROC[0]}"
export AWS_ENDPOINT_URL

ok lake init s3://bucket/run --text-seq-len 16
for i in $(seq 12); do printf 'document %d says %d things\n' $i $i; done >t.txt
ok lake feed text s3://bucket/run t.txt --id a --limit-tgbs 6
ok lake reclaim s3://bucket/run --before 2 --json
is "$(json 'j["tgbs"]["count"], "upload_error" in j')" "('2', False)" "nothing is refused"

curl -sS --data-binary 'error-500 key=?uploads count=all' "$AWS_ENDPOINT_URL/_faults" >/dev/null
run lake reclaim s3://bucket/run --before 4 --json
is "$code" 0 "exit code"
is "$(json 'j["tgbs"]["count"], j["upload_count"], j["upload_error"]["status"]')" "('2', '0', 'UNAVAILABLE')" "a refusal"
json 'j["upload_error"]["text"]' | grep -q "list uploads" || die "not about the uploads"
run lake reclaim s3://bucket/run
is "$code" 0 "exit code"
grep -q "^left unfinished uploads in parts alone, as far as there are any: .*list uploads" out.log || die "not in the summary"
