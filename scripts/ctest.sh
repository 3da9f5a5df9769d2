#!/usr/bin/env bash
# ctest.sh PRESET: builds the tests of the core and runs them, by that CMake preset.
source "$(dirname "$0")/lib.sh"

preset=$1
export ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1

say "building the tests of the core, preset $preset"
quietly "configure-$preset" cmake --preset "$preset"
cmake --build --preset "$preset" --target core_tests -j "$jobs" -- --quiet
say "running the tests of the core, preset $preset"
quietly "ctest-$preset" ctest --preset "$preset" -j "$jobs" --no-tests=error
grep -A9 'tests passed' "$logs/ctest-$preset.log"
