# The kill cycles on s3://: producers and the reclaimer by SIGKILL, and Ceph's gateway, too, which in every cycle dies
# with their requests in its hands and comes back. The gateway is one of the test's own, since others want theirs alive.
# LAKE_KILL_CYCLES_S3: 10 cycles, in the long tier 100.
set -eu
: "${LAKE_SOURCE_DIR:?run this by ctest}"
. "$LAKE_SOURCE_DIR/tests/servers/use.inc"
use_server rgw
scratch=$(mktemp -d)
servers=$LAKE_SOURCE_DIR/tests/servers
trap 'bash "$servers/rgw.sh" stop "$scratch/rgw"; rm -rf "$scratch"' EXIT
LAKE_SERVER_OWNER=$$ bash "$servers/rgw.sh" start "$scratch/rgw"
. "$scratch/rgw/env"
use_server rgw
if "$LAKE_BIN/lake" ls "$server_url/kills" 2>&1 | grep -q ': unknown scheme;'; then
  echo "SKIPPED: this build does not know $server_url"
  exit 77
fi

cycles=10
[ "${LAKE_LONG:-0}" != 1 ] || cycles=100
export LAKE_KILL_URL=$server_url/kills LAKE_KILL_CYCLES=${LAKE_KILL_CYCLES_S3:-$cycles}
export LAKE_KILL_RESTART="bash '$servers/rgw.sh' restart '$scratch/rgw'"
"$LAKE_BIN/test_fault_kill_cycles"
