#!/bin/bash
# The fault server as an S3 with signatures, asked by botocore: odd keys, pages of a listing, an upload in parts, many
# deleted at once, and wrong credentials refused by their kind. Skipped where botocore is not installed.
set -eu
python=/usr/bin/python3
"$python" -c 'import botocore' 2>/dev/null || { echo "no botocore (python3-botocore): skipped"; exit 77; }
exec "$python" - "$LAKE_BIN/faultd" <<'END'
import subprocess, sys
import botocore.config, botocore.session
from botocore.exceptions import ClientError

SECRET = "not/a+secret="
server = subprocess.Popen([sys.argv[1], "--dialect", "s3", "--auth", "KEY", SECRET, "--token", "TOKEN", "--part-min", "5",
                           "--region", "eu-test-1"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
url = server.stdout.readline().strip()

def client(key="KEY", secret=SECRET, token="TOKEN", region="eu-test-1"):
    session = botocore.session.Session()
    session.set_credentials(key, secret, token)
    config = botocore.config.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0})
    return session.create_client("s3", endpoint_url=url, region_name=region, config=config)

def error_of(call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None

def expect(got, want):
    assert got == want, (got, want)

s3 = client()
keys = ["a b", "a=b@c", "p/q+r%20s", "ünï/ç", "~tilde!*'()", "a&b?c#d;e,f$g:h", 'q"uo<t>e']
for key in keys:
    s3.put_object(Bucket="b", Key=key, Body=key.encode())
    expect(s3.get_object(Bucket="b", Key=key)["Body"].read(), key.encode())
    expect(s3.head_object(Bucket="b", Key=key)["ContentLength"], len(key.encode()))

page = s3.list_objects_v2(Bucket="b", MaxKeys=3)
listed = [row["Key"] for row in page["Contents"]]
while page["IsTruncated"]:
    page = s3.list_objects_v2(Bucket="b", MaxKeys=3, ContinuationToken=page["NextContinuationToken"])
    listed += [row["Key"] for row in page["Contents"]]
expect(listed, sorted(keys, key=str.encode))

expect(error_of(client(secret="other").get_object, Bucket="b", Key="a b"), "SignatureDoesNotMatch")
expect(error_of(client(key="OTHER").get_object, Bucket="b", Key="a b"), "InvalidAccessKeyId")
expect(error_of(client(token="OTHER").get_object, Bucket="b", Key="a b"), "ExpiredToken")

upload = s3.create_multipart_upload(Bucket="b", Key="big one")["UploadId"]
parts = [{"PartNumber": n, "ETag": s3.upload_part(Bucket="b", Key="big one", PartNumber=n, UploadId=upload,
                                                 Body=b"%d" % n * 6)["ETag"]} for n in (1, 2)]
s3.complete_multipart_upload(Bucket="b", Key="big one", UploadId=upload, MultipartUpload={"Parts": parts})
expect(s3.get_object(Bucket="b", Key="big one", Range="bytes=5-6")["Body"].read(), b"12")

expect(len(s3.delete_objects(Bucket="b", Delete={"Objects": [{"Key": key} for key in keys]})["Deleted"]), len(keys))
expect(error_of(s3.get_object, Bucket="b", Key="a b"), "NoSuchKey")

# It ends with the pipe.
server.stdin.close()
expect(server.wait(timeout=60), 0)
END
