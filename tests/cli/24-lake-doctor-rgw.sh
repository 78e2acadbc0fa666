# doctor on Ceph's gateway: a bucket without versions passes; one that keeps them, and one whose versioning is suspended,
# which lets no deleted name be created again, are refused in plain words.
. "$(dirname "$0")/lake.inc"
. "$LAKE_SOURCE_DIR/tests/servers/use.inc"
use_server rgw
/usr/bin/python3 -c 'import botocore.session' 2>/dev/null || { echo "SKIPPED: no python3-botocore"; exit 77; }

bucket() { # NAME [STATUS...]: made anew, each status set in turn
  /usr/bin/python3 - "$@" <<'P'
import os, sys, botocore.session
from botocore.config import Config
s3 = botocore.session.get_session().create_client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"],
                                                  config=Config(s3={"addressing_style": "path"}))
s3.create_bucket(Bucket=sys.argv[1])
for status in sys.argv[2:]:
    s3.put_bucket_versioning(Bucket=sys.argv[1], VersioningConfiguration={"Status": status})
P
}
refused() { # words of the bucket's check
  is "$code" 9 "exit code"
  json "[c['text'] for c in j['checks'] if c['name'] == 'bucket' and c['result'] == 'failed'][0]" | grep -qF -- "$1" ||
    die "not about '$1'"
}

nonce=$$-$(date +%s)
bucket "plain-$nonce"
ok lake doctor "s3://plain-$nonce/run" --json
is "$(json 'j["verdict"]')" ok "without versions"
bucket "kept-$nonce" Enabled
run lake doctor "s3://kept-$nonce/run" --json
refused "keeps old versions"
bucket "was-$nonce" Enabled Suspended
run lake doctor "s3://was-$nonce/run" --json
refused "versioning of bucket was-$nonce is suspended, which is not off"
is "$(json "[c['result'] for c in j['checks'] if c['name'] == 'remove']")" "['failed']" "what the refusal is for"
fails 9 suspended lake init "s3://was-$nonce/run"
fails 2 "there is no bucket \"gone-$nonce\"" lake inspect "s3://gone-$nonce/run"
