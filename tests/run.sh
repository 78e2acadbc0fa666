#!/bin/sh
# The whole test suite on Debian 12, from nothing: installs what is missing from Debian's packages (as root, or with
# sudo), configures, builds, runs CTest and ends with CTest's exit code. Run it from anywhere.
#
#   sh tests/run.sh [--preset NAME] [-L LABEL] [--long]
#
#   --preset NAME   a configure preset: dev (default), asan, tsan, nompi
#   -L LABEL        only tests with a label that matches this regular expression, such as 'unit|property'
#   --long          also the long tier (LAKE_LONG=1, LAKE_KILLS=20, LAKE_KILL_CYCLES=1000 in the tests' environment)
#   LAKE_JOBS=N     in the environment: compilers and tests at once; default the number of processors
#   LAKE_NO_INSTALL=1  in the environment: install nothing
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
preset=dev
label=

usage() {
  sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$root/tests/run.sh"
  exit "$1"
}
while [ $# -gt 0 ]; do
  case $1 in
  --preset) preset=${2:?--preset needs a name} && shift 2 ;;
  -L) label=${2:?-L needs a label} && shift 2 ;;
  --long) export LAKE_LONG=1 LAKE_KILLS="${LAKE_KILLS:-20}" LAKE_KILL_CYCLES="${LAKE_KILL_CYCLES:-1000}" && shift ;;
  -h | --help) usage 0 ;;
  *)
    echo "tests/run.sh: unknown argument $1" >&2
    usage 2 >&2
    ;;
  esac
done

. "$root/launcher/debian-packages.sh"
if [ "${LAKE_NO_INSTALL:-0}" != 1 ]; then
  # The lists are words on purpose.
  # shellcheck disable=SC2086
  lake_packages_install $LAKE_PACKAGES_BUILD $LAKE_PACKAGES_TEST
fi

cd "$root"
jobs=${LAKE_JOBS:-$(nproc)}
launcher=
if command -v ccache >/dev/null 2>&1; then launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache; fi
# Open MPI refuses to run as root without these; containers mostly are root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

begin=$(date +%s)
cmake --preset "$preset" $launcher
cmake --build "build/$preset" -j"$jobs"
echo "built in $(($(date +%s) - begin)) s"
if [ -n "$label" ]; then
  set -- -L "$label"
else
  set --
fi
exec ctest --test-dir "build/$preset" --no-tests=error --output-on-failure --schedule-random -j"$jobs" "$@"
