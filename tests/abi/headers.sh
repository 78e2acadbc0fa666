# Every public header compiles by itself, in C11 and in C++17, with no warning; the C++ layer works end to end.
set -eu
: "${LAKE_SOURCE_DIR:?run this by ctest}" "${LAKE_BUILD_DIR:?}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cc=${LAKE_CC:-cc}
cxx=${CXX:-c++}
command -v "$cxx" >/dev/null || { echo "no C++ compiler"; exit 77; }
warnings="-Wall -Wextra -Wconversion -Wshadow -Werror -pedantic"
sanitize=${LAKE_SANITIZE:+-fsanitize=$LAKE_SANITIZE}
mpi_flags=
if [ "${LAKE_MPI:-OFF}" = ON ]; then
  # -isystem: the warnings are meant for our headers.
  mpi_flags=$(mpicc --showme:compile | sed 's/-I/-isystem /g')
fi

cd "$LAKE_SOURCE_DIR/include"
failed=0
count=0
for header in $(find lakestream -name '*.h' -o -name '*.hpp' | LC_ALL=C sort); do
  flags=
  if [ "$header" = lakestream/mpi.h ]; then
    [ "${LAKE_MPI:-OFF}" = ON ] || continue
    flags=$mpi_flags
  fi
  count=$((count + 1))
  # Twice, so that a missing include guard shows.
  printf '#include <%s>\n#include <%s>\nint unused;\n' "$header" "$header" >"$scratch/t.c"
  cp "$scratch/t.c" "$scratch/t.cpp"
  case $header in
  *.h)
    "$cc" -std=c11 $warnings -Wstrict-prototypes -I. $flags -c "$scratch/t.c" -o "$scratch/t.o" || failed=1 ;;
  esac
  "$cxx" -std=c++17 $warnings -I. $flags -c "$scratch/t.cpp" -o "$scratch/t.o" || failed=1
done
[ "$failed" = 0 ] || exit 1
[ "$count" -ge 8 ] || { echo "only $count headers were found"; exit 1; }

"$cxx" -std=c++17 -g $warnings $sanitize -I. "$LAKE_SOURCE_DIR/tests/abi/wrapper.cpp" -L"$LAKE_BUILD_DIR/lib" \
  -llakestream -Wl,-rpath,"$LAKE_BUILD_DIR/lib" -o "$scratch/wrapper"
"$scratch/wrapper"
