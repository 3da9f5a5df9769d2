#!/usr/bin/env bash
# `make bench`: runs the benchmarks of the core; those in Python take minutes, so it names them.
source "$(dirname "$0")/lib.sh"
shopt -s nullglob

quietly configure-release cmake --preset release
cmake --build --preset release -j "$jobs" -- --quiet
for program in build/release/bench/*; do
  say "$program"
  "$program" --benchmark_color=false
done
for script in bench/*.py; do
  [[ $script == bench/_* ]] || say "$venv/bin/python $script"
done
