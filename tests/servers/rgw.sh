#!/bin/bash
# Ceph's S3 gateway on one machine, for tests: a monitor, one OSD whose data are in memory, and radosgw, from Debian's
# packages radosgw ceph-mon ceph-osd ceph-common. Ends as it came: nothing outside DIR is touched.
#
#   rgw.sh start DIR [PORT]   prints the endpoint; PORT 0 (default) is a free one. DIR/env holds the rest for a shell
#   rgw.sh restart DIR        kills the gateway with SIGKILL and starts it again on the same objects and ports
#   rgw.sh stop DIR
#
# LAKE_TEST_S3_ENDPOINT and LAKE_TEST_S3_HTTPS_ENDPOINT (whose CA is the file LAKE_TEST_S3_CA) lead to the same objects,
# LAKE_TEST_S3_KEY_ID and LAKE_TEST_S3_SECRET open them, LAKE_TEST_S3_BUCKET is there, and LAKE_TEST_S3_URL is a place in
# it. Buckets are also reached as BUCKET.localhost. LAKE_SERVER_OWNER=PID: stop when that process is gone.
# LAKE_RGW_BYTES: room for objects (4 GiB).
server=rgw
. "$(dirname "${BASH_SOURCE[0]}")/server.inc"

bucket=lake

# configure PORT HTTPS_PORT MON_PORT MON_V1_PORT
configure() {
  # tcp_nodelay: without it small answers take 40 ms. The paxos times: every pool that the gateway makes would take a
  # second. The watch timeout: before it makes a bucket, a gateway waits so long for the answer of one that was killed. The
  # gc times: big objects would stay in memory for hours after they were deleted.
  cat >"$dir/ceph.conf" <<CONF
[global]
fsid=$(cat /proc/sys/kernel/random/uuid)
mon initial members=a
mon host=[v2:127.0.0.1:$3,v1:127.0.0.1:$4]
auth cluster required=cephx
auth service required=cephx
auth client required=cephx
keyring=$dir/keyring
run dir=$dir/run
log file=$dir/\$type.log
admin socket=
mon data=$dir/mon
osd data=$dir/osd
paxos propose interval=0.02
paxos min wait=0.01
mon allow pool size one=true
mon warn on pool no redundancy=false
osd pool default size=1
osd pool default min size=1
osd pool default pg num=4
osd pool default pgp num=4
osd pool default pg autoscale mode=off
osd crush chooseleaf type=0
osd client watch timeout=5
osd objectstore=memstore
memstore device bytes=${LAKE_RGW_BYTES:-4294967296}
debug mon=0
debug osd=0
debug rgw=0
debug ms=0
[mon]
pid file=$dir/run/mon.pid
[osd]
pid file=$dir/run/osd.pid
[client.rgw]
log file=$dir/rgw.log
rgw data=$dir/rgw
rgw dns name=localhost
objecter tick interval=1
rgw thread pool size=64
rgw enable usage log=false
rgw gc obj min wait=1
rgw gc processor period=5
rgw gc processor max time=5
rgw frontends=beast endpoint=127.0.0.1:$1 ssl_endpoint=127.0.0.1:$2 ssl_certificate=$dir/tls/server.pem ssl_private_key=$dir/tls/server.key tcp_nodelay=1
CONF
}

make_keys() {
  local who
  ceph-authtool --create-keyring "$dir/keyring" -n mon. --gen-key --cap mon 'allow *'
  for who in client.admin client.rgw osd.0; do # without a key the gateway would wait for ever
    ceph-authtool "$dir/keyring" -n $who --gen-key --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
  done
}

# A CA of this start only, and a certificate for 127.0.0.1, localhost and the buckets below it.
make_certificates() {
  local tls=$dir/tls
  mkdir -p "$tls"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=Lakestream test CA" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign \
    -keyout "$tls/ca.key" -out "$tls/ca.pem"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=localhost" \
    -keyout "$tls/server.key" -out "$tls/server.csr"
  printf 'subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:*.localhost\n' >"$tls/server.ext"
  openssl x509 -req -in "$tls/server.csr" -CA "$tls/ca.pem" -CAkey "$tls/ca.key" -CAcreateserial -days 30 \
    -extfile "$tls/server.ext" -out "$tls/server.pem"
}

start_cluster() { # MON_PORT MON_V1_PORT
  local conf=$dir/ceph.conf osd
  osd=$(cat /proc/sys/kernel/random/uuid)
  mkdir -p "$dir/mon" "$dir/osd" "$dir/rgw"
  monmaptool --create --clobber --fsid "$(sed -n 's/^fsid=//p' "$conf")" --addv a "[v2:127.0.0.1:$1,v1:127.0.0.1:$2]" \
    "$dir/monmap"
  ceph-mon -c "$conf" --mkfs -i a --monmap "$dir/monmap" --keyring "$dir/keyring"
  ceph-mon -c "$conf" -i a
  ceph -c "$conf" --connect-timeout 20 osd new "$osd" 0
  ceph -c "$conf" auth import -i "$dir/keyring"
  ceph-osd -c "$conf" -i 0 --mkfs --osd-uuid "$osd"
  ceph-osd -c "$conf" -i 0
}

# Nobody may read a key out of a process list: curl gets it by a file.
make_bucket() { # ENDPOINT KEY_ID SECRET
  (umask 077 && printf 'user = "%s:%s"\n' "$2" "$3" >"$dir/curl.conf")
  http -K "$dir/curl.conf" --aws-sigv4 aws:amz:us-east-1:s3 -H "x-amz-content-sha256: $(sha256sum </dev/null | cut -d' ' -f1)" \
    -X PUT "$1/$bucket"
}

start_gateway() { # ENDPOINT
  spawn rgw radosgw -c "$dir/ceph.conf" -n client.rgw -f
  wait_until rgw http "$1/"
}

start_server() { # PORT
  local program ports port https secret id
  for program in ceph-mon ceph-osd ceph ceph-authtool monmaptool radosgw radosgw-admin; do
    need $program "radosgw ceph-mon ceph-osd ceph-common"
  done
  need openssl openssl
  need curl curl
  need python3 python3
  mapfile -t ports < <(free_ports 4)
  [ ${#ports[@]} -eq 4 ] || fail "no free ports"
  port=$1
  [ "$port" != 0 ] || port=${ports[0]}
  https=${ports[1]}
  id=LAKE$(openssl rand -hex 8 | tr a-f A-F)
  secret=$(openssl rand -base64 30) # holds + and /, as real ones do
  configure "$port" "$https" "${ports[2]}" "${ports[3]}"
  {
    make_keys && make_certificates && start_cluster "${ports[2]}" "${ports[3]}" && start_gateway "http://127.0.0.1:$port" &&
      radosgw-admin -c "$dir/ceph.conf" user create --uid=test --display-name=test --access-key="$id" --secret-key="$secret" >/dev/null &&
      make_bucket "http://127.0.0.1:$port" "$id" "$secret"
  } >"$dir/start.log" 2>&1 || fail "$(grep -v '^ *$' "$dir/start.log" | tail -n 1); all output is in $dir/start.log"
  {
    setting LAKE_TEST_S3_ENDPOINT "http://127.0.0.1:$port"
    setting LAKE_TEST_S3_HTTPS_ENDPOINT "https://127.0.0.1:$https"
    setting LAKE_TEST_S3_CA "$dir/tls/ca.pem"
    setting LAKE_TEST_S3_KEY_ID "$id"
    setting LAKE_TEST_S3_SECRET "$secret"
    setting LAKE_TEST_S3_BUCKET "$bucket"
    setting LAKE_TEST_S3_URL "s3://$bucket"
  } | keep_env
  echo "http://127.0.0.1:$port"
}

restart_server() {
  [ -e "$dir/env" ] || fail "nothing runs in $dir"
  . "$dir/env"
  kill_process rgw
  start_gateway "$LAKE_TEST_S3_ENDPOINT" >>"$dir/start.log" 2>&1 || fail "the gateway does not come back; see $dir/start.log"
}

serve_command "$@"
