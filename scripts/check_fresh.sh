#!/usr/bin/env bash
# Clones HEAD into an empty folder with an empty home and empty caches, and times what a newcomer does first:
# `make run`, `make test`, `make run` again. Fails if one fails or takes longer than it may. Before a release.
source "$(dirname "$0")/lib.sh"

limit_first_s=600
limit_test_s=1200
limit_again_s=240

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/home" "$work/cache"
git clone --quiet --no-hardlinks . "$work/equipoise"
say "$(git rev-parse --short HEAD) in $work"

failed=0
rows=()
# timed LIMIT_S TARGET...: one row of the table.
timed() {
  local limit=$1 start=$SECONDS verdict=ok
  shift
  say "$* (at most $limit s)"
  env HOME="$work/home" XDG_CACHE_HOME="$work/cache" PIP_CACHE_DIR="$work/cache/pip" CCACHE_DIR="$work/cache/ccache" \
    timeout --kill-after=10 "$limit" "$@" -C "$work/equipoise" || verdict="failed (exit code $?)"
  [ "$verdict" != "failed (exit code 124)" ] || verdict="too slow"
  [ "$verdict" = ok ] || failed=1
  rows+=("$(printf '%-20s %6d s %6d s  %s' "$*" $((SECONDS - start)) "$limit" "$verdict")")
}

timed $limit_first_s make run
timed $limit_test_s make test
timed $limit_again_s make run

printf '\n%-20s %8s %8s\n' command took limit
printf '%s\n' "${rows[@]}"
exit $failed
