#!/usr/bin/env bash
# `make lint`: format, Python lint, sizes, layers, clang-tidy; all are run, then it fails if one did.
source "$(dirname "$0")/lib.sh"

# Only the core is analysed: the other folders are thin, and torch's headers alone would take minutes.
tidy() {
  quietly configure-debug cmake --preset debug &&
    find equipoise -name '*.cc' -print0 |
    xargs -0r -P "$jobs" -n 1 clang-tidy-19 -p build/debug --quiet --extra-arg=-Wno-unknown-warning-option 2> >(grep -v 'warnings\? generated' >&2)
}

# One line for each place; what to do about all of them is the same.
format() {
  cpp_files | xargs -0r clang-format-19 --dry-run -Werror 2>&1 |
    sed -n 's/error: code should be.*/not formatted: run "make format"/p; /error:/p'
}

failed=()
check() {
  local name=$1
  shift
  say "$name"
  "$@" || failed+=("$name")
}

check "clang-format" format
check "ruff" $venv/bin/ruff check --quiet .
check "ruff format" $venv/bin/ruff format --quiet --check .
check "sizes" $venv/bin/python scripts/check_sizes.py
check "layers" $venv/bin/python tests/layers/check_layers.py
check "clang-tidy" tidy

[ ${#failed[@]} = 0 ] || { say "lint failed: ${failed[*]}" && exit 1; }
say "lint passed"
