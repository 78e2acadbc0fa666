"""Makes a shared access signature for a container of Azure Blob storage, for an hour:

    python3 azure_sas.py ACCOUNT KEY CONTAINER PERMISSIONS

KEY is the account's, in base64; PERMISSIONS such as racwdl. The text that is signed is that of version 2021-08-06."""
import base64
import hashlib
import hmac
import sys
import time
import urllib.parse


def moment(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


account, key, container, permissions = sys.argv[1:]
query = {"sp": permissions, "st": moment(-300), "se": moment(3600), "spr": "https,http", "sv": "2021-08-06", "sr": "c"}
lines = [query["sp"], query["st"], query["se"], f"/blob/{account}/{container}", "", "", query["spr"], query["sv"], query["sr"]]
text = "\n".join(lines + [""] * 7)
mac = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
print(urllib.parse.urlencode({**query, "sig": base64.b64encode(mac).decode()}))
