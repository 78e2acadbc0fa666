#!/bin/bash
# The model of the commit protocol, docs/design/commit.pml, searched by spin: all of it holds, and each mistake that
# can be switched in breaks the rule that it should. The trails stay in <build>/model/<mistake>/, to be told by
# spin -t -p -D<mistake> commit.pml.
set -eu
command -v spin >/dev/null || { echo "needs spin"; exit 77; }
: "${LAKE_SOURCE_DIR:?run this by ctest}" "${LAKE_BUILD_DIR:?run this by ctest}"
failed=0

search() { # search NAME [-DSWITCH...]: leaves pan.log, and what is broken in story, in the folder of that name
  local work="$LAKE_BUILD_DIR/model/$1"
  shift
  rm -rf "$work"
  mkdir -p "$work"
  cd "$work"
  cp "$LAKE_SOURCE_DIR/docs/design/commit.pml" .
  spin -a "$@" commit.pml >spin.log 2>&1 || { cat spin.log; exit 1; }
  # SAFETY: no cycles are looked for. COLLAPSE packs states without loss. MEMLIM is in MiB.
  "${LAKE_CC:-cc}" -O2 -w -DSAFETY -DCOLLAPSE -DVECTORSZ=1024 -DMEMLIM=3500 -o pan pan.c
  ./pan -m100000 -n >pan.log 2>&1 || { cat pan.log; exit 1; }
  rm -f pan pan.? # the sources are large, the trail is not
  : >story
  [ ! -e commit.pml.trail ] || spin -t "$@" commit.pml >story
}

# Nothing may have ended the search early: not an error, not its depth, not memory.
holds() { # holds NAME STATES_MIN [-DSWITCH...]
  local name=$1 states_min=$2 states
  shift 2
  search "$name" "$@"
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
  if grep -q 'errors: 0$' pan.log && ! grep -qiE 'not completed|too small|out of memory|truncated' pan.log &&
    [ "$(printf '%.0f' "${states:-0}")" -ge "$states_min" ]; then
    echo "holds: 2 producers, a zombie and reclaim, all $states states, 0 errors"
  else
    echo "FAILED: the protocol must hold in at least $states_min states"
    cat pan.log story
    failed=1
  fi
}

breaks() { # breaks MISTAKE RULE
  search "$1" "-D$1"
  local broken
  broken=$(sed -n 's/^ *broken: //p' story)
  if [ "$broken" = "$2" ] && grep -q 'errors: 1$' pan.log; then
    echo "$1 is caught: broken: $broken"
  else
    echo "FAILED: $1 must break $2, but: ${broken:-nothing is broken}"
    cat pan.log
    failed=1
  fi
}

breaks UNGUARDED I1_ONE_OWNER
breaks CHECK_FIRST I7_LOST
breaks NO_FENCING I5_COMMITTED
breaks NO_RESEND_CHECK I5_NOT_COMMITTED
breaks TRUST_EXISTS I5_NOT_COMMITTED
breaks FENCED_SETTLES I5_NOT_COMMITTED
holds protocol 9000000
exit $failed
