#!/usr/bin/env bash
# `make format`: what `make lint` only checks.
source "$(dirname "$0")/lib.sh"

cpp_files | xargs -0r clang-format-19 -i
$venv/bin/ruff check --quiet --fix . || true # what it cannot mend, lint reports
$venv/bin/ruff format .
