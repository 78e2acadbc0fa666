# No secret is in anything that the programs say, as text or as JSON, when they succeed, when the store fails in every
# way that the fault server knows, and when the credentials are wrong; nor in what LAKESTREAM_LOG=debug adds to it. The
# library alone: tests/fault/secrets.c.
. "$(dirname "$0")/lake.inc"
command -v curl >/dev/null || { echo "no curl, which tells the server what to do wrong"; exit 77; }
unset "${!AWS_@}" "${!AZURE_@}" "${!GOOGLE_@}" "${!STORAGE_@}"
export LAKESTREAM_LOG=debug HOME=$scratch AWS_EC2_METADATA_DISABLED=true NO_GCE_CHECK=true
hidden=aHVzaC1zZWNyZXQta2V5LW9mLXRlc3Rz # in base64, as Azure wants it; others take it as it is
wrong=aHVzaC1hbm90aGVyLWtleS1vZi10ZXN0
token=hush-session-token-of-tests

server() { # dialect, options...: starts one in place of the last; $url
  [ -z "${COPROC_PID:-}" ] || { kill "$COPROC_PID"; wait "$COPROC_PID" 2>/dev/null || :; }
  coproc "$LAKE_BIN/faultd" --dialect "$@"
  read -r url <&"${COPROC[0]}"
}

say() { # command...: whatever becomes of it, what it says is kept
  "$@" --timeout "$limit" >>said.log 2>&1 || failures=$((failures + 1))
  runs=$((runs + 1))
}

work() { # URL: every command that touches a store
  say lake init --mesh 1x1 "$1"
  say lake ls "$1"
  say lake ls "$1" --json
  say lake inspect "$1" lakestream.json --json
  say lake verify "$1" --json
  say lake reclaim "$1"
  say lake seal "$1"
  say lake feed text --id f --index 0 --count 1 "$1" text
}

rules() { curl -sS -X POST "$url/_reset" && printf '%s\n' "$@" | curl -sS --data-binary @- "$url/_faults"; }

honest() { # URL: a namespace under it, made with the right credentials
  limit=60
  say lake init --mesh 1x1 "$1"
  say lake ls "$1" --json
  [ $failures -eq 0 ] || { cp said.log err.log; die "the right credentials are not taken"; }
  limit=0.2
}

under_faults() { # URL
  local fault
  for fault in drop-reply error-500 slowdown-503 error-200 short-body bit-flip range-wrong reset expired-token skew; do
    rules "$fault count=all" >/dev/null
    work "$1"
  done
  rules >/dev/null
}

quiet() { # what this was: none of the secrets was said, and much was
  [ "$(wc -c <said.log)" -gt 1000 ] || die "hardly anything was said: $1"
  [ "$(grep -c '^lake: debug: ' said.log)" -gt 10 ] || die "hardly anything was logged: $1"
  if grep -F -e "$hidden" -e "$wrong" -e "$token" -e hush said.log >out.log; then die "a secret was said: $1"; fi
}

mkdir text
echo "some words to feed" >text/a.txt
runs=0 limit=0.2

server s3 --auth THEKEY "$hidden" --token "$token"
export AWS_ENDPOINT_URL=$url AWS_ACCESS_KEY_ID=THEKEY AWS_SECRET_ACCESS_KEY=$hidden AWS_SESSION_TOKEN=$token
failures=0
honest s3://bucket/run
under_faults s3://bucket/run
AWS_SECRET_ACCESS_KEY=$wrong work s3://bucket/run
AWS_SESSION_TOKEN=hush-wrong-token work s3://bucket/run
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN
mkdir .aws
printf '[default]\naws_access_key_id = THEKEY\naws_secret_access_key = %s\nhush\n' "$hidden" >.aws/credentials
work s3://bucket/run # a file that cannot be read
printf '[default]\ncredential_process = echo %s; exit 1\n' "$hidden" >.aws/credentials
work s3://bucket/run
quiet s3

# In the URL it is refused, and not repeated.
work "s3://THEKEY:$hidden@bucket/run"
work "s3://bucket/run?secret_access_key=$hidden"
work "s3://bucket/run?endpoint=https://me:$hidden@host"
work "s3://bucket/run?$hidden"
work "az://data/run?sv=2021-12-02&sig=$hidden"
quiet "in a URL"

server azure --auth account "$hidden"
export AZURE_STORAGE_ACCOUNT=account AZURE_STORAGE_BLOB_ENDPOINT=$url AZURE_STORAGE_KEY=$hidden
all_failures=$failures failures=0
honest az://bucket/run
under_faults az://bucket/run
AZURE_STORAGE_KEY=$wrong work az://bucket/run
unset AZURE_STORAGE_KEY
AZURE_STORAGE_SAS_TOKEN="sv=2021-12-02&ss=b&sp=rw&sig=$hidden" work az://bucket/run
AZURE_STORAGE_CONNECTION_STRING="AccountName=account;AccountKey=$wrong;BlobEndpoint=$url/account" work az://bucket/run
AZURE_STORAGE_CONNECTION_STRING="AccountName=account;$hidden" work az://bucket/run # one that is cut
quiet azure

server gcs --auth GOOGKEY "$hidden"
export GOOGLE_ACCESS_KEY_ID=GOOGKEY GOOGLE_SECRET_ACCESS_KEY=$hidden
all_failures=$((all_failures + failures)) failures=0
honest "gs://bucket/run?endpoint=$url"
under_faults "gs://bucket/run?endpoint=$url"
GOOGLE_SECRET_ACCESS_KEY=$wrong work "gs://bucket/run?endpoint=$url"
quiet gcs
all_failures=$((all_failures + failures))
[ $all_failures -gt $((runs / 2)) ] || die "only $all_failures of $runs commands failed"
echo "$runs commands, $all_failures of them failed: no secret in $(wc -c <said.log) bytes"
