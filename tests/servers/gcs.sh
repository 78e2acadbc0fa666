#!/bin/bash
# fake-gcs-server, an emulator of Google Cloud Storage, for tests: built once by the Go toolchain into a cache folder.
# Objects are in memory.
#
#   gcs.sh start DIR [PORT]   prints the endpoint; PORT 0 (default) is a free one. DIR/env holds the rest for a shell
#   gcs.sh stop DIR
#
# LAKE_TEST_GCS_ENDPOINT; the bucket LAKE_TEST_GCS_BUCKET is there, and LAKE_TEST_GCS_URL is a place in it. It asks for no
# credentials. It knows conditions only on uploads of type multipart, ignores the page size's token, and its XML interface
# cannot create. LAKE_SERVER_OWNER=PID: stop when that process is gone.
server=gcs
. "$(dirname "${BASH_SOURCE[0]}")/server.inc"

version=v1.52.2
bucket=lake

install() { # sets program to its path
  local home=$cache/fake-gcs-server-$version
  program=$home/fake-gcs-server
  [ ! -x "$program" ] || return 0
  need go "a Go toolchain"
  mkdir -p "$home.$$"
  GOBIN=$home.$$ GOFLAGS='' go install "github.com/fsouza/fake-gcs-server@$version" </dev/null >"$dir/install.log" 2>&1 ||
    { rm -rf "$home.$$"; fail "go cannot install fake-gcs-server@$version: $(tail -n 1 "$dir/install.log")"; }
  # Whoever comes first installs it; a second one drops its own.
  mv -T "$home.$$" "$home" 2>/dev/null || rm -rf "$home.$$"
  [ -x "$program" ] || fail "fake-gcs-server@$version was installed and is not in $home"
}

start_server() { # PORT
  local port=$1 program
  need curl curl
  need python3 python3
  [ "$port" != 0 ] || port=$(free_ports 1)
  install
  spawn gcs "$program" -backend memory -scheme http -host 127.0.0.1 -port "$port" -public-host "127.0.0.1:$port" \
    -external-url "http://127.0.0.1:$port" -log-level warn
  wait_until gcs http "http://127.0.0.1:$port/_internal/healthcheck"
  http -X POST -H 'Content-Type: application/json' -d "{\"name\":\"$bucket\"}" \
    "http://127.0.0.1:$port/storage/v1/b?project=test" >"$dir/start.log" 2>&1 ||
    fail "cannot make a bucket: $(tail -n 1 "$dir/start.log")"
  {
    setting LAKE_TEST_GCS_ENDPOINT "http://127.0.0.1:$port"
    setting LAKE_TEST_GCS_BUCKET "$bucket"
    setting LAKE_TEST_GCS_URL "gs://$bucket"
  } | keep_env
  echo "http://127.0.0.1:$port"
}

serve_command "$@"
