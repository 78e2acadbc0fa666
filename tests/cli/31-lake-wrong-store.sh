# What a newcomer is told whose endpoint is no store, whose credentials are wrong, or who may not do all: by doctor, which
# stops where nothing more can be learned, and by init. The servers: odd_server.py, and the fault server.
. "$(dirname "$0")/lake.inc"
command -v curl >/dev/null || { echo "no curl, which tells the server what to do wrong"; exit 77; }
unset "${!AWS_@}" LAKESTREAM_FORCE
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_EC2_METADATA_DISABLED=true
secret=U2VjcmV0L2tleStvZi9hK3Rlc3Q=
export AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=THEKEY AWS_SECRET_ACCESS_KEY=$secret

start() { # command...: its first line in $line
  [ -z "${COPROC_PID:-}" ] || { kill "$COPROC_PID"; wait "$COPROC_PID" 2>/dev/null || :; }
  coproc "$@"
  read -r line <&"${COPROC[0]}"
}
odd() { # mode
  start python3 "$tests/odd_server.py" "$1"
  export AWS_ENDPOINT_URL=http://127.0.0.1:$line
}
rules() { # rule...: instead of those before; the objects go, too
  curl -sS -d objects "$AWS_ENDPOINT_URL/_reset" >/dev/null
  [ $# -eq 0 ] || printf '%s\n' "$@" | curl -sS --data-binary @- "$AWS_ENDPOINT_URL/_faults"
}
row() { json "[(c['result'], c['text']) for c in j['checks'] if c['name'] == '$1']"; }
has() { grep -qF -- "$1" "${2:-out.log}" || die "no '$1' in ${2:-out.log}"; }

# ---- no store at all ----

odd page
fails 2 "this does not look like S3: a web page answers (HTTP 404), no store; is the endpoint right?" lake ls s3://bucket/run
fails 2 "is the endpoint right?" lake init s3://bucket/run
fails 2 "see above" lake doctor s3://bucket/run
has "is the endpoint right?"

odd yes
fails 6 "something else is at lakestream.json; check the URL and the endpoint" lake init s3://bucket/run
fails 6 "something else is at lakestream.json" lake init --force s3://bucket/run
fails 9 "s3://bucket/run is no store for Lakestream: see \"create\" above; use another store" lake doctor s3://bucket/run
has "an object is found under a name that was never used"
! grep -q "^  race" out.log || die "it went on after a create that says nothing"
run lake doctor --json s3://bucket/run
is "$code $(json 'j["verdict"], j["left_count"]')" "9 ('refused', '0')" "a server that says yes"

odd https
fails 2 "the server wants https here; write https:// in the endpoint" lake ls s3://bucket/run
odd plain
export AWS_ENDPOINT_URL=https://${AWS_ENDPOINT_URL#http://}
fails 8 "the server speaks plain http here: write http:// in the endpoint" lake init s3://bucket/run
fails 8 "\"bucket\" could not be carried out" lake doctor s3://bucket/run
odd closes
fails 5 "does the server want https?" lake init s3://bucket/run

odd silent
for seconds in 0 1; do
  fails 7 "the server has not answered in time" lake init --timeout $seconds s3://bucket/run
  has "$AWS_ENDPOINT_URL/bucket" err.log
  ! grep -q "limit of requests" err.log || die "the limit of requests has nothing to do with it"
done

# ---- credentials ----

start "$LAKE_BIN/faultd" --dialect s3 --auth THEKEY "$secret"
export AWS_ENDPOINT_URL=$line
AWS_SECRET_ACCESS_KEY=wrong fails 8 "\"bucket\" could not be carried out" lake doctor s3://bucket/run
is "$(grep -c "^  bucket  *skipped .*with credentials of AWS_ACCESS_KEY_ID in the environment: access denied: the secret does not belong to this key id" out.log)" 1 "a wrong secret"
! grep -q "^  create" out.log || die "it went on with a wrong secret"
AWS_ACCESS_KEY_ID=another fails 8 "the store does not know this key id" lake init s3://bucket/run
AWS_SECRET_ACCESS_KEY=wrong fails 8 "the secret does not belong to this key id" lake init s3://bucket/run

# ---- rights ----

# May not see the versioning: not known, and not a failure; the creates decide, init's too.
rules "deny-403 op=other key=versioning count=all"
ok lake doctor s3://bucket/run
is "$(grep -c "^  bucket   unknown these credentials may not see the bucket's versioning (HTTP 403 AccessDenied; grant s3:GetBucketVersioning)$" out.log)" 1 unknown
ok lake doctor --json s3://bucket/run
row bucket | grep -q "('unknown', \"these credentials may not see" || die "not unknown in JSON"
is "$(json 'j["verdict"]')" ok verdict
ok lake init s3://bucket/run
rules "deny-403 op=other key=versioning count=all" "ignore-condition count=all"
fails 9 "a name can be created twice" lake init s3://bucket/another
fails 9 "see \"create\" above" lake doctor s3://bucket/another

# May not delete: said as a warning, and little is left.
rules "deny-403 op=delete count=all"
run lake doctor s3://bucket/run
is $code 0 "without the right to delete"
has "  remove   warn    these credentials may not remove objects: lake reclaim needs others"
has "  speed    skipped not measured"
run lake doctor --json s3://bucket/run
is "$code $(json 'j["verdict"], [c["result"] for c in j["checks"]][5:]')" "0 ('ok', ['warn', 'skipped'])" "in JSON"
left=$(json 'j["left_count"]')
[ "$left" -gt 0 ] && [ "$left" -lt 30 ] || die "$left objects are left"

rules "deny-403 op=create count=all"
fails 8 "\"create\" could not be carried out: see above" lake doctor s3://bucket/run
has "these credentials may not write objects here; grant s3:PutObject"

# In a pipe, too, the table comes first, and what it says is said once.
lake doctor s3://bucket/run >both.log 2>&1 || :
is "$(tail -1 both.log)" "lake doctor: s3://bucket/run: the check \"create\" could not be carried out: see above" "the last line"
is "$(grep -c PutObject both.log)" 1 "how often the cause is told"
