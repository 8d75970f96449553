#!/usr/bin/env bash
# Makes a checkout ready to use: Debian packages, a Python environment in .venv, the Rust programs in target/release.
# Says what it installs; does nothing where nothing is missing. Usage: scripts/setup.sh [run|ptf|test]
#   run   what `narrows` needs
#   ptf   and what the PTF suite needs
#   test  and what all tests need
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-run}

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: error: %s\n' "$*" >&2
    exit 2
}

case $purpose in
run) includes=(run) extras= ;;
ptf) includes=(run ptf) extras='[ptf]' ;;
test) includes=(run ptf test) extras='[dev]' ;;
*) fail "no purpose '$purpose'; allowed: run, ptf, test" ;;
esac

is_installed() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null; }

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
    $sudo apt-get update -qq
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

missing=()
while read -r for_purpose command package; do
    [[ " ${includes[*]} " != *" $for_purpose "* ]] || is_installed "$command" || missing+=("$package")
done < <(grep -v '^#' scripts/packages.txt)

python=
for candidate in python3 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is needed; found $(python3 --version 2>&1 || echo none)"
"$python" -c 'import ensurepip' 2>/dev/null || missing+=("$("$python" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')")
# PTF depends on netifaces, which pip compiles.
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
if [ "$purpose" != run ] && [ ! -e "$headers/Python.h" ]; then
    missing+=("$("$python" -c 'import sys; print("python3.%d-dev" % sys.version_info[1])')")
fi
command -v cargo >/dev/null || fail "Rust is needed (https://rustup.rs); cargo is not on PATH"

if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    install_packages "${missing[@]}"
fi

wanted=$(sha256sum pyproject.toml | cut -d' ' -f1)
have=$(cat ".venv/.installed-$purpose" 2>/dev/null || true)
pip() { "$1" -m pip install --quiet --disable-pip-version-check "${@:2}"; }
# What pyproject.toml asks for of a package: its name and versions.
requirement() { sed -nE "s/^ *\"($1[^\"]*)\",\$/\\1/p" pyproject.toml; }

if [ "$have" != "$wanted" ]; then
    say "installing Python packages of pyproject.toml$extras into .venv"
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    # The switch is built by the compiler in the one, from the P4Runtime definitions in the other.
    pip .venv/bin/python "$(requirement grpcio-tools)" "$(requirement protobuf)"
    pip .venv/bin/python --no-deps "$(requirement finsy)"
fi

install_python_packages() {
    if [ "$have" != "$wanted" ]; then
        pip .venv/bin/python --editable ".$extras"
        local each
        for each in "${includes[@]}"; do
            echo "$wanted" >".venv/.installed-$each"
        done
    fi

    # p4runtime-shell drives the softswitch in a test; its dependencies exclude ours.
    local shell_requirements=tests/softswitch/clients/p4runtime-shell.txt
    if [ "$purpose" = test ] && ! cmp -s "$shell_requirements" .venv/p4runtime-shell/.installed; then
        say "installing p4runtime-shell, used by a test, into .venv/p4runtime-shell"
        "$python" -m venv .venv/p4runtime-shell
        pip .venv/p4runtime-shell/bin/python --requirement "$shell_requirements"
        cp "$shell_requirements" .venv/p4runtime-shell/.installed
    fi
}

# The other Python packages come over the network while the compiler works.
install_python_packages &
installation=$!
trap 'kill "$installation" 2>/dev/null || true' EXIT
# cargo builds what changed and nothing else.
say "Rust programs (switch, collector) in target/release"
cargo build --release --locked
# What only tests are built with is downloaded now: they need no network.
[ "$purpose" != test ] || cargo fetch --quiet --locked --target "$(rustc -vV | sed -n 's/^host: //p')"
wait "$installation"
trap - EXIT
say "ready"
