#!/bin/sh
# The figures of docs/PERFORMANCE.md, from the product's own simulator: sh tests/bench/figures.sh LAKE [HOURS]
# LAKE is the program, HOURS the virtual hours of each run (5). Equal programs give equal figures.
set -eu
lake=${1:?usage: figures.sh LAKE [HOURS]}
hours=${2:-5}
store='--latency-ms 60 --bandwidth-mb-s 100 --jitter 0.5 --tgb-bytes 1000000 --seed 1'
say() { printf '\n== %s\n' "$*"; }
say "(a) the paper's Figure 7: 32 producers write as fast as they can, write and commit in one loop, full-list manifests"
# shellcheck disable=SC2086
"$lake" sim $store --producers 32 --hours "$hours" --rate 0 --full-list --policy dac,incr,fixed100,aimd,fixed10,naive
say "(b) dac on bounded manifests: the last hour against the first"
# shellcheck disable=SC2086
"$lake" sim $store --producers 32 --hours "$hours" --rate 0.5 --policy dac
for producers in 8 32 128; do
  say "(c) dac and carry, $producers producers"
  # shellcheck disable=SC2086
  "$lake" sim $store --producers "$producers" --hours 1 --warmup 1800 --rate 0.5 --policy dac,carry
done
