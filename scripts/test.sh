#!/usr/bin/env bash
# `make test`: the core by ctest, all else by pytest.
source "$(dirname "$0")/lib.sh"

scripts/ctest.sh debug
say "running pytest"
OMP_NUM_THREADS=1 $venv/bin/python -m pytest tests
