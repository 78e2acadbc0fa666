# What every store must do, on gs:// at fake-gcs-server.
. "$(dirname "${BASH_SOURCE[0]}")/on_server.inc"
on_server gcs
