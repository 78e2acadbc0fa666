# What a library exports is what its map lists and what its headers declare, no more and no less; the soname is right.
set -eu
: "${LAKE_SOURCE_DIR:?run this by ctest}" "${LAKE_BUILD_DIR:?}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export LC_ALL=C

# check LIBRARY MAP PART VERSION: three lists, compared two by two.
check() {
  library=$LAKE_BUILD_DIR/lib/$1.so
  nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sort >exported
  sed -n '/global:/,/local:/s/^ *\(lake_[a-z0-9_]*\);$/\1/p' "$LAKE_SOURCE_DIR/$2" | sort >map
  sed "s/\$/@@$4/" map >map.versioned
  python3 "$LAKE_SOURCE_DIR/docs/man/api.py" names "$LAKE_SOURCE_DIR/include" "$3" | sort >declared
  [ -s exported ] && [ -s map ] && [ -s declared ] || { echo "$1: a list is empty"; exit 1; }
  diff -u map.versioned exported || { echo "$1: $2 and the exported symbols differ"; exit 1; }
  diff -u declared map || { echo "$1: $2 and the functions that the headers declare differ"; exit 1; }
  soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  [ "$soname" = "$1.so.0" ] || { echo "$1: soname is $soname"; exit 1; }
  echo "$1: $(wc -l <exported) functions"
}

check liblakestream src/lakestream.map core LAKESTREAM_0
if [ "${LAKE_MPI:-OFF}" = ON ]; then
  check liblakestream_mpi hpc/lakestream_mpi.map mpi LAKESTREAM_MPI_0
fi
