# The man page names every option that the help texts name, and no other; man renders it without a complaint.
. "$(dirname "$0")/lake.inc"
page=${LAKE_SOURCE_DIR:-$tests/../..}/docs/man/lake.1
for c in init feed ls inspect verify doctor seal reclaim sim export; do
  lake $c --help >help.txt
  sed -n "/^\.SS lake $c/,/^\.S[SH]/p" "$page" | tr -d '\\' >section.txt
  [ -s section.txt ] || die "no section on lake $c"
  sed 's/.*/&/;/^\.SS Options/,/^\.SH/!d' "$page" | tr -d '\\' >common.txt
  for option in $(grep -o -- '--[a-z][a-z-]*' help.txt | sort -u); do
    grep -q -e "$option\b" section.txt common.txt || die "lake.1 does not name $option of lake $c"
  done
done
for c in init feed ls inspect verify doctor seal reclaim sim export; do lake $c --help; done >all.txt
for option in $(tr -d '\\' <"$page" | grep -o -- '--[a-z][a-z-]*' | sort -u); do
  [ "$option" = --version ] || grep -q -e "$option\b" all.txt || die "lake.1 names $option, which is no option"
done
if command -v man >/dev/null && command -v tbl >/dev/null; then
  for width in 80 100; do
    MANWIDTH=$width man --warnings -E UTF-8 -l "$page" >page.txt 2>warnings.txt || die "man"
    [ ! -s warnings.txt ] || die "man complains at $width columns: $(cat warnings.txt)"
  done
  for word in s3://bucket/prefix az://container/prefix share/doc/lakestream/STORES.md LAKESTREAM_LOG LAKESTREAM_FORCE; do
    grep -qF "$word" page.txt || die "the page does not name $word"
  done
  grep -q "transient" page.txt || die "no table of exit codes"
fi
