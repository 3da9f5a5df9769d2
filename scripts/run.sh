#!/usr/bin/env bash
# `make run`: measures this machine once, then trains on 2 ranks and writes the report.
source "$(dirname "$0")/lib.sh"

hardware=build/this-machine.json
out=build/run
export OMP_NUM_THREADS=1 # a rank is one thread, so that two ranks do not share a core
export GLOO_SOCKET_IFNAME=lo # both are here, whatever this machine's name resolves to

if [ ! -s $hardware ]; then
  say "measuring this machine"
  mkdir -p build
  $venv/bin/python -m equipoise.calibrate --out $hardware
fi
$venv/bin/torchrun --nproc-per-node 2 -m equipoise.train --demo --hardware $hardware --out $out

report=$(find "$PWD/$out" -name '*.html' -print -quit)
say "report: ${report:-none was written}"
[ -n "$report" ]
