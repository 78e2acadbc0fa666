# Help, version and wrong command lines: texts on the right stream, exit codes, suggestions.
. "$(dirname "$0")/lake.inc"

ok lake --version
is "$(cat out.log)" "lake 0.1.0" "--version"
ok lake --help
for c in init feed ls inspect verify doctor seal reclaim export; do
  grep -q "^  $c " out.log || die "lake --help does not name $c"
done
for c in init feed ls inspect verify doctor seal reclaim export; do
  ok lake $c --help
  head -1 out.log | grep -q "^usage: lake $c" || die "lake $c --help"
  for option in --json --timeout --help; do grep -q -- "^  $option" out.log || die "lake $c --help: no $option"; done
  cp out.log first
  ok lake help $c
  cmp -s first out.log || die "lake help $c differs from lake $c --help"
done
ok lake help
for word in file:/ s3://bucket gs://bucket az://container STORES.md; do
  grep -qF -- "$word" out.log || die "lake help does not name $word"
done

# The log's level: a wrong one is refused before anything is done, and each of the four is taken.
fails 2 "LAKESTREAM_LOG=loud: choose error, warn, info or debug" env LAKESTREAM_LOG=loud lake init file:loud
[ ! -e loud ] || die "a wrong level did not stop init"
LAKESTREAM_LOG=WARN fails_json 2 INVALID usage lake ls file:x --json
for level in error warn info debug ""; do ok env LAKESTREAM_LOG=$level lake --version; done

run lake
is "$(cat err.log | grep -c 's3://bucket/prefix')" 1 "lake alone names the stores"
is $code 2 "no command"
[ ! -s out.log ] || die "usage of an error belongs on stderr"
fails 2 "unknown command 'verfy'; did you mean 'verify'?" lake verfy
fails 2 "unknown command 'frobnicate'; see lake --help" lake frobnicate
fails 2 "unknown option '--vrsion'" lake --vrsion
fails 2 "unknown option '--limt'; did you mean '--limit'?" lake ls --limt 3 file:x
fails 2 "unknown option '--frobnicate'; see lake ls --help" lake ls --frobnicate
fails 2 "unknown option '-q'" lake ls -q
fails 2 "option '--limit' wants a value" lake ls file:x --limit
fails 2 "takes no value" lake ls --json=3 file:x
fails 2 "a URL" lake export
fails 2 "too many words" lake ls a b
fails 2 "--limit -1: a whole number" lake ls file:x --limit -1
fails 2 "--limit 1x: a whole number" lake ls file:x --limit 1x
fails 2 "--limit 99999999999999999999: a whole number" lake ls file:x --limit 99999999999999999999
fails 2 "--timeout soon" lake ls file:x --timeout soon
fails_json 2 INVALID usage lake ls --jsn --json
fails_json 2 INVALID usage lake frobnicate --json

# stdout that cannot be written is said; a reader that has enough is no failure.
ok lake init file:ns
run sh -c 'lake ls file:ns >/dev/full'
is $code 5 "a full device"
grep -q "^lake ls: writing to stdout: No space left on device; the output is cut short$" err.log || die "a full device is not named"
lake feed text --create file:t --id a --seq-len 8 /usr/share/common-licenses/Apache-2.0 >/dev/null
run sh -c 'lake ls file:t >/dev/full' # more than one buffer: the error is not the last call's
is $code 5 "a full device"
grep -q "^lake ls: writing to stdout: .*; the output is cut short$" err.log || die "a full device is not named"
ok bash -c 'set -o pipefail; lake ls file:t --json | head -1'
