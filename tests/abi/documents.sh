# Every public function is documented in the slots of the house, and has a man page that groff has nothing to say
# about. The checks are shown to fail on planted faults first.
set -eu
: "${LAKE_SOURCE_DIR:?run this by ctest}" "${LAKE_BUILD_DIR:?}"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LC_ALL=C
api=$LAKE_SOURCE_DIR/docs/man/api.py

# must_fail HEADER_TEXT WANTED: the check refuses the planted header and says why.
must_fail() {
  mkdir -p "$scratch/planted/lakestream"
  printf '%s\n' "$1" >"$scratch/planted/lakestream/x.h"
  if python3 "$api" check "$scratch/planted" 2>"$scratch/said"; then
    echo "not refused: $1"
    exit 1
  fi
  grep -q "$2" "$scratch/said" || { echo "wrong reason for: $1"; cat "$scratch/said"; exit 1; }
}
slots='Ownership: none. Blocks: no. Threads: any. MPI: local. Errors: none.'
must_fail 'LAKE_API int lake_x(int a);' 'has no comment'
must_fail '/* A plain comment. */
LAKE_API int lake_x(int a);' 'has no comment'
must_fail '/** Does. Ownership: none. Blocks: no. Threads: any. Errors: none. */
LAKE_API int lake_x(int a);' 'no slot MPI'
must_fail "/** Does. @param b what. $slots */
LAKE_API int lake_x(int a);" '@param b, which'
must_fail "/** $slots */
LAKE_API int lake_x(int a);" 'does not say what'

python3 "$api" check "$LAKE_SOURCE_DIR/include"

# Exported functions = man pages.
{
  python3 "$api" names "$LAKE_SOURCE_DIR/include" core
  [ "${LAKE_MPI:-OFF}" != ON ] || python3 "$api" names "$LAKE_SOURCE_DIR/include" mpi
} | sort >"$scratch/names"
(cd "$LAKE_BUILD_DIR/man/man3" && ls) | sed 's/\.3$//' | sort >"$scratch/pages"
diff -u "$scratch/names" "$scratch/pages" || { echo "functions and man pages differ"; exit 1; }

command -v groff >/dev/null || { echo "no groff: the pages were not checked"; exit 0; }
for page in "$LAKE_BUILD_DIR"/man/man3/*.3 "$LAKE_SOURCE_DIR"/docs/man/*.[157]; do
  [ -e "$page" ] || continue
  groff -ww -man -Tutf8 -z "$page" 2>"$scratch/said"
  [ ! -s "$scratch/said" ] || { echo "$page:"; cat "$scratch/said"; exit 1; }
done
echo "$(wc -l <"$scratch/names") functions"
