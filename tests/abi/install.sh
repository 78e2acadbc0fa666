# What `cmake --install` leaves is whole and can be moved: docs/examples/hello.c builds against it out of tree, by
# pkg-config and by find_package, shared and static, and runs.
set -eu
: "${LAKE_SOURCE_DIR:?run this by ctest}" "${LAKE_BUILD_DIR:?}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LC_ALL=C
export TMPDIR="$scratch/tmp"
mkdir "$TMPDIR"
cc=${LAKE_CC:-cc}
flags="-std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE ${LAKE_SANITIZE:+-fsanitize=$LAKE_SANITIZE}"

cmake --install "$LAKE_BUILD_DIR" --prefix "$scratch/first" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix

absent() { echo "not installed: $1"; exit 1; }
for header in $(cd "$LAKE_SOURCE_DIR/include" && find lakestream -name '*.h' -o -name '*.hpp'); do
  if [ "$header" = lakestream/mpi.h ] && [ "${LAKE_MPI:-OFF}" != ON ]; then
    [ ! -e "$prefix/include/$header" ] || { echo "installed without MPI: $header"; exit 1; }
    continue
  fi
  [ -e "$prefix/include/$header" ] || absent "$header"
done
libdir=$(dirname "$(find "$prefix" -name liblakestream.so)")
for file in liblakestream.so.0 liblakestream.a pkgconfig/lakestream.pc cmake/lakestream/lakestream-config.cmake; do
  [ -e "$libdir/$file" ] || absent "$file"
done
for program in lake lakerun; do
  [ ! -e "$LAKE_BUILD_DIR/bin/$program" ] || [ -x "$prefix/bin/$program" ] || absent "$program"
done
[ ! -d "$LAKE_BUILD_DIR/man/man3" ] || [ -e "$prefix/share/man/man3/lake_producer_append.3" ] || absent "man pages"
[ -e "$prefix/share/doc/lakestream/STORES.md" ] || absent "share/doc/lakestream/STORES.md"
if grep -rIl -e "$LAKE_SOURCE_DIR" -e "$LAKE_BUILD_DIR" "$prefix" | grep .; then
  echo "these installed files name the source or the build folder"
  exit 1
fi

# expect COMMAND...: it says what hello says.
expect() {
  LD_LIBRARY_PATH="$libdir" "$@" mem:hello >"$scratch/said"
  diff -u - "$scratch/said" <<'END' || { echo "wrong: $*"; exit 1; }
replica 0 step 0 tokens: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 weight: 1.00
replica 0 step 1 tokens: 1000 1001 1002 1003 1004 1005 1006 1007 1008 1009 1010 1011 1012 1013 1014 1015 weight: 0.50
replica 0 step 2 tokens: 2000 2001 2002 2003 2004 2005 2006 2007 2008 2009 2010 2011 2012 2013 2014 2015 weight: 0.33
replica 1 step 0 tokens: 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 weight: 1.00
replica 1 step 1 tokens: 1100 1101 1102 1103 1104 1105 1106 1107 1108 1109 1110 1111 1112 1113 1114 1115 weight: 0.50
replica 1 step 2 tokens: 2100 2101 2102 2103 2104 2105 2106 2107 2108 2109 2110 2111 2112 2113 2114 2115 weight: 0.33
3 batches in mem:hello
END
}

# By pkg-config.
export PKG_CONFIG_PATH="$libdir/pkgconfig"
hello=$LAKE_SOURCE_DIR/docs/examples/hello.c
"$cc" $flags "$hello" $(pkg-config --cflags --libs lakestream) -o "$scratch/hello_pc"
expect "$scratch/hello_pc"
static=$(pkg-config --static --cflags --libs lakestream | sed 's/-llakestream/-l:liblakestream.a/')
"$cc" $flags "$hello" $static -o "$scratch/hello_pc_static"
if ldd "$scratch/hello_pc_static" | grep -q liblakestream; then
  echo "the static program wants the shared library"
  exit 1
fi
expect "$scratch/hello_pc_static"

# By find_package.
cmake -S "$LAKE_SOURCE_DIR/docs/examples/out_of_tree" -B "$scratch/cmake" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_C_FLAGS="$flags" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" 2>&1 &&
  cmake --build "$scratch/cmake" >>"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
expect "$scratch/cmake/hello"
expect "$scratch/cmake/hello_static"

# As strict C11, too.
"$cc" -std=c11 -pedantic -Wall -Wextra -Werror ${LAKE_SANITIZE:+-fsanitize=$LAKE_SANITIZE} "$hello" \
  $(pkg-config --cflags --libs lakestream) -o "$scratch/hello_c11"
expect "$scratch/hello_c11"

# Where no URL is given the folder goes at the end; with one the namespace stays.
LD_LIBRARY_PATH="$libdir" "$scratch/hello_c11" >"$scratch/said"
grep -q "^3 batches in $TMPDIR/lakestream-hello-" "$scratch/said" || { cat "$scratch/said"; exit 1; }
! ls -A "$TMPDIR" | grep . || { echo "hello left that behind"; exit 1; }
made=$scratch/made
LD_LIBRARY_PATH="$libdir" "$scratch/hello_pc" "$made" >"$scratch/said"
[ -e "$made/lakestream.json" ] || { echo "no namespace at $made"; exit 1; }
status=0
LD_LIBRARY_PATH="$libdir" "$scratch/hello_pc" "$made" >/dev/null 2>"$scratch/said" || status=$?
[ "$status" = 1 ] && grep -q '^hello: EXISTS: .*choose a fresh prefix$' "$scratch/said" ||
  { echo "a taken prefix: exit $status"; cat "$scratch/said"; exit 1; }

# Components: mpi where it was built; an unknown one is refused.
mkdir "$scratch/component"
component() {
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(c LANGUAGES C)' \
    "find_package(lakestream CONFIG REQUIRED COMPONENTS $1)" 'add_executable(c c.c)' \
    "target_link_libraries(c PRIVATE $2)" >"$scratch/component/CMakeLists.txt"
  rm -rf "$scratch/component/build"
  cmake -S "$scratch/component" -B "$scratch/component/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_FLAGS="$flags" >"$scratch/log" 2>&1 && cmake --build "$scratch/component/build" >>"$scratch/log" 2>&1
}
if [ "${LAKE_MPI:-OFF}" = ON ]; then
  cat >"$scratch/component/c.c" <<'END'
#include <lakestream/lakestream.h>
#include <lakestream/mpi.h>
int main(void) {
  lake_mpi_group_close(NULL);
  return 0;
}
END
  component mpi lakestream::mpi || { cat "$scratch/log"; exit 1; }
  "$scratch/component/build/c" || { echo "the MPI program does not start"; exit 1; }
fi
echo 'int main(void) { return 0; }' >"$scratch/component/c.c"
component static lakestream::lakestream_static || { cat "$scratch/log"; exit 1; }
if component nonsense lakestream::lakestream; then
  echo "an unknown component was accepted"
  exit 1
fi
echo ok
