# export: an HDF5 file that h5dump and h5py read, with the right values, or no file at all.
. "$(dirname "$0")/lake.inc"
ok lake feed text file:ns /usr/share/common-licenses/Apache-2.0 --create --id a --seq-len 16 --mesh 2x2 --rows 3
if [ "${LAKE_HDF5:-ON}" = OFF ]; then
  fails 9 "built without HDF5" lake export file:ns out.h5
  fails_json 9 UNSUPPORTED unsupported lake export file:ns out.h5 --json
  exit 0
fi
steps=$(lake ls file:ns --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["next_step"])')
ok lake export file:ns all.h5 --json
is "$(json 'j["step_count"], int(j["bytes"])')" "('$steps', $(stat -c %s all.h5))" summary
ok lake export file:ns part.h5 --from 2 --to 5 --tensors tokens,loss_mask
ok lake export file:ns none.h5 --from 3 --to 3
is "$(ls | grep -c tmp-)" 0 "temporaries left"
h5dump -pH all.h5 >dump || die "h5dump"
for word in 'DATASET "tokens"' 'DATASET "steps"' 'FLETCHER32'; do
  grep -q "$word" dump || die "h5dump shows no $word"
done

export PYTHON=/usr/bin/python3
if ! $PYTHON -c 'import h5py' 2>/dev/null; then echo "skipped the rest: no h5py" && exit 77; fi
PYTHONPATH=$tests $PYTHON - "$steps" <<'P' || die "h5py reads other values"
import sys, h5py, json, subprocess, numpy as np
sys.dont_write_bytecode = True
import tgb
n = int(sys.argv[1])
f = h5py.File("all.h5", "r")
a = f.attrs
assert a["format"] == "lakestream-hdf5" and a["format_version"] == 1 and list(a["mesh"]) == [2, 2]
assert a["rows_per_slice"] == 3 and a["step_count"] == n and a["first_step"] == 0 and a["lakestream_version"]
assert a["uuid"] == json.load(open("ns/lakestream.json"))["uuid"] and a["url"].startswith("file:")
assert set(f) == {"tokens", "labels", "position_ids", "segment_ids", "loss_mask", "steps", "producer", "epoch", "seq"}
assert list(f["steps"][:]) == list(range(n)) and list(f["seq"][:]) == list(range(n)) and set(f["epoch"][:]) == {1}
assert set(f["producer"][:]) == {b"a"}
for name, dtype in (("tokens", "u2"), ("labels", "u2"), ("position_ids", "i4"), ("segment_ids", "i4"), ("loss_mask", "u1")):
    d = f[name]
    assert d.shape == (n, 2, 2, 3, 8) and d.dtype == np.dtype("<" + dtype), (name, d.shape, d.dtype)
    assert d.chunks == (1, 1, 1, 3, 8) and d.compression == "gzip" and d.compression_opts == 4 and d.shuffle and d.fletcher32
    assert [x.label for x in d.dims] == ["step", "d", "c", "row", "dim0"]
    assert d.dims[0][0].name == "/steps"
for step, (ns, slices) in enumerate(tgb.tgbs("ns", "a")):
    want = list(tgb.rows(ns, slices))
    for k, t in enumerate(ns["tensors"]):
        got = f[t["name"]][step]                        # [d, c, row, 8]
        got = got.transpose(0, 2, 1, 3).reshape(6, 16)  # rows with their chunks joined
        assert [list(r) for r in got] == [w[k] for w in want], (step, t["name"])
p = h5py.File("part.h5", "r")
assert set(p) == {"tokens", "loss_mask", "steps", "producer", "epoch", "seq"} and list(p["steps"][:]) == [2, 3, 4]
assert (p["tokens"][:] == f["tokens"][2:5]).all()
z = h5py.File("none.h5", "r")
assert z["tokens"].shape == (0, 2, 2, 3, 8) and z.attrs["step_count"] == 0
P

# An existing file stays, unless --force; a failing export leaves nothing.
cp all.h5 before.h5
fails 4 "--force replaces it" lake export file:ns all.h5
cmp -s all.h5 before.h5 || die "the file changed"
fails_json 4 EXISTS conflict lake export file:ns all.h5 --json
ok lake export file:ns all.h5 --force --to 2
$PYTHON -c 'import h5py; assert h5py.File("all.h5","r").attrs["step_count"]==2' || die "--force"
fails 2 "no tensor 'token'" lake export file:ns x.h5 --tensors token
fails 2 "only $steps steps are committed" lake export file:ns x.h5 --to 99999
fails 2 "range is empty" lake export file:ns x.h5 --from 4 --to 3
fails 3 "no namespace at" lake export file:nowhere x.h5
fails 2 "is not a file" lake export file:ns /dev/null
fails 3 "no/such/folder/x.h5: not created: its folder does not exist" lake export file:ns no/such/folder/x.h5
fails_json 3 NOTFOUND notfound lake export file:ns no/such/folder/x.h5 --json
mkdir closed
chmod 755 . && chmod 555 closed
as_user=
if [ "$(id -u)" -eq 0 ]; then as_user="setpriv --reuid 65534 --clear-groups"; fi
if $as_user lake --version >/dev/null 2>&1; then
  fails 8 "closed/x.h5: not created: not permitted" $as_user lake export file:ns closed/x.h5
fi
# A disk that fills up at any point: one line, 5, nothing left, no crash.
for limit in 1 4 16 40; do
  fails 5 "x.h5: not written: above the limit on the size of a file" bash -c "ulimit -f $limit; exec lake export file:ns x.h5"
done
is "$(ls | grep -c '^x')" 0 "files after a limit"
cat >full.sh <<'S'
set -eu
mount -t tmpfs -o size=$1 tmpfs full
code=0
lake export file:ns full/x.h5 || code=$?
[ -z "$(ls full)" ] || echo "left: $(ls full)" >&2
exit $code
S
mkdir full
if unshare -m sh -c 'mount -t tmpfs tmpfs full' 2>/dev/null; then
  for size in 4k 8k 32k 64k; do
    fails 5 "full/x.h5: not written: the disk is full" unshare -m sh full.sh $size
  done
  is "$(ls full)" "" "only the other mount was written to"
fi
# Told to stop while it writes: one line, nothing left, and the end that the signal means. A signal sent before the
# start waits for the first moment at which the program looks for one, and that is when the file is there.
for signal in INT TERM; do
  code=0
  python3 - $signal <<'P' >out.log 2>err.log || code=$?
import os, signal, sys
number = getattr(signal, "SIG" + sys.argv[1])
signal.signal(number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, [number])
os.kill(os.getpid(), number)
os.execvp("lake", ["lake", "export", "file:ns", "x.h5"])
P
  is $code $((128 + $(kill -l $signal))) "exit on SIG$signal"
  is "$(cat err.log)" "lake export: stopped by SIG$signal; x.h5 was not written" "text"
  is "$(ls | grep -c '^x')" 0 "files after SIG$signal"
done
key=$(lake inspect file:ns --step 3 | python3 -c 'import json,sys; print(json.load(sys.stdin)["key"])')
cp -r ns bad
truncate -s 400 "bad/$key"
fails 6 "step 3" lake export file:bad x.h5
grep -q "$key: .*; restore the object$" err.log || die "no remedy"
is "$(grep -o "$key" err.log | wc -l)" 1 "names of the object"
fails 6 "$key: no footer ends here (wrong magic): truncated, or not a TGB; restore the object" lake inspect file:bad --step 3
ls | grep -q '^x' && die "a failed export left something: $(ls)"

# All dtypes as they come, and raw slices.
ok lake init file:raw --mesh 1x2
ok lake export file:raw raw.h5
$PYTHON -c '
import h5py
d = h5py.File("raw.h5", "r")["slices"]
assert d.shape == (0, 1, 2) and h5py.check_vlen_dtype(d.dtype) == "uint8" and d.attrs["dtype"] == "bytes"' || die raw
ok lake init file:types $(for t in u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64 bool; do echo --tensor t_$t:$t:2; done)
ok lake export file:types types.h5
$PYTHON -c '
import h5py
f = h5py.File("types.h5", "r")
want = dict(u8="uint8", i8="int8", u16="uint16", i16="int16", u32="uint32", i32="int32", u64="uint64", i64="int64",
            f16="float16", bf16="uint16", f32="float32", f64="float64", bool="bool")
for t, n in want.items():
    assert f["t_" + t].dtype == n and f["t_" + t].attrs["dtype"] == t, (t, f["t_" + t].dtype)' || die types
