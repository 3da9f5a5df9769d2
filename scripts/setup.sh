#!/usr/bin/env bash
# Installs what is missing, and only that: setup.sh NEED... with the needs
#   compiler  g++, CMake, Ninja and the header libraries of the core
#   gtest     GoogleTest
#   bench     Google Benchmark
#   tidy      clang-format and clang-tidy
#   wheel     .venv with torch, and the project built into it
#   pytest, ruff, solver   in .venv
# A second call finds all of it in place, installs nothing and takes about a second.
source "$(dirname "$0")/lib.sh"

torch=${TORCH:-torch==2.13.0}
sources=(CMakeLists.txt cmake pyproject.toml equipoise io cli bindings torch_ext python)

has() { command -v "$1" >/dev/null; }
has_header() { printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | c++ -std=c++20 -E -x c++ - >/dev/null 2>&1; }

# A Python that can make an environment and compile extensions: 3.11 first, the one we test with.
find_python() {
  local name path
  for name in python3.11 python3.12 python3.13 python3.14; do
    while read -r path; do
      if "$path" -c 'import ensurepip, venv, os, sysconfig
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null; then
        echo "$path"
        return
      fi
    done < <(type -ap "$name")
  done
  return 1
}

# The Debian packages that NEED lacks here.
missing_packages() {
  case $1 in
    compiler)
      has c++ || echo g++
      has cmake || echo cmake
      has ninja || echo ninja-build
      has_header nlohmann/json.hpp || echo nlohmann-json3-dev
      has_header CLI/CLI.hpp || echo libcli11-dev
      ;;
    gtest) has_header gtest/gtest.h || echo libgtest-dev ;;
    bench) has_header benchmark/benchmark.h || echo libbenchmark-dev ;;
    tidy)
      has clang-format-19 || echo clang-format-19
      has clang-tidy-19 || echo clang-tidy-19
      ;;
    wheel | pytest | ruff | solver) [ -x $venv/bin/pip ] || find_python >/dev/null || echo python3 python3-venv python3-dev ;;
    *) fail "unknown need $1" scripts/setup.sh "read the list at its top" ;;
  esac
}

install_packages() {
  local packages
  packages=$(for need in "$@"; do missing_packages "$need"; done | xargs)
  [ -n "$packages" ] || return 0
  local remedy="run \`apt-get install $packages\` as root, then the same make command again"
  { [ "$(id -u)" = 0 ] && has apt-get; } || fail "packages are missing" "this machine" "$remedy"
  say "installing $packages"
  export DEBIAN_FRONTEND=noninteractive
  quietly apt-update apt-get update || true # one broken source among several is no reason to stop
  # shellcheck disable=SC2086
  quietly apt-install apt-get install -y --no-install-recommends $packages ||
    fail "packages cannot be installed" "apt-get" "check the network and the package sources, then $remedy"
}

# pip_install NAME ARGUMENT...: once for each list of arguments and content of requirement files.
pip_install() {
  local name=$1 want
  shift
  want="$* $(cat scripts/requirements/"$name".txt)"
  stamped "$name" "$want" && return
  say "installing $* into $venv"
  quietly "pip-$name" $venv/bin/python -m pip install --disable-pip-version-check "$@" ||
    fail "Python packages cannot be installed" "pip install $*" "check the network and the package index, then the same make command again"
  stamp "$name" "$want"
}

make_venv() {
  [ -x $venv/bin/pip ] && return
  local python
  python=$(find_python) || fail "no Python 3.11 with venv and headers" "this machine" \
    "run \`apt-get install python3 python3-venv python3-dev\` as root, then the same make command again"
  say "making $venv with $python"
  rm -rf $venv build/wheel # a build of another Python is of no use
  quietly venv "$python" -m venv $venv
}

build_wheel() {
  local want
  want="$(fingerprint "${sources[@]}") $(cat $venv/lib/python3*/site-packages/torch/version.py)"
  stamped wheel "$want" && return
  say "building the wheel"
  CMAKE_BUILD_PARALLEL_LEVEL=$jobs quietly wheel $venv/bin/python -m pip install --disable-pip-version-check \
    --no-index --no-deps --no-build-isolation --force-reinstall --config-settings=build-dir=build/wheel . ||
    fail "the project does not build" "$logs/wheel.log" "read the first error above"
  stamp wheel "$want"
}

install_packages "$@"
for need in "$@"; do
  case $need in
    wheel)
      make_venv
      pip_install build "$torch" -r scripts/requirements/build.txt
      build_wheel
      ;;
    pytest | ruff | solver)
      make_venv
      pip_install "$need" -r scripts/requirements/"$need".txt
      ;;
  esac
done
