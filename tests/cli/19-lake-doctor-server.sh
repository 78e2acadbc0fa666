# doctor and init against the fault server, in each dialect: an honest one passes, with every setting's source and no
# secret; one that ignores or inverts the condition of a create, keeps versions, or reads and lists wrong, is refused.
. "$(dirname "$0")/lake.inc"
command -v curl >/dev/null || { echo "no curl, which tells the server what to do wrong"; exit 77; }
unset "${!AWS_@}" "${!AZURE_@}" "${!GOOGLE_@}" "${!GCS_@}" "${!STORAGE_@}" LAKESTREAM_FORCE
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_EC2_METADATA_DISABLED=true
secret=U2VjcmV0L2tleStvZi9hK3Rlc3Q= # in base64, as Azure wants it
passed="['bucket ok', 'create ok', 'race ok', 'read ok', 'list ok', 'remove ok', 'speed ok']"

server() { # dialect, options...: starts one in place of the last; $url
  [ -z "${COPROC_PID:-}" ] || { kill "$COPROC_PID"; wait "$COPROC_PID" 2>/dev/null || :; }
  coproc "$LAKE_BIN/faultd" --dialect "$@"
  read -r url <&"${COPROC[0]}"
}
rules() { # rule...: instead of those before; the objects go, too
  curl -sS -d objects "$url/_reset" >/dev/null
  [ $# -eq 0 ] || printf '%s\n' "$@" | curl -sS --data-binary @- "$url/_faults"
}
checks() { json '[c["name"]+" "+c["result"] for c in j["checks"]]'; }
source_of() { json "[s['source'] for s in j['settings'] if s['name'] == '$1'][0]"; }
no_secret() { ! grep -qF -- "$secret" out.log err.log || die "the secret is shown"; }
refused() { # check, words in its text: the last command was refused for that
  is "$code" 9 "exit code"
  is "$(json "[c['result'] for c in j['checks'] if c['name'] == '$1'][0]")" failed "$1"
  json "[c['text'] for c in j['checks'] if c['name'] == '$1'][0]" | grep -qF -- "$2" || die "not about '$2'"
  is "$(json 'j["verdict"], j["error"]["status"], j["left_count"]')" "('refused', 'UNSUPPORTED', '0')" verdict
  grep -q "is no store for Lakestream: " err.log || die "no line on stderr"
}

lies() { # URL: what every dialect's init does with servers that lie, and with an honest one
  rules "ignore-condition count=all"
  fails 9 "a name can be created twice" lake init "$1"
  rules "invert-condition count=all"
  fails 9 "the condition is turned round" lake init "$1"
  fails 3 "no namespace" lake ls "$1"
  rules
  ok lake init "$1" --json
  no_secret
  ok lake inspect "$1" lakestream.json
  is "$(json 'j["store_check"]')" passed "what is noted of the check"
  fails 4 "already holds namespace" lake init "$1"
  # Nor is it overwritten where conditions have come to count for nothing since.
  local before
  before=$(lake inspect "$1" lakestream.json)
  echo "ignore-condition count=all" | curl -sS --data-binary @- "$url/_faults"
  fails 4 "already holds namespace" lake init "$1"
  fails 4 "already holds namespace" lake init --force "$1"
  is "$(lake inspect "$1" lakestream.json)" "$before" "lakestream.json"
  echo "bit-flip op=get count=all" | curl -sS --data-binary @- "$url/_faults"
  fails 6 "something else is at lakestream.json; check the URL and the endpoint" lake init "$1"
  curl -sS -d rules "$url/_reset" >/dev/null
  ok lake verify "$1"
}

server s3 --auth THEKEY "$secret" --page 100
export AWS_ENDPOINT_URL=$url AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=THEKEY AWS_SECRET_ACCESS_KEY=$secret
ok lake doctor s3://bucket/run
no_secret
grep -q "^  region  *us-east-1  *AWS_REGION$" out.log || die "no region"
grep -q "^  credentials  *AWS_ACCESS_KEY_ID in the environment$" out.log || die "no credentials"
grep -q "^  clock  *the server's " out.log || die "no clock"
grep -q "1100 objects are listed" out.log || die "no pages"
for level in warn info debug; do
  LAKESTREAM_LOG=$level run lake ls s3://bucket/none
  is "$code" 3 "LAKESTREAM_LOG=$level"
  told=0
  grep -q "^lake: info: credentials for " err.log || told=1
  is $told $([ $level = warn ] && echo 1 || echo 0) "LAKESTREAM_LOG=$level tells of credentials"
done
ok lake doctor s3://bucket/run --json
no_secret
is "$(checks)" "$passed" checks
is "$(source_of endpoint)" AWS_ENDPOINT_URL endpoint
is "$(json 'j["credentials"], j["verdict"], j["left_count"], abs(j["clock_ahead_s"]) < 60')" \
  "('AWS_ACCESS_KEY_ID in the environment', 'ok', '0', True)" rest
lies s3://bucket/honest

rules "ignore-condition count=all"
run lake doctor s3://bucket/run --json
refused create "a name can be created twice"
is "$(json '[c["result"] for c in j["checks"] if c["name"] == "race"][0]')" failed race
run lake doctor s3://bucket/run --json --force
is $code 0 "--force"
is "$(json 'j["verdict"], "error" in j')" "('forced', False)" "--force"
grep -q "warning: .*is no store for Lakestream: .*may be lost" err.log || die "no warning"
run lake init s3://bucket/forced --force
is $code 0 "init --force"
grep -q "warning: .*may be lost" err.log || die "no warning of init"
rules "range-ignored count=all"
run lake doctor s3://bucket/run --json
refused read "the range was ignored"
rules "stale-list count=all"
run lake doctor s3://bucket/run --json
refused list "a listing is not what was written"
# What the network does is no lie.
rules "error-500 op=create count=all"
fails 5 "could not be carried out" lake doctor s3://bucket/run
rules "drop-reply op=create" "taken-304 count=all" "skew count=all"
run lake doctor s3://bucket/run --json
is "$code$(checks)" "0$passed" "an honest server behind a bad line"
is "$(json '900 < j["clock_ahead_s"] < 1020')" True skew
grep -q "warning: this machine's clock and the server's differ by 9[0-9][0-9] s" err.log || die "no warning of the clock"
AWS_SECRET_ACCESS_KEY=wrong fails_json 8 DENIED credentials lake doctor s3://bucket/run --json
is "$(json 'j["verdict"], len(j["settings"]) > 5')" "('unknown', True)" "a wrong key"

server s3 --versioned
export AWS_ENDPOINT_URL=$url
run lake doctor s3://bucket/run --json
refused bucket version
fails 9 version lake init s3://bucket/run
grep -qF "; use another store (lake doctor tells more), or create it all the same with --force; LAKESTREAM_FORCE" err.log || die "no advice"
echo "some words" >words.txt
export LAKESTREAM_FORCE=1
fails 9 "or create it all the same with lake init --force; --create has no way" \
  lake feed text --create --seq-len 8 --id a s3://bucket/fed words.txt
unset LAKESTREAM_FORCE
# A namespace that nobody asked about.
ok lake init --text-seq-len 8 file:old
curl -sSf -T old/lakestream.json "$url/bucket/old/lakestream.json"
fails 9 "or feed it all the same with LAKESTREAM_FORCE=1" lake feed text --id a s3://bucket/old words.txt
run env LAKESTREAM_FORCE=1 lake feed text --id a s3://bucket/old words.txt
is $code 0 "LAKESTREAM_FORCE"

server s3 --suspended
export AWS_ENDPOINT_URL=$url
run lake doctor s3://bucket/run --json
refused bucket "versioning of bucket bucket is suspended, which is not off"
fails 9 suspended lake init s3://bucket/run
run lake init --force s3://bucket/run
is "$code" 0 "a suspended bucket all the same"

server azure --auth thekey "$secret"
export AZURE_STORAGE_ACCOUNT=thekey AZURE_STORAGE_KEY=$secret AZURE_STORAGE_BLOB_ENDPOINT=$url/thekey
ok lake doctor az://container/run --json
no_secret
is "$(checks)" "$passed" checks
lies az://container/honest

server gcs
export STORAGE_EMULATOR_HOST=$url
ok lake doctor gs://bucket/run --json
is "$(checks)" "$passed" checks
lies gs://bucket/honest
