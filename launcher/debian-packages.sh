# The Debian 12 packages that Lakestream needs, in one place. Sourced by launcher/quickstart.sh and tests/run.sh
# (POSIX sh); it defines names and does nothing by itself:
#   . "$root/launcher/debian-packages.sh" && lake_packages_install $LAKE_PACKAGES_BUILD

# Building everything and running the programs and the examples. python3 makes the man pages of the functions.
LAKE_PACKAGES_BUILD="build-essential cmake ninja-build pkg-config python3 libzstd-dev libcjson-dev libxxhash-dev zlib1g-dev
uthash-dev libcurl4-openssl-dev libssl-dev libexpat1-dev libhdf5-dev libopenmpi-dev openmpi-bin"

# What the tests use besides.
LAKE_PACKAGES_TEST="libcmocka-dev python3-h5py python3-numpy python3-zstandard python3-xxhash
python3-botocore hdf5-tools shellcheck groff-base spin valgrind procps gzip git ca-certificates curl openssl"

# Ceph's S3 gateway on one machine, as tests/servers/rgw.sh starts it.
LAKE_PACKAGES_GATEWAY="radosgw ceph-mon ceph-osd ceph-common curl openssl"

# What brings npm, for Azurite. Only where there is none: Node.js of another origin has its own and refuses Debian's.
LAKE_PACKAGES_NPM="nodejs npm"

# lake_packages_missing PACKAGE...: prints those that are not installed, one a line. A package that is there for
# several architectures prints one status for each.
lake_packages_missing() {
  for lake_package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$lake_package" 2>/dev/null | grep -qx installed ||
      printf '%s\n' "$lake_package"
  done
}

# lake_packages_install PACKAGE...: installs what is missing, without asking anything; as root, or with sudo. The
# package lists are fetched only when something is missing.
lake_packages_install() {
  lake_missing=$(lake_packages_missing "$@")
  [ -n "$lake_missing" ] || return 0
  lake_missing=$(printf '%s ' $lake_missing)
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "these packages are missing and apt-get is not here: $lake_missing" >&2
    return 1
  fi
  lake_root=
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
      echo "run this as root, or install first: apt-get install $lake_missing" >&2
      return 1
    fi
    lake_root=sudo
  fi
  echo "installing from Debian: $lake_missing"
  # env, since sudo drops the variables of the caller.
  $lake_root env DEBIAN_FRONTEND=noninteractive apt-get update -q=2 &&
    $lake_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q=2 --no-install-recommends \
      -o Dpkg::Use-Pty=0 $lake_missing >/dev/null
}
