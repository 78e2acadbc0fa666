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

# --- the servers that the chosen tests need: started while the build runs, gone when this script is ------------------
servers=
started=
ctest_pid=
finish() {
  code=$?
  trap '' INT TERM HUP
  trap - EXIT
  if [ -n "$ctest_pid" ]; then # it would leave its tests behind
    tests=$(cat /proc/[0-9]*/stat 2>/dev/null | sed -n "s/^\([0-9]*\) (.*) [A-Za-z] $ctest_pid .*/\1/p")
    kill -TERM "$ctest_pid" $tests 2>/dev/null || :
  fi
  if [ -n "$started" ]; then
    wait # for a start that is still under way
    for server in $servers; do bash tests/servers/"$server".sh stop "$PWD/build/$preset/servers/$server" || :; done
  fi
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Tests say what they need by a label, such as needs-rgw.
chosen() { ctest --test-dir "build/$preset" -N ${label:+-L "$label"} -L "^needs-$1\$" 2>/dev/null; }
servers_choose() {
  for server in rgw azurite gcs; do
    if chosen $server | grep -q '^Total Tests: [1-9]'; then servers="$servers $server"; fi
  done
}

# In the background, all output in files. What cannot be had leaves its reason, and the tests are skipped with it.
servers_start() {
  folder=$PWD/build/$preset/servers
  mkdir -p "$folder"
  rm -f "$folder"/*/env
  if [ "${LAKE_NO_INSTALL:-0}" != 1 ]; then
    # shellcheck disable=SC2086
    {
      lake_packages_install $LAKE_PACKAGES_GATEWAY || :
      command -v npm || lake_packages_install $LAKE_PACKAGES_NPM || :
    } >"$folder/install.log" 2>&1
  fi
  for server in $servers; do
    LAKE_SERVER_OWNER=$$ bash tests/servers/"$server".sh start "$folder/$server" >"$folder/$server.out" 2>&1 &
  done
  wait
}

# Exports what tells the tests where the servers are.
servers_export() {
  for server in $servers; do
    if [ -e "build/$preset/servers/$server/env" ]; then
      echo "$server: $(tail -n 1 "build/$preset/servers/$server.out")"
      . "$PWD/build/$preset/servers/$server/env"
    else
      why=$(tail -n 1 "build/$preset/servers/$server.out")
      echo "NO SERVER, and its tests are skipped: ${why:-$server}" >&2
      export "LAKE_TEST_WITHOUT_$server=${why:-it did not start}"
    fi
  done
}

begin=$(date +%s)
cmake --preset "$preset" $launcher
servers_choose
if [ -n "$servers" ]; then
  started=yes
  servers_start &
  start_pid=$!
fi
cmake --build "build/$preset" -j"$jobs"
echo "built in $(($(date +%s) - begin)) s"
if [ -n "$started" ]; then
  wait "$start_pid"
  servers_export
fi
if [ -n "$label" ]; then
  set -- -L "$label"
else
  set --
fi
# In the background, so that a signal to this script is heard at once; which is why Ctrl-C has to be given back to it.
code=0
env --default-signal=INT,QUIT ctest --test-dir "build/$preset" --no-tests=error --output-on-failure --schedule-random \
  -j"$jobs" "$@" &
ctest_pid=$!
wait "$ctest_pid" || code=$?
ctest_pid=
exit "$code"
