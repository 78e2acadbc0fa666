#!/bin/bash
# The second decoder (support/decoder/decode.py, written from docs/format) and the library agree: on the committed
# golden objects, on fresh random ones, and on refusing damaged ones.
set -eu
python=/usr/bin/python3
"$python" -c 'import xxhash, zstandard' 2>/dev/null || { echo "needs python3-xxhash and python3-zstandard"; exit 77; }
decode="$LAKE_SOURCE_DIR/tests/support/decoder/decode.py"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

agree() { # folder: each object decodes to the text beside it
  local count=0 files=() object
  for object in "$1"/*; do
    case $object in *.expect) continue ;; esac
    files+=("$object")
    cat "$object.expect" >>"$work/want"
    count=$((count + 1))
  done
  [ "$count" -ge 11 ] || { echo "$1: only $count objects"; exit 1; }
  "$python" "$decode" "${files[@]}" >"$work/got"
  cmp "$work/want" "$work/got" || { diff "$work/want" "$work/got" | cut -c 1-2000 | head -20; exit 1; }
  echo "$count objects agree in $1"
  rm "$work/want"
}

agree "$LAKE_SOURCE_DIR/tests/golden/data"

seed=${LAKE_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "seed: LAKE_SEED=$seed"
mkdir "$work/random"
"$LAKE_BIN/test_golden_objects" random "$seed" "$work/random"
agree "$work/random"

# One damaged byte in each golden object (past the padding of a TGB, which only the second decoder looks at).
"$python" - "$LAKE_SOURCE_DIR/tests/golden/data" "$decode" <<'PY'
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("decode", sys.argv[2])
decode = importlib.util.module_from_spec(spec)
spec.loader.exec_module(decode)
count = 0
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    if path.suffix == ".expect":
        continue
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        bad = bytearray(data)
        bad[at] ^= 1 << at % 8
        try:
            decode.decode(bytes(bad))
        except (decode.Corrupt, decode.Unsupported, UnicodeDecodeError, decode.zstandard.ZstdError):
            count += 1
            continue
        sys.exit("%s: a flipped bit at %d was accepted" % (path.name, at))
print(count, "damaged objects refused")
PY
