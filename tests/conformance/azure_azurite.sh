# What every store must do, on az:// at Azurite.
. "$(dirname "${BASH_SOURCE[0]}")/on_server.inc"
on_server azurite
