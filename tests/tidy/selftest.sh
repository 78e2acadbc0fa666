# The checker itself: a clean tree passes, and each planted fault is found, for its own reason.
set -eu
: "${LAKE_SOURCE_DIR:?run this by ctest}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
check=$LAKE_SOURCE_DIR/tests/tidy/check.bash
count=0
export LAKE_TIDY_SHELLCHECK=0 # slow, and only its own faults need it

clean_tree() {
  rm -rf "$scratch/tree"
  mkdir -p "$scratch/tree/src/model" "$scratch/tree/src/base" "$scratch/tree/tests/cli"
  cd "$scratch/tree"
  printf '%s\n' '/* A file. It says "sprintf(" and never calls it: malloc(1). */' '#include "base/env.h"' \
    '#include "model/a.h"' 'static const char *text = "time(NULL)"; /* TODOS is no marker, /workers no path */' \
    'int lki_x(table *t) { return t->free(t) + ops.time(0) + lki_free(t); }' >src/model/a.c
  printf '%s\n' '/* The door to the clock. */' '#include <xxhash.h>' 'int x(void) { return clock_gettime(0, 0); }' \
    >src/base/checksum.c
  printf '%s\n' 'for i in 1 2; do' '  [ -e x ] && break' '  sleep 0.05' 'done' 'sleep 60 &' 'wait' \
    "sh -c 'sleep 5'" 'cat <<END' 'sleep 9' 'END' >tests/cli/1.sh
}

# planted FILE LINE WANTED: with LINE at the end of FILE the check fails and says WANTED.
planted() {
  count=$((count + 1))
  clean_tree
  mkdir -p "$(dirname "$1")"
  [ -e "$1" ] || printf '/* A file. */\n' >"$1"
  printf '%b\n' "$2" >>"$1"
  if bash "$check" "$scratch/tree" >"$scratch/said" 2>/dev/null; then
    echo "not found: $2 in $1"
    exit 1
  fi
  grep -qF -- "$3" "$scratch/said" || { echo "wrong reason for $2 in $1:"; cat "$scratch/said"; exit 1; }
  [ "$(wc -l <"$scratch/said")" -le "${4:-1}" ] || { echo "too much is found:"; cat "$scratch/said"; exit 1; }
}

clean_tree
bash "$check" "$scratch/tree" || { echo "the clean tree is refused"; exit 1; }

planted src/model/a.c '#include "format/format.h"' 'src/model may include only'
planted src/base/b.c '#include "model/a.h"' 'src/base may include only'
planted src/store/b.c '#include "format/names.h"' 'src/store may include only'
planted src/log/b.c '#include "tgb/tgb.h"' 'src/log may include only'
planted src/tgb/b.c '#include "client/steps.h"' 'src/tgb may include only'
planted src/client/b.c '#include "launcher/x.h"' 'src/client may include only'
planted src/client/upload.c '#include <lakestream/consumer.h>' 'knows nothing of the consumer'
planted src/client/prefetch.c '#include "client/producer.h"' 'knows nothing of the producer'
planted hpc/b.c '#include "base/env.h"' 'only <lakestream/...>'
planted include/lakestream/b.h '#include "base.h"' 'include each other as'
planted launcher/lake/b.c '#include <cjson/cJSON.h>' 'its door is src/base/json'
planted src/store/b.c '#include <zstd.h>' 'its door is src/format/'
planted src/client/b.c '# include <mpi.h>' 'its door is hpc/'
planted launcher/lake/b.c '#include <curl/curl.h>' 'its door is src/store/'
planted launcher/lake/b.c '#include <hdf5.h>' 'its door is launcher/lake/export_'
planted src/format/b.c '#include <xxhash.h>' 'its door is src/base/checksum'
planted src/format/b.c '#include <zlib.h>' 'its door is launcher/lake/'
for call in 'time(NULL)' 'clock_gettime(c, \&t)' 'getenv("A")' 'malloc(1)' 'free(p)' 'usleep(1)' 'rand()' \
  'printf("x")' 'pthread_create(a, b, c, d)'; do
  planted src/model/a.c "int f(void) { return $call; }" 'come from lake_env'
done
for call in 'sprintf(a, b)' 'strcpy(a, b)' 'strcat(a, b)' 'atoi(a)' 'atol(a)' 'alloca(3)'; do
  planted launcher/lake/b.c "int f(void) { return $call; }" 'banned'
  planted src/base/b.c "int f(void) { return $call; }" 'banned'
done
planted tests/unit/b.c 'int f(void) { usleep(3); }' 'tests do not sleep'
planted tests/unit/b.c 'int f(void) { nanosleep(a, b); }' 'tests do not sleep'
planted tests/cli/1.sh 'sleep 0.1' 'only inside a polling loop'
planted tests/cli/1.sh 'while x; do sleep 1; done' 'only fractions of a second'
planted tests/cli/1.sh 'while x; do\n  y\ndone\nx && sleep 2' 'only inside a polling loop'
planted src/base/b.c "$(printf 'int x;\\n%.0s' $(seq 600))" '602 lines, more than 600' 2
planted src/base/b.c "int f(int a,\n      int b) {\n$(printf '  x();\\n%.0s' $(seq 68))}" 'a function of 71 lines'
clean_tree
printf 'int f(int a) {\n%s}\n' "$(printf '  x();\n%.0s' $(seq 68)) " >>src/base/checksum.c
bash "$check" "$scratch/tree" || { echo "a function of 70 lines is refused"; exit 1; }

for marker in TODO FIXME XXX HACK; do
  planted src/model/a.c "/* $marker: later */" 'finish it'
  planted docs/a.md "$marker" 'finish it'
done
planted docs/a.md 'see /wor''k/main' 'nothing outside the project'
planted README.md 'see ../sha''red/design' 'nothing outside the project'
if command -v shellcheck >/dev/null; then
  export LAKE_TIDY_SHELLCHECK=1
  planted tests/cli/1.sh 'cd /tmp\nrm -rf $unset/*\n[ $a == b ]]' 'SC' 9
  planted tests/run.sh '# A comment.\necho "${a[0]}"' 'SC3054' 9
fi
clean_tree
printf 'int x;\n' >src/base/b.h
! bash "$check" "$scratch/tree" >"$scratch/said" 2>/dev/null && grep -q 'b.h: does not open' "$scratch/said" ||
  { echo "a file that does not say what it is passes"; exit 1; }
echo "$count planted faults were found"
