# What every store must do, on s3:// at the S3 gateway of Ceph.
. "$(dirname "${BASH_SOURCE[0]}")/on_server.inc"
on_server rgw
