#!/bin/bash
# Memory errors and leaks: runs test programs of a plain build under valgrind's memcheck, each one that CTest knows as a
# program (not the scripts), and says of each how it went. Ends with 1 when one of them failed or lost memory.
#
#   bash tests/valgrind.sh [-L LABELS] [-R NAMES] [-x NAMES] [-j JOBS] [BUILD]
#
#   -L LABELS  a regular expression: 'unit|golden' (the default) or, for all, 'unit|property|fault|conformance|golden'
#   -R NAMES   only tests with a name that matches this regular expression
#   -x NAMES   not those
#   -j JOBS    at once; default the number of processors
#   BUILD      default build/dev, which must not be built with a sanitizer
#
# The simulator is left out: its fibers change stacks in a way that valgrind takes for errors by the thousand; the
# address sanitizer is told of them (src/sim/fiber.c). Exceptions, each with its reason, are in tests/valgrind.supp, and
# only for what is not ours. Logs: BUILD/valgrind/NAME.log.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
labels='unit|golden'
names=.
without='^$'
jobs=$(nproc)
while getopts L:R:x:j: option; do
  case $option in
  L) labels=$OPTARG ;;
  R) names=$OPTARG ;;
  x) without=$OPTARG ;;
  j) jobs=$OPTARG ;;
  *) sed -n '2,/^set -u/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
done
shift $((OPTIND - 1))
build=$(cd "$root" && cd "${1:-build/dev}" && pwd) || exit 2
command -v valgrind >/dev/null || {
  echo "valgrind.sh: there is no valgrind here; apt-get install valgrind"
  exit 77
}
if grep -q '^LAKE_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
  echo "valgrind.sh: $build is built with a sanitizer, which valgrind cannot run" >&2
  exit 2
fi
logs=$build/valgrind
mkdir -p "$logs"
rm -f "$logs"/*

# Everything is slower by thirty times or so: fewer cases of what is random, where a test lets one say.
export LAKE_KILL_CYCLES=${LAKE_KILL_CYCLES:-1}

# NAME PROGRAM of each test with one of the labels.
tests() {
  ctest --test-dir "$build" -L "^($labels)\$" -R "$names" -E "$without" --show-only=json-v1 | python3 -c '
import json, os, sys
for test in json.load(sys.stdin)["tests"]:
    command = test.get("command", [])
    if len(command) == 1 and not test["name"].startswith("sim.") and os.path.exists(command[0]):
        print(test["name"], command[0])'
}

# The log has no line of "==" unless there is an error (but of "--", where valgrind does not know a system call, which
# then is not there for the program). An exit code of valgrind's own would not do: a forked child that ends at
# once would have it, since what its parent's threads held is lost in it.
run_one() {
  local name=$1 program=$2 begin code said
  begin=$(date +%s)
  valgrind --quiet --leak-check=full --errors-for-leak-kinds=definite,indirect \
    --show-leak-kinds=definite,indirect --child-silent-after-fork=yes --num-callers=30 --fair-sched=try \
    --suppressions="$LAKE_SOURCE_DIR/tests/valgrind.supp" --log-file="$LAKE_VALGRIND_LOGS/$name.log" \
    "$program" >"$LAKE_VALGRIND_LOGS/$name.out" 2>&1 </dev/null
  code=$?
  said=clean
  [ "$code" -ne 77 ] || said=skipped
  ! grep -q '^==' "$LAKE_VALGRIND_LOGS/$name.log" || said=ERRORS
  [ "$code" -eq 0 ] || [ "$code" -eq 77 ] || said="FAILED ($code)"
  printf '%-36s %-12s %5d s\n' "$name" "$said" $(($(date +%s) - begin))
  [ "$said" = clean ] || [ "$said" = skipped ] || touch "$LAKE_VALGRIND_LOGS/$name.failed"
}
export -f run_one
export LAKE_SOURCE_DIR=$root LAKE_BUILD_DIR=$build LAKE_BIN=$build/bin LAKE_VALGRIND_LOGS=$logs

list=$(tests)
[ -n "$list" ] || {
  echo "valgrind.sh: no test has such a label and name" >&2
  exit 2
}
# shellcheck disable=SC2016
xargs -P "$jobs" -L 1 bash -c 'run_one "$1" "$2"' run_one <<<"$list"
for failed in "$logs"/*.failed; do
  [ -e "$failed" ] || continue
  echo "--- ${failed%.failed}.log" && head -n 60 "${failed%.failed}.log" && tail -n 20 "${failed%.failed}.out"
done
! compgen -G "$logs/*.failed" >/dev/null
