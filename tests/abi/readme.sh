# What the documents show works: the C of README.md compiles, its job file is one, its `lake` commands exist, and no
# link between documents leads nowhere.
set -eu
: "${LAKE_SOURCE_DIR:?run this by ctest}" "${LAKE_BIN:?}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LC_ALL=C
cd "$LAKE_SOURCE_DIR"

block() { awk -v open="\`\`\`$1" '$0 == open { on = 1; next } /^```/ { on = 0 } on' README.md; } # block LANGUAGE
block c >"$scratch/readme.c"
block json >"$scratch/job.json"
block sh >"$scratch/commands"
for file in readme.c job.json commands; do
  [ -s "$scratch/$file" ] || { echo "README.md shows no $file"; exit 1; }
done
"${LAKE_CC:-cc}" -std=c11 -Wall -Wextra -Werror -Iinclude -fsyntax-only "$scratch/readme.c"
if [ -x "$LAKE_BIN/lakerun" ]; then
  "$LAKE_BIN/lakerun" --dry-run "$scratch/job.json" >/dev/null
fi
if [ -x "$LAKE_BIN/lake" ]; then
  for command in $(sed -n 's/^lake \([a-z]*\) .*/\1/p' "$scratch/commands"); do
    "$LAKE_BIN/lake" "$command" --help >/dev/null || { echo "README.md shows lake $command"; exit 1; }
  done
fi
for script in $(sed -n 's/^sh \([a-z/]*\.sh\).*/\1/p' "$scratch/commands"); do
  [ -e "$script" ] || { echo "README.md shows $script"; exit 1; }
done

failed=0
find . -name '*.md' -not -path './build/*' -not -path './.git/*' >"$scratch/documents"
while IFS= read -r document; do
  for link in $(grep -o '](\([^)#]*\)' "$document" | sed 's/^](//' | grep -v '^[a-z]*:' || true); do
    [ -e "$(dirname "$document")/$link" ] || { echo "$document: $link leads nowhere"; failed=1; }
  done
done <"$scratch/documents"
exit $failed
