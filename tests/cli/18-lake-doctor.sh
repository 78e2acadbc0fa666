# doctor: a store that keeps its promises passes and is left as it was; text and JSON say the same; a signal leaves
# nothing behind. Stores that fail: tests/unit/client_proof.c, and below against a server that lies.
. "$(dirname "$0")/lake.inc"

mkdir mine
echo kept >mine/other
ok lake doctor file:mine
head -1 out.log | grep -qx "file:$PWD/mine" || die "no URL"
for check in create race read list remove speed; do grep -q "^  $check  *ok  *[a-z0-9]" out.log || die "no $check"; done
grep -q "50 names, 32 writers at once over two connections: one owner each" out.log || die "no race"
grep -qx "this store keeps what Lakestream needs" out.log || die "no verdict"
is "$(find mine -type f -o -path '*doctor*')" "mine/other" "what is left"

ok lake doctor --json file:mine
is "$(json 'j["url"]')" "file:$PWD/mine" url
is "$(json 'j["verdict"], j["left_count"], "error" in j, "settings" in j')" "('ok', '0', False, False)" verdict
is "$(json '[c["name"]+" "+c["result"] for c in j["checks"]]')" \
  "['create ok', 'race ok', 'read ok', 'list ok', 'remove ok', 'speed ok']" checks
is "$(json 'all(int(j["latency_ns"][k]) > 0 and int(j["bytes_per_second"][k]) > 0 for k in ("get","put"))')" True speed
ok lake doctor mem:x --json # lives and ends with the command, which is all that is needed
is "$(json 'j["verdict"]')" ok "mem:"

# What killed checks have left: removed when a day has gone, not while one may be running, and nothing else ever.
now=$(date +%s)
old=doctor/$((now - 25 * 3600))-0123456789abcdef young=doctor/$((now - 23 * 3600))-0123456789abcdef
late=doctor/$((now + 90000))-0123456789abcdef
for run in $old $young $late doctor/mine doctor/$((now - 90000)) doctor/$((now - 90000))-0123456789ABCDEF; do
  mkdir -p "mine/$run/list"
  echo x >"mine/$run/list/00001"
done
echo x >"mine/$old/once"
ok lake doctor file:mine
grep -q "^  removed 2 objects below doctor/ that earlier checks" out.log || die "not told of what was removed"
[ ! -e "mine/$old" ] || die "an old check's objects or folders are left"
is "$(find mine/doctor -type f | wc -l)" 5 "what is not an old check's"
ok lake doctor file:mine --json
is "$(json 'j["old_count"], j["left_count"]')" "('0', '0')" "nothing more to remove"
rm -r mine/doctor

# A namespace beside it: not disturbed, and nothing in it is unknown.
ok lake init file:ns
ok lake doctor file:ns
ok lake verify file:ns

fails 2 "the URL of a store" lake doctor
fails 2 "too many words" lake doctor a b
fails_json 9 UNSUPPORTED unsupported lake doctor s4://bucket --json
fails_json 2 INVALID usage lake doctor "s3://" --json
# The table has the whole text, the last line only says where to look; with JSON, which has no table, it has all.
fails 3 "lake doctor: file:/proc/foo: the check \"create\" could not be carried out: see above" lake doctor file:/proc/foo
is "$(grep -c "cannot be made there" out.log)" 1 "the cause, in the table"
fails_json 3 NOTFOUND notfound lake doctor file:/proc/foo --json
grep -q "could not be carried out: .*cannot be made there" err.log || die "no cause with --json"

# The first signal ends the check, which cleans up; the program then ends by that signal.
lake doctor file:stopped >stopped.log 2>&1 &
pid=$!
until [ -n "$(find stopped -type f 2>/dev/null | head -1)" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
kill -INT $pid
code=0
wait $pid || code=$?
if [ $code -ne 0 ]; then
  is $code 130 "exit code after INT"
  grep -q "the check was ended before it was through" stopped.log || die "no word of the signal"
fi
is "$(find stopped -type f | wc -l)" 0 "objects after INT"
