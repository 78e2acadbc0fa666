#!/bin/bash
# Azurite, the emulator of Azure's blob storage, for tests: npm's package azurite, once installed into a cache folder.
# Objects are in memory.
#
#   azurite.sh start DIR [PORT]   prints the endpoint; PORT 0 (default) is a free one. DIR/env holds the rest for a shell
#   azurite.sh stop DIR
#
# LAKE_TEST_AZURE_ENDPOINT with its account in the path, LAKE_TEST_AZURE_ACCOUNT, LAKE_TEST_AZURE_KEY; the container
# LAKE_TEST_AZURE_CONTAINER is there, and LAKE_TEST_AZURE_URL is a place in it. LAKE_SERVER_OWNER=PID: stop when that
# process is gone.
server=azurite
. "$(dirname "${BASH_SOURCE[0]}")/server.inc"

version=3.35.0 # the last one that needs no newer Node.js than Debian's
container=lake
# The account that Azurite knows, with the key that its documentation prints.
account=devstoreaccount1
key=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==

# npm's last lines only say where it wrote more.
npm_reason() { # LOG
  grep -v -e '_logs/' -e 'complete log' "$1" | sed -n 's/^npm ERR! *\(.*[a-z].*\)$/\1/p;s/^npm error *\(.*[a-z].*\)$/\1/p' |
    tail -n 1 | grep . || tail -n 1 "$1"
}

install() { # sets main to the program's path
  local home=$cache/azurite-$version
  main=$home/node_modules/azurite/dist/src/blob/main.js
  [ ! -e "$main" ] || return 0
  need npm npm
  npm install --prefix "$home.$$" --no-audit --no-fund --no-save --loglevel=error "azurite@$version" \
    </dev/null >"$dir/install.log" 2>&1 ||
    { rm -rf "$home.$$"; fail "npm cannot install azurite@$version: $(npm_reason "$dir/install.log")"; }
  # Whoever comes first installs it; a second one drops its own.
  mv -T "$home.$$" "$home" 2>/dev/null || rm -rf "$home.$$"
  [ -e "$main" ] || fail "azurite@$version was installed and is not in $home"
}

# A signed PUT of a container: Azure signs the line "PUT", eleven header values of which none is sent, the x-ms- headers
# and the path, which begins with the account again.
make_container() { # PORT
  local date path secret signature
  date=$(date -u '+%a, %d %b %Y %H:%M:%S GMT')
  path=/$account/$container
  secret=$(printf %s "$key" | base64 -d | od -An -v -tx1 | tr -d ' \n')
  signature=$(printf 'PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:%s\nx-ms-version:2021-12-02\n/%s%s\nrestype:container' \
    "$date" "$account" "$path" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$secret" -binary | base64)
  http -X PUT -H "x-ms-date: $date" -H 'x-ms-version: 2021-12-02' -H 'Content-Length:' \
    -H "Authorization: SharedKey $account:$signature" "http://127.0.0.1:$1$path?restype=container"
}

# Whoever answers at all, with a refusal too, is up.
answers() { curl --noproxy '*' -s --max-time 10 -o /dev/null "$1"; }

start_server() { # PORT
  local port=$1 main
  need node nodejs
  need curl curl
  need openssl openssl
  need python3 python3
  [ "$port" != 0 ] || port=$(free_ports 1)
  install
  spawn azurite node -r "$here/azurite_gc.js" "$main" --blobHost 127.0.0.1 --blobPort "$port" --inMemoryPersistence \
    --disableTelemetry --skipApiVersionCheck --silent
  wait_until azurite answers "http://127.0.0.1:$port/"
  make_container "$port" >"$dir/start.log" 2>&1 || fail "cannot make a container: $(tail -n 1 "$dir/start.log")"
  {
    setting LAKE_TEST_AZURE_ENDPOINT "http://127.0.0.1:$port/$account"
    setting LAKE_TEST_AZURE_ACCOUNT "$account"
    setting LAKE_TEST_AZURE_KEY "$key"
    setting LAKE_TEST_AZURE_CONTAINER "$container"
    setting LAKE_TEST_AZURE_URL "az://$container"
  } | keep_env
  echo "http://127.0.0.1:$port/$account"
}

serve_command "$@"
