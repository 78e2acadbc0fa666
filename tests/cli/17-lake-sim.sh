# lake sim: equal options give equal figures, carry shows batches far sooner than dac, and bad options are refused.
. "$(dirname "$0")/lake.inc"
ok lake sim --hours 0.3 --producers 16 --policy dac,carry --json
cp out.log first.json
ok lake sim --hours 0.3 --producers 16 --policy dac,carry --json
python3 - first.json out.log <<'PY'
import json, sys
a, b = (json.load(open(p))["policies"] for p in sys.argv[1:])
for x, y in zip(a, b):
    x.pop("cpu_s"), y.pop("cpu_s")
assert a == b, "equal options, other figures"
dac, carry = a
assert dac["policy"] == "dac" and carry["policy"] == "carry"
assert dac["success_pct"] > 90 and carry["success_pct"] > 90, (dac, carry)
assert carry["visible_p50_s"] * 5 < dac["visible_p50_s"], (dac, carry)
assert abs(dac["ingest_mb_s"] - 8) < 0.5 and abs(carry["ingest_mb_s"] - 8) < 0.5
PY
ok lake sim --hours 0.1 --producers 4 --policy naive,fixed10,fixed100,incr,aimd --full-list --rate 0
grep -q '^aimd ' out.log || die "no line for aimd"
# The paper's Figure 7, one hour of it: dac first, and within its budget for conflicts. Segments, which the paper does not
# have, must cost nothing there: a producer of thousands of TGBs seals several an attempt, and dac would win 94 %.
ok lake sim --hours 1 --producers 32 --policy dac,incr,fixed100 --full-list --rate 0 --tgb-bytes 1000000 --latency-ms 60 \
  --bandwidth-mb-s 100 --jitter 0.5 --json
python3 - out.log <<'PY'
import json, sys
dac, incr, fixed100 = json.load(open(sys.argv[1]))["policies"]
assert dac["ingest_mb_s"] > incr["ingest_mb_s"] > fixed100["ingest_mb_s"], (dac, incr, fixed100)
assert dac["success_pct"] > 95 > incr["success_pct"] > fixed100["success_pct"], (dac, incr, fixed100)
PY
fails 2 "is none of dac carry" lake sim --policy dac,nonsense
fails 2 "--hours" lake sim --hours 0
fails 2 "--epsilon" lake sim --epsilon 2
fails 2 "no further word" lake sim extra
