# Sourced by the scripts beside it: what they need is made here, once, inside the checkout.
# Each `need_*` function looks first and does nothing (and asks no network) when the thing is there already.
# shellcheck shell=bash

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/.venv"
cd "$ROOT" || exit
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf '==> %s\n' "$*" >&2; }
die() {
    printf '\nerror: %s\n' "$*" >&2
    exit 1
}

# usage_if_asked TEXT "$@": prints the text and ends when the first argument asks for help.
usage_if_asked() {
    case "${2:-}" in
        -h | --help)
            printf '%s\n' "$1"
            exit 0
            ;;
    esac
}

# One set-up at a time: a second script waits for the first. The lock is this very file, so none is left behind.
setup_begin() {
    command -v flock >/dev/null || return 0
    exec 9<"$ROOT/scripts/setup.sh"
    flock -n 9 || { say "Waiting for another script that sets up this checkout"; flock 9; }
}
setup_end() { exec 9<&-; }

digest() { cat -- "$@" | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d' ' -f1; }

# Stamps say what a thing was made from: stamp_is NAME VALUE, stamp_set NAME VALUE.
stamp_is() { [ "$(cat "$VENV/stamps/$1" 2>/dev/null)" = "$2" ]; }
stamp_set() { mkdir -p "$VENV/stamps" && printf '%s\n' "$2" >"$VENV/stamps/$1"; }

# apt_install PACKAGE...: true when they could be installed, which takes Debian (or a child of it) and root.
apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "Installing with apt-get: $*"
    { apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } </dev/null >/dev/null
}

find_python() {
    local name
    for name in ${HUB_PYTHON:-python3 python3.11 python3.12 python3.13 python3.14}; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    return 1
}

need_venv() {
    # A venv knows its own place, so one that was moved or copied along with the checkout is made anew.
    if stamp_is venv "$VENV" && "$VENV/bin/python" -c '' 2>/dev/null; then return; fi
    local python version
    python="$(find_python)" || die "Python 3.11 or newer is needed (HUB_PYTHON names one that is not on PATH)."
    version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    # Debian keeps the part of Python that puts pip into a venv in a package of its own.
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        apt_install "python$version-venv" || die "This Python cannot make virtual environments. On Debian or Ubuntu, run
    sudo apt-get install python$version-venv
and start this script again."
    fi
    say "Making a virtual environment in .venv (Python $version)"
    "$python" -m venv --clear "$VENV"
    stamp_set venv "$VENV"
}

# need_locked NAME: the packages of scripts/NAME.lock, at those versions, each checked against its hash.
need_locked() {
    local lock="scripts/$1.lock" wanted
    wanted="$(digest "$lock")"
    if stamp_is "$1" "$wanted"; then return; fi
    say "Installing Python packages ($lock)"
    "$VENV/bin/python" -m pip install --quiet --require-hashes -r "$lock"
    stamp_set "$1" "$wanted"
    # The packages of the tests are held to the versions of the others and include them.
    if [ "$1" = requirements-dev ]; then stamp_set requirements "$(digest scripts/requirements.lock)"; fi
}

# The project itself, editable: its command and metadata come from pyproject.toml, its code from the checkout.
need_project() {
    local wanted
    wanted="$(digest pyproject.toml)"
    if stamp_is project "$wanted"; then return; fi
    say "Installing session-hub (editable)"
    "$VENV/bin/python" -m pip install --quiet --no-index --no-deps --no-build-isolation -e .
    stamp_set project "$wanted"
}

need_python() {
    need_venv
    need_locked "$1"
    need_project
}

web() { "$VENV/bin/python" scripts/web_build.py "$@"; }

# Puts a Node that is new enough first on PATH, with its npm.
need_node() {
    local folder
    folder="$(web node)" || {
        need_locked requirements-node
        folder="$(web node)" || die "Found no Node after installing it from scripts/requirements-node.lock."
    }
    export PATH="$folder:$PATH"
}

need_pages() {
    if web is-built; then return; fi
    need_node
    say "Building the web pages"
    web build
}
