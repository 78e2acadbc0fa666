"""Random requests, signed by the program that is given as an argument and by botocore: both must have signed the same
text, come to the same header, and the URL must say what was signed. Called by sign_oracle.sh."""
import collections
import datetime
import json
import os
import random
import subprocess
import sys
from urllib.parse import parse_qsl, quote, urlsplit

import botocore
import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

COUNT = 10000
ODD = "=@ +%~/?&#.-_!'()*;:,$[]\"<>\\^`{|}"
# No unicode blanks: botocore folds those in headers too, the servers do not.
LETTERS = "abcXYZ019" + "\u00e9\u00df\u0416\u05d0\u1234\u2603\u4e2d\ud55c\ufb01\U0001f600\U0010fffd"
CONTROLS = "\x01\t\n\r\x1f\x7f"
HEADER_NAMES = ["range", "content-type", "content-md5", "if-match", "if-none-match", "x-amz-acl", "x-amz-meta-a",
                "x-amz-meta-a-b", "x-amz-meta-a_b", "x-amz-meta-a.b", "x-amz-meta-aa", "x-amz-meta-a1", "z", "0",
                "x-amz-server-side-encryption", "user-agent", "expect", "x-amzn-trace-id"]
QUERY_NAMES = ["prefix", "list-type", "max-keys", "uploads", "uploadId", "partNumber", "delete", "Prefix", "a", "A", "a-",
               "a.", "a~", "aa"]


def text(rng, most, pools):
    return "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(most + 1)))


def header_value(rng):
    parts = [text(rng, 6, [LETTERS, ODD]) for _ in range(rng.randrange(5))]
    return rng.choice(["", " ", "\t ", "   "]) + rng.choice([" ", "  ", " \t ", "\t\t"]).join(parts) + rng.choice(["", "  "])


def random_request(rng):
    pools = [LETTERS, ODD, ODD, CONTROLS] if rng.random() < 0.3 else [LETTERS, ODD]
    query = []
    for _ in range(rng.choice([0, 0, 1, 2, 3, 8])):
        name = rng.choice(QUERY_NAMES) if rng.random() < 0.7 else text(rng, 6, pools) or "n"
        query.append([name, rng.choice(["", "", text(rng, 12, pools)])])
        if rng.random() < 0.2:
            query.append([name, text(rng, 3, pools)])
    headers = {rng.choice(HEADER_NAMES): header_value(rng) for _ in range(rng.choice([0, 1, 3, 8]))}
    origin = rng.choice(["https://bucket.s3.eu-west-1.amazonaws.com", "http://127.0.0.1:9000", "https://h.example:443",
                         "http://h.example:80", "https://h.example:80", "https://h.example:8443", "http://[::1]:7480"])
    return {
        "method": rng.choice(["GET", "PUT", "HEAD", "DELETE", "POST"]),
        "origin": origin,
        "path": "/" + text(rng, 30, pools),
        "query": query,
        "headers": [[name, value] for name, value in headers.items()],
        "body": text(rng, 40, [LETTERS, ODD]) if rng.random() < 0.5 else "",
        "unsigned": origin.startswith("https") and rng.random() < 0.4,
        "region": rng.choice(["us-east-1", "eu-west-1", "auto", "default", ""]),
        "key_id": text(rng, 20, ["ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"]) or "A",
        "secret": text(rng, 40, ["abcXYZ0189/+"]) or "s",
        "session": text(rng, 60, ["abcXYZ0189/+="]) or None if rng.random() < 0.4 else None,
        # Often the same day, so that its key is used again.
        "time": rng.choice([1700000000, 1700000000 + rng.randrange(86400), rng.randrange(4102444800)]),
    }


class Clock(datetime.datetime):
    now_s = 0

    @classmethod
    def utcnow(cls):
        return datetime.datetime.fromtimestamp(cls.now_s, datetime.timezone.utc).replace(tzinfo=None)


def use_clock():
    """botocore asks the time in one of two ways, as old as it is."""
    if hasattr(botocore.auth, "get_current_datetime"):
        botocore.auth.get_current_datetime = lambda remove_tzinfo=True: Clock.utcnow()
    else:
        fake = type(sys)("datetime")
        fake.datetime = Clock
        botocore.auth.datetime = fake


def botocore_signs(r):
    Clock.now_s = r["time"]
    url = r["origin"] + quote(r["path"], safe="/~")
    request = AWSRequest(method=r["method"], url=url, params=[tuple(p) for p in r["query"]], data=r["body"].encode(),
                         headers=dict(r["headers"]))
    request.context["client_config"] = collections.namedtuple("config", "s3")({"payload_signing_enabled": not r["unsigned"]})
    auth = botocore.auth.S3SigV4Auth(Credentials(r["key_id"], r["secret"], r["session"]), "s3", r["region"])
    auth.add_auth(request)
    signature = request.headers["Authorization"]
    del request.headers["Authorization"]
    return auth.canonical_request(request), signature


def check(r, got):
    canonical, authorization = botocore_signs(r)
    assert got["canonical"] == canonical, ("canonical", got["canonical"], canonical)
    assert got["authorization"] == authorization, ("authorization", got["authorization"], authorization)
    blank = any(not value.strip() for _, value in r["headers"])
    assert ("url" not in got) == blank, "a blank header must be refused, as the transport would leave it out"
    if blank:
        return
    parts = urlsplit(got["url"])
    assert parts.scheme + "://" + parts.netloc == r["origin"], got["url"]
    assert parts.path == quote(r["path"], safe="/~"), got["url"]
    pairs = [list(p) for p in parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))]
    assert pairs == r["query"], got["url"]
    sent = sorted(p.partition("=") for p in parts.query.split("&"))
    assert sent == [p.partition("=") for p in canonical.split("\n")[2].split("&")], "the URL is not what was signed"


def main():
    seed = int(os.environ.get("LAKE_SEED") or random.SystemRandom().randrange(1 << 63))
    print(f"seed: LAKE_SEED={seed}; botocore {botocore.__version__}", flush=True)
    rng = random.Random(seed)
    use_clock()
    requests = [random_request(rng) for _ in range(COUNT)]
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    out = subprocess.run([sys.argv[1]], input=lines, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    answers = out.split("\n")[:-1]
    assert len(answers) == COUNT, f"{len(answers)} answers to {COUNT} requests"
    for i, (r, line) in enumerate(zip(requests, answers)):
        try:
            check(r, json.loads(line))
        except AssertionError as e:
            sys.exit(f"request {i} of seed {seed}: {json.dumps(r)}\n{e}")
    print(f"{COUNT} requests, signed alike")


main()
