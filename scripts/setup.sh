#!/usr/bin/env bash
# Makes a checkout ready to use: Debian packages, a Python environment in .venv, the Rust programs in target/release.
# Says what it installs; does nothing where nothing is missing. Usage: scripts/setup.sh [run|kernel|ptf|docs|test]
#   run     what `narrows` needs
#   kernel  and what a kernel for virtual time is built with
#   ptf     what `narrows` and the PTF suite need
#   docs    what `narrows` and its documentation need
#   test    what all tests need
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd -P "$(dirname "$0")/.."
purpose=${1:-run}

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: error: %s\n' "$*" >&2
    exit 2
}

case $purpose in
run) includes=(run) locks=(run) ;;
kernel) includes=(run kernel) locks=(run) ;;
ptf) includes=(run ptf) locks=(run ptf) ;;
docs) includes=(run docs) locks=(run docs) ;;
test) includes=(run kernel ptf docs test) locks=(run ptf docs test) ;;
*) fail "no purpose '$purpose'; allowed: run, kernel, ptf, docs, test" ;;
esac

# The programs in an environment name it by its path: those of a checkout that was moved do not start, and those of a
# copy run the code of the checkout that it was copied from.
if made_for=$(scripts/made-for.sh) && [ "$made_for" != "$(realpath .venv)" ]; then
    say "this checkout was moved or copied: .venv was made for $made_for, and is made again"
    rm -rf .venv
fi

# The package's metadata as older tools left it in a checkout. Where Python starts here, that is found before the
# environment's own, and so hides commands, targets and studies that pyproject.toml has added since.
if [ -e narrows.egg-info ]; then
    say "removing narrows.egg-info, which is out of date"
    rm -rf narrows.egg-info
fi

is_installed() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null; }

# What is compiled on this machine, that of tests too.
fetch_crates() { cargo fetch --quiet --locked --target "$(rustc -vV | sed -n 's/^host: //p')"; }

# Installs Debian packages and starts none of their services, neither now nor when the machine starts again.
install_packages() {
    # Debian asks this program whether it may start a service; 101 is no.
    local policy=/usr/sbin/policy-rc.d brought_policy=
    sudo=
    command -v apt-get >/dev/null || fail "please install: $* (this script knows apt-get only)"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "root is needed to install: $*"
        sudo=sudo
    fi
    say "installing Debian packages: $*"
    [ -n "$is_updated" ] || $sudo apt-get update -qq
    is_updated=yes
    if [ ! -e "$policy" ]; then
        brought_policy=$policy
        trap '$sudo rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' | $sudo install -m 755 /dev/stdin "$policy"
    fi
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    if [ -n "$brought_policy" ]; then
        $sudo rm -f "$brought_policy"
        trap - EXIT
    fi
    if [[ " $* " == *" openssh-server "* ]]; then
        $sudo update-rc.d ssh disable
        say "the tests start sshd for themselves; its service is neither started nor enabled"
    fi
}

# Those that the compiler or pip cannot do without, and those that can come beside them.
first=() missing=()
while read -r for_purpose command package; do
    if [[ " ${includes[*]} " != *" $for_purpose "* ]] || is_installed "$command"; then
        continue
    elif [ "$command" = cc ]; then
        first+=("$package")
    else
        missing+=("$package")
    fi
done < <(grep -v '^#' scripts/packages.txt)

python=
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is needed; found $(python3 --version 2>&1 || echo none)"
"$python" -c 'import ensurepip' 2>/dev/null || first+=("$("$python" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')")
# PTF depends on netifaces, which pip compiles.
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
if [[ " ${includes[*]} " == *" ptf "* ]] && [ ! -e "$headers/Python.h" ]; then
    first+=("$("$python" -c 'import sys; print("python3.%d-dev" % sys.version_info[1])')")
fi

# Programs that were compiled from exactly these sources need not be compiled again; tests are always compiled.
compiling=yes
if [ -n "${NARROWS_PROGRAMS:-}" ]; then
    code=0
    "$python" scripts/programs.py take "$NARROWS_PROGRAMS" "${NARROWS_PROGRAMS_SHA256:-none}" || code=$?
    case $code in
    0) compiling= && say "Rust programs of $NARROWS_PROGRAMS in target/release" ;;
    3) say "they are compiled instead" ;;
    *) fail "NARROWS_PROGRAMS, NARROWS_PROGRAMS_SHA256: not taken; allowed: an archive and its SHA-256, or neither" ;;
    esac
elif [ -e target/release/built-from.json ]; then
    ! "$python" scripts/programs.py check || compiling=
fi
[ "$purpose" != test ] || compiling=yes
[ -z "$compiling" ] || command -v cargo >/dev/null || fail "Rust is needed (https://rustup.rs); cargo is not on PATH"

is_updated=
if [ ${#first[@]} -gt 0 ]; then
    # The crates come meanwhile; what is wrong with that, the build says.
    [ -z "$compiling" ] || fetch_crates 2>/dev/null &
    install_packages "${first[@]}"
    wait
fi
packages=
if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    # It may have to ask for a password, which would be lost among what the compiler says.
    [ "$(id -u)" = 0 ] || ! command -v sudo >/dev/null || sudo -v
    install_packages "${missing[@]}" &
    packages=$!
fi

# The version, which the environment remembers, is Cargo.toml's.
wanted=$({ cat pyproject.toml requirements/*.txt && grep '^version' Cargo.toml; } | sha256sum | cut -d' ' -f1)
is_current=yes
for lock in "${locks[@]}"; do
    [ "$(cat ".venv/.installed-$lock" 2>/dev/null)" = "$wanted" ] || is_current=
done

# Python compiles a module whenever it is imported where PYTHONDONTWRITEBYTECODE is set, or its place is another user's. It
# is done once, by this user, who can remove it again: of packages without their tests, which nothing here imports.
compile_modules() {
    .venv/bin/python -W ignore -m compileall -q -j 0 -x '/tests?/' "$@" ||
        say "these modules have no bytecode: Python compiles them whenever they are imported"
}

# Installs the packages of lock files into an environment, which is made if it is not there; a file with another digest is
# refused, also of what builds a package. uv takes a third of the time that pip does. Of pip's settings uv knows none: where
# one says where packages come from, and where uv fails, pip does it.
install_into() {
    local bin=$1/bin tools=$1/.tools.txt each
    shift
    local locked=(--quiet --require-hashes --no-build-isolation)
    for each in "$@"; do
        locked+=(--requirement "requirements/$each.txt")
    done
    [ -x "$bin/python" ] || "$python" -m venv "${bin%/bin}"
    local pip=("$bin/python" -m pip --disable-pip-version-check)
    # What builds other packages has to be there before them.
    awk '/^[^ ]/ { wanted = /^(uv|setuptools)==/ } wanted' requirements/run.txt >"$tools"
    "${pip[@]}" install --quiet --no-compile --require-hashes --requirement "$tools"
    # All of the list is read: pip would fail where its reader ends at the first match.
    if ! "${pip[@]}" config list | grep -E '\.(index-url|extra-index-url|no-index|find-links|proxy)=' >/dev/null; then
        ! "$bin/uv" pip install --python "$bin/python" "${locked[@]}" || return 0
        say "pip tries it instead of uv"
    fi
    "${pip[@]}" install --no-compile "${locked[@]}"
}

install_python_packages() {
    local lock
    if [ -z "$is_current" ]; then
        install_into .venv "${locks[@]}"
        .venv/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation --editable .
        compile_modules .venv/lib
        for lock in "${locks[@]}"; do
            echo "$wanted" >".venv/.installed-$lock"
        done
    fi
    compile_modules control_plane analysis studies

    # p4runtime-shell drives the softswitch in a test; its dependencies exclude ours.
    local shell_requirements=requirements/p4runtime-shell.txt
    if [ "$purpose" = test ] && ! cmp -s "$shell_requirements" .venv/p4runtime-shell/.installed; then
        say "installing p4runtime-shell, used by a test, into .venv/p4runtime-shell"
        install_into .venv/p4runtime-shell p4runtime-shell
        compile_modules .venv/p4runtime-shell/lib
        cp "$shell_requirements" .venv/p4runtime-shell/.installed
    fi
}

# The Python packages come over the network while the compiler works, which needs two of them only in the end: with the
# compiler in grpcio-tools the switch is built from the P4Runtime definitions in finsy. Its build waits for this file.
ready=$PWD/.venv/.ready
rm -f "$ready"
[ -n "$is_current" ] || say "installing the Python packages of requirements/ for '$purpose' into .venv"
{
    trap 'mkdir -p .venv && touch "$ready"' EXIT
    install_python_packages
} &
installation=$!
# An interruption does not reach apt in the middle.
trap 'kill "$installation" 2>/dev/null || true; [ -z "$packages" ] || wait "$packages" || true' EXIT
if [ -n "$compiling" ]; then
    # cargo builds what changed and nothing else.
    say "Rust programs (switch, collector) in target/release"
    rm -f target/release/built-from.json
    NARROWS_DEFINITIONS_READY=$ready cargo build --release --locked || {
        wait "$installation" || fail "the Python packages could not be installed"
        exit 1
    }
fi
# Tests are compiled now as well, and need no network.
if [ "$purpose" = test ]; then
    say "tests of the Rust programs"
    cargo test --workspace --release --locked --no-run --quiet
fi
wait "$installation" || fail "the Python packages could not be installed"
[ -z "$packages" ] || wait "$packages" || fail "the Debian packages could not be installed"
trap - EXIT
say "ready"
