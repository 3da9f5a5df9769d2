#!/usr/bin/env bash
# `make run`: measures this machine once, then trains on 2 ranks and writes the report.
source "$(dirname "$0")/lib.sh"

hardware=build/this-machine.json
out=build/run
export OMP_NUM_THREADS=1 # a rank is one thread, so that two ranks do not share a core
# Both ranks are here: a machine that cannot resolve its own name trains as well.
export GLOO_SOCKET_IFNAME=lo
here=(--local-addr 127.0.0.1 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:0)

if [ ! -s $hardware ]; then
  say "measuring this machine"
  mkdir -p build
  $venv/bin/python -m equipoise.calibrate --out $hardware
fi
$venv/bin/torchrun "${here[@]}" --nproc-per-node 2 -m equipoise.train --demo \
  --hardware $hardware --out $out

report=$(find "$PWD/$out" -name '*.html' -print -quit)
say "report: ${report:-none was written}"
[ -n "$report" ]
