# The demonstration on S3: feeders and trainers on the gateway that quickstart starts, both killed, the same weights and
# data as without. Nothing runs afterwards, and the secret is in none of the files that stay.
set -euo pipefail
: "${LAKE_SOURCE_DIR:?run this by ctest}"
. "$LAKE_SOURCE_DIR/tests/servers/use.inc"
use_server rgw
[ "${LAKE_MPI:-ON}" = ON ] || { echo "SKIPPED: built without MPI"; exit 77; }
[ -x "$LAKE_BIN/train_lm" ] || { echo "SKIPPED: built without the examples"; exit 77; }
if "$LAKE_BIN/lake" ls "$server_url/kills" 2>&1 | grep -q ': unknown scheme;'; then
  echo "SKIPPED: this build does not know $server_url"
  exit 77
fi
unset "${!AWS_@}"
scratch=$(mktemp -d)
trap 'bash "$LAKE_SOURCE_DIR/tests/servers/rgw.sh" stop "$scratch/demo/gateway"; rm -rf "$scratch"' EXIT

code=0
sh "$LAKE_SOURCE_DIR/launcher/quickstart.sh" --build "$LAKE_BUILD_DIR" --store s3 --dir "$scratch/demo" --steps 200 --keep \
  >"$scratch/log" 2>&1 &
run=$!
# The gateway's secret, while it runs: nothing keeps it afterwards.
conf=$scratch/demo/gateway/curl.conf
until [ -s "$conf" ] || ! kill -0 $run 2>/dev/null; do sleep 0.05; done
secret=$(sed -n 's/^user = "[^:]*:\(.*\)"$/\1/p' "$conf") || :
wait $run || code=$?
die() {
  echo "FAILED: $*"
  cat "$scratch/log"
  exit 1
}
[ $code -eq 0 ] || die "exit code $code"
grep -q '^batches go to s3://lake/demo at http' "$scratch/log" || die "the batches did not go to the gateway"
grep -q '^sealed s3://lake/demo at 200 steps' "$scratch/log" || die "it was not sealed on s3://"
grep -q '^IDENTICAL' "$scratch/log" || die "the two runs differ"
printf '%s\n' "$scratch/demo" >"$scratch/needle" # a command line that held it would find itself
! grep -lFf "$scratch/needle" /proc/[0-9]*/cmdline 2>/dev/null || die "a process is left"
[ ${#secret} -eq 40 ] || die "no secret to look for"
! grep -rlF -- "$secret" "$scratch" || die "the secret is in these files"
