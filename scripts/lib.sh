# Shared by the scripts here. Source it; it moves to the root of the project.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
logs=build/logs
jobs=${JOBS:-$(nproc)}

say() { printf '==> %s\n' "$*"; }

# fail WHAT WHERE REMEDY: the message of the whole project, and its exit code for what the caller must change.
fail() {
  printf 'equipoise: error: %s, %s: %s\n' "$1" "$2" "$3" >&2
  exit 2
}

# Runs a command with its output in build/logs/NAME.log, which is shown only if the command fails.
quietly() {
  local log=$logs/$1.log
  shift
  mkdir -p "$logs"
  "$@" >"$log" 2>&1 || {
    local code=$?
    cat "$log" >&2
    return $code
  }
}

# The C++ files of ours, each ended by a zero byte.
cpp_files() { find equipoise io cli bindings torch_ext tests bench \( -name '*.h' -o -name '*.cc' \) -print0 2>/dev/null || true; }

# One hash over the content of files and folders, whatever their times say.
fingerprint() {
  find "$@" -type f ! -name '*.pyc' -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16
}

# stamped NAME VALUE: was this value the last one stamped? A stamp lives in .venv and goes with it.
stamped() { [ "$(cat "$venv/.stamps/$1" 2>/dev/null)" = "$2" ]; }
stamp() { mkdir -p "$venv/.stamps" && printf '%s' "$2" >"$venv/.stamps/$1"; }
