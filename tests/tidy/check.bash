#!/bin/bash
# The house rules that a machine can check: bash check.bash ROOT. Prints one line for each fault, exits 1 if there are
# any. tree.sh runs it on the project, selftest.sh on planted trees.
#
# Rules: arrows between rooms, one door for each third party, calls that are banned, tests that sleep, files and
# functions that are too long, files that do not say what they are, markers left behind, paths outside the project,
# shell scripts that shellcheck refuses.
set -u
export LC_ALL=C
cd "${1:?usage: check.bash ROOT}" || exit 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
faults=$scratch/faults
: >"$faults"

FILE_LINES_MAX=600
FUNCTION_LINES_MAX=70

fault() { printf '%s\n' "$*" >>"$faults"; }

list() { # list PATTERN...: files of the project by name
  local folders=() names=() name
  for name in src include hpc launcher tests docs slurm cmake .ci; do [ -e "$name" ] && folders+=("$name"); done
  for name in "$@"; do names+=(-o -name "$name"); done
  [ ${#folders[@]} -gt 0 ] && find "${folders[@]}" -type f \( "${names[@]:1}" \) | sort
}

list '*.c' '*.h' '*.cpp' '*.hpp' >"$scratch/code.list"
list '*.sh' '*.bash' >"$scratch/shell.list"

# Code without comments and without what is inside quotes, as path:line:code.
strip() {
  xargs -r awk '
    FNR == 1 { inside = 0 }
    {
      out = ""; n = length($0); quote = ""
      for (i = 1; i <= n; i++) {
        two = substr($0, i, 2); one = substr($0, i, 1)
        if (inside) { if (two == "*/") { inside = 0; i++ } continue }
        if (quote != "") { if (one == "\\") i++; else if (one == quote) { out = out one; quote = "" } continue }
        if (two == "/*") { inside = 1; i++; out = out " "; continue }
        if (two == "//") break
        if ((one == "\"" && $0 !~ /^[ \t]*#[ \t]*include/) || one == "\047") quote = one
        out = out one
      }
      print FILENAME ":" FNR ":" out
    }' <"$1"
}
strip "$scratch/code.list" >"$scratch/code"
grep -E '^[^:]*:[0-9]+:[[:space:]]*#[[:space:]]*include' "$scratch/code" >"$scratch/includes"

# ---- arrows ----
# base <- model <- format; base <- store; {format, store} <- {tgb, log} <- client <- {hpc, bindings} <- launcher
check_arrows() {
  local room allowed
  while read -r room allowed; do
    grep "^src/$room/" "$scratch/includes" | grep -E '#[[:space:]]*include[[:space:]]*"' |
      grep -vE "include[[:space:]]*\"($allowed)/" |
      while IFS= read -r line; do fault "$line  <- src/$room may include only $allowed"; done
  done <<'END'
base base
model base|model
format base|model|format
store base|store
tgb base|model|format|store|tgb
log base|model|format|store|log
client base|model|format|store|tgb|log|client
END
  # The MPI part, the examples and the public headers use the public API only.
  grep -E '^(hpc|docs/examples|include)/' "$scratch/includes" | grep -E 'include[[:space:]]*"[^"]*/' |
    while IFS= read -r line; do fault "$line  <- only <lakestream/...> and files of the same folder may be included here"; done
  grep -E '^include/' "$scratch/includes" | grep -E 'include[[:space:]]*"' |
    while IFS= read -r line; do fault "$line  <- public headers include each other as <lakestream/...>"; done
  # Producer and consumer never meet.
  grep -E '^src/client/(producer|committer|upload)\.' "$scratch/includes" | grep -E '(client|lakestream)/consumer\.h' |
    while IFS= read -r line; do fault "$line  <- the producer knows nothing of the consumer"; done
  grep -E '^src/client/(consumer|prefetch|steps)\.' "$scratch/includes" | grep -E '(client|lakestream)/producer\.h' |
    while IFS= read -r line; do fault "$line  <- the consumer knows nothing of the producer"; done
}

# ---- one door for each third party ----
check_doors() {
  local header allowed
  while read -r header allowed; do
    grep -E "include[[:space:]]*[<\"]$header" "$scratch/includes" | grep -vE "^($allowed)" |
      while IFS= read -r line; do fault "$line  <- its door is $allowed"; done
  done <<'END'
curl/ src/store/http[a-z_]*\.[ch]:|tests/bench/
openssl/ src/store/digest\.c:|tests/support/faultd/
expat src/store/xml\.c:
zstd src/format/|tests/
cjson/ src/base/json\.[ch]:
hdf5 launcher/lake/export_(hdf5|disk)\.[ch]:|tests/
mpi\.h hpc/|include/lakestream/mpi\.h:|docs/examples/|tests/
xxhash src/base/checksum\.c:|tests/|docs/examples/
zlib launcher/lake/|tests/
END
}

# ---- banned calls ----
calls() { # calls NAMES: lines of code on stdin that call one of them
  grep -E "^[^:]*:[0-9]+:(.*[^A-Za-z0-9_.>])?($1)[[:space:]]*\(" | grep -vE '#[[:space:]]*define'
}
check_calls() {
  # src/sim/ is a machine of its own below lake_env, as src/base/ is.
  grep -E '^src/' "$scratch/code" | grep -vE '^src/(base|sim)/' |
    calls 'sleep|usleep|nanosleep|clock_nanosleep|time|gettimeofday|clock_gettime|rand|srand|random|getrandom|getenv|secure_getenv|malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign|pthread_create|pthread_mutex_lock|pthread_cond_wait|pthread_cond_timedwait|printf|puts|exit|abort' |
    while IFS= read -r line; do fault "$line  <- time, chance, memory, threads and output come from lake_env (base/env.h)"; done
  grep -vE '^tests/' "$scratch/code" |
    calls 'sprintf|vsprintf|strcpy|strcat|strncat|stpcpy|gets|strtok|atoi|atol|atoll|atof|alloca|tmpnam|mktemp' |
    while IFS= read -r line; do fault "$line  <- banned: unbounded or without errors"; done
  grep -E '^tests/' "$scratch/code" | calls 'sleep|usleep|nanosleep|clock_nanosleep' |
    while IFS= read -r line; do fault "$line  <- tests do not sleep: poll for the event with a bound"; done
}

# Shell tests may pause for a fraction inside a polling loop, and may start a sleep as a victim in the background. A
# computed time is let pass: that is how a kill comes at a random moment.
check_shell_sleeps() {
  grep '^tests/' "$scratch/shell.list" | xargs -r awk '
    FNR == 1 { depth = 0; heredoc = "" }
    heredoc != "" { if ($1 == heredoc) heredoc = ""; next }
    {
      line = $0
      sub(/^[ \t]*#.*/, "", line)
      if (match(line, /<<-?[ ]*["\047]?[A-Za-z_]+/)) {
        heredoc = substr(line, RSTART, RLENGTH); gsub(/[<\-"\047 ]/, "", heredoc)
      }
      gsub(/\\./, "", line); gsub(/"[^"]*"/, "\"\"", line); gsub(/\047[^\047]*\047/, "\047\047", line)
      opens = gsub(/(^|[;[:space:]])do([[:space:]]|$)/, "& ", line)
      depth += opens
      if (line ~ /(^|[;|(]|do|then|else|\|\||&&)[ \t]*sleep[ \t]+[0-9.]/ && line !~ /&[ \t]*$/ && line !~ /&[ \t]*[A-Za-z_]+=\$!/) {
        if (depth == 0 || line !~ /sleep[ \t]+0?\.[0-9]+/) print FILENAME ":" FNR ":" $0
      }
      depth -= gsub(/(^|[;[:space:]])done([[:space:];)|<>]|$)/, "&", line)
    }' | while IFS= read -r line; do fault "$line  <- only fractions of a second, only inside a polling loop"; done
}

# ---- sizes, openings, leftovers ----
check_files() {
  list '*.c' '*.h' '*.cpp' '*.hpp' '*.py' '*.sh' '*.bash' | xargs -r wc -l | awk -v max=$FILE_LINES_MAX \
    '$2 != "total" && $1 > max { print $2 ": " $1 " lines, more than " max }' >>"$faults"
  grep -E '^(src|include|hpc|launcher|docs)/' "$scratch/code.list" | xargs -r awk '
    FNR == 1 && $0 !~ /^(\/\*|\/\/)/ { print FILENAME ": does not open with a comment that says what it is" }' >>"$faults"
}

check_functions() { # by the layout that .clang-format gives: a body begins at a line ending in { and ends at ^}
  awk -v max=$FUNCTION_LINES_MAX '
    {
      match($0, /^[^:]*:[0-9]+:/); head = substr($0, 1, RLENGTH); code = substr($0, RLENGTH + 1)
      split(head, part, ":")
      if (part[1] != file) { file = part[1]; start = 0; inside = 0 }
      if (!inside && code ~ /^[A-Za-z_].*\(/ && code !~ /[;=]/) start = part[2]
      if (!inside && start && code ~ /\{[ \t]*$/ && code !~ /=[ \t]*\{/) inside = 1
      if (!inside && code ~ /;[ \t]*$/) start = 0
      if (inside && code ~ /^\}/) {
        length_lines = part[2] - start + 1
        if (length_lines > max) print file ":" start ": a function of " length_lines " lines, more than " max
        inside = 0; start = 0
      }
    }' "$scratch/code" >>"$faults"
}

check_leftovers() {
  local files=()
  mapfile -t files < <(list '*' | grep -v '^tests/tidy/' | grep -vE '\.(png|gz|h5|bin|tgb|zst)$')
  for name in README.md CHANGELOG.md CMakeLists.txt CMakePresets.json; do [ -e "$name" ] && files+=("$name"); done
  [ ${#files[@]} -gt 0 ] || return 0
  grep -InwE 'TODO|FIXME|XXX|HACK' "${files[@]}" /dev/null |
    while IFS= read -r line; do fault "$line  <- finish it or write an issue"; done
  grep -InE '(^|[^A-Za-z0-9_./-])/work(/|[^A-Za-z0-9_]|$)|\.\./shared/' "${files[@]}" /dev/null |
    while IFS= read -r line; do fault "$line  <- nothing outside the project may be named"; done
}

check_shell() {
  [ "${LAKE_TIDY_SHELLCHECK:-1}" = 1 ] || return 0
  command -v shellcheck >/dev/null || { echo "no shellcheck: shell scripts were not checked" >&2; return 0; }
  # What is left out: words that are meant to split, and names that come from a sourced file.
  local name dialect
  while IFS= read -r name; do
    dialect='bash'
    case $name in launcher/*.sh | tests/run.sh) dialect='sh' ;; esac
    shellcheck -s $dialect -S warning -e SC1090,SC1091,SC2034,SC2010,SC2046,SC2154,SC2217 -f gcc "$name" >>"$faults"
  done <"$scratch/shell.list"
}

check_arrows
check_doors
check_calls
check_shell_sleeps
check_files
check_functions
check_leftovers
check_shell

sort -u "$faults"
[ ! -s "$faults" ]
