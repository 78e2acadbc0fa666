#!/bin/bash
# What every store must do, on each cloud dialect of the library at our own server (tests/support/faultd/), which checks
# every signature and gives small pages of listings: also where no real server can be had.
set -eu
export LC_ALL=C
scratch=$(mktemp -d)
pid=
token_pid=
trap 'kill $pid $token_pid 2>/dev/null || true; rm -rf "$scratch"' EXIT
unset "${!AWS_@}" "${!AZURE_@}" "${!GOOGLE_@}" STORAGE_EMULATOR_HOST
export HOME=$scratch AWS_EC2_METADATA_DISABLED=true NO_GCE_CHECK=true
secret=bm90LWEtc2VjcmV0LW9mLWFueWJvZHk= # base64, as Azure's are

# serve DIALECT OPTIONS...: starts a server and sets $endpoint
serve() {
  [ -z "$pid" ] || kill "$pid"
  : >"$scratch/url"
  "$LAKE_BIN/faultd" --dialect "$@" --page 7 </dev/null >"$scratch/url" &
  pid=$!
  until [ -s "$scratch/url" ]; do
    kill -0 "$pid"
    sleep 0.05
  done
  endpoint=$(cat "$scratch/url")
}

# Gives the token that the environment names to whoever asks, as the machines of Google and of Azure do.
cat >"$scratch/tokens.py" <<'PYTHON'
import http.server, json, os, sys
class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked = self.headers.get("Metadata-Flavor") == "Google" or self.headers.get("Metadata") == "true"
        body = json.dumps({"access_token": os.environ["TOKEN"], "expires_in": "3600"} if asked else {}).encode()
        self.send_response(200 if asked else 400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
print("127.0.0.1:%d" % server.server_port, flush=True)
server.serve_forever()
PYTHON
token=ya29.a-token-of_the.machine
TOKEN=$token python3 "$scratch/tokens.py" >"$scratch/tokens" &
token_pid=$!
until [ -s "$scratch/tokens" ]; do
  kill -0 "$token_pid"
  sleep 0.05
done
token_host=$(cat "$scratch/tokens")

# suite NAME URL: all of it there, and only there
suite() {
  local program
  echo "== $1: $2"
  for program in contract removal races; do
    LAKE_CONFORMANCE_URL=$2 LAKE_CONFORMANCE_ONLY_URL=1 "$LAKE_BIN/test_conformance_$program"
  done
}

serve s3 --auth KEY "$secret" --region eu-test-1
AWS_ACCESS_KEY_ID=KEY AWS_SECRET_ACCESS_KEY=$secret AWS_ENDPOINT_URL=$endpoint AWS_REGION=eu-test-1 \
  suite 'S3' 's3://bucket/prefix'

serve gcs --auth KEY "$secret"
GOOGLE_ACCESS_KEY_ID=KEY GOOGLE_SECRET_ACCESS_KEY=$secret STORAGE_EMULATOR_HOST=$endpoint \
  suite 'GCS, HMAC keys' 'gs://bucket/prefix'

serve gcs
STORAGE_EMULATOR_HOST=$endpoint suite 'GCS, JSON API' 'gs://bucket/prefix'

serve gcs --token "$token"
NO_GCE_CHECK='' GCE_METADATA_HOST=$token_host suite 'GCS, a token' "gs://bucket/prefix?endpoint=$endpoint"

serve azure --auth account "$secret"
AZURE_STORAGE_ACCOUNT=account AZURE_STORAGE_KEY=$secret AZURE_STORAGE_BLOB_ENDPOINT=$endpoint \
  suite 'Azure' 'az://container/prefix'

sas=$(python3 "$LAKE_SOURCE_DIR/tests/support/azure_sas.py" account "$secret" container racwdl)
AZURE_STORAGE_ACCOUNT=account AZURE_STORAGE_SAS_TOKEN=$sas AZURE_STORAGE_BLOB_ENDPOINT=$endpoint \
  suite 'Azure, a shared access signature' 'az://container/sas'

serve azure --token "$token"
AZURE_STORAGE_ACCOUNT=account AZURE_POD_IDENTITY_AUTHORITY_HOST=http://$token_host AZURE_STORAGE_BLOB_ENDPOINT=$endpoint \
  suite 'Azure, a token' 'az://container/prefix'
