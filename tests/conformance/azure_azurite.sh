# What every store must do, on az:// at Azurite: by a shared access signature, and by the account's key.
. "$(dirname "${BASH_SOURCE[0]}")/on_server.inc"
use_server azurite

# with_sas PERMISSIONS COMMAND...: runs it with such a signature and nothing else
with_sas() {
  local sas
  sas=$(python3 "$LAKE_SOURCE_DIR/tests/support/azure_sas.py" "$LAKE_TEST_AZURE_ACCOUNT" "$LAKE_TEST_AZURE_KEY" \
    "$LAKE_TEST_AZURE_CONTAINER" "$1")
  shift
  env -u AZURE_STORAGE_KEY AZURE_STORAGE_SAS_TOKEN="${change_sas:-}$sas" "$@"
}

# refused CODE PERMISSIONS COMMAND...
refused() {
  local code=$1 said
  shift
  if said=$(with_sas "$@" 2>&1); then echo "not refused: $*" && exit 1; fi
  grep -q "$code" <<<"$said" || { echo "refused, but not by $code: $said" && exit 1; }
}

echo "--- a shared access signature"
namespace=$server_url/sas-$$
schema=(--mesh 1x1 --rows 1 --tensor x:u8:8)
with_sas racwdl "$LAKE_BIN/lake" init "$namespace" "${schema[@]}"
with_sas rl "$LAKE_BIN/lake" verify "$namespace"
with_sas racwdl "$LAKE_BIN/lake" seal "$namespace"
refused AuthorizationPermissionMismatch rl "$LAKE_BIN/lake" init "$namespace-2" "${schema[@]}"
refused AuthorizationPermissionMismatch rw "$LAKE_BIN/lake" ls "$namespace"
change_sas='sv=2020-12-06&' refused 'AuthenticationFailed\|AuthorizationFailure' rl "$LAKE_BIN/lake" ls "$namespace"
on_server azurite
