#!/usr/bin/env bash
# Makes a checkout ready to use: Debian packages, a Python environment in .venv, the Rust programs in target/release.
# Says what it installs; does nothing where nothing is missing. Usage: scripts/setup.sh [run|test]
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-run}

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: error: %s\n' "$*" >&2
    exit 2
}

# command -> Debian package that brings it
declare -A packages=([iperf3]=iperf3 [ethtool]=ethtool [ip]=iproute2 [ss]=iproute2 [sysctl]=procps [ping]=iputils-ping
    [cc]=build-essential)
if [ "$purpose" = test ]; then
    packages[chromium]=chromium
fi

missing=()
for command in "${!packages[@]}"; do
    command -v "$command" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "$command" >/dev/null ||
        missing+=("${packages[$command]}")
done

python=
for candidate in python3 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is needed; found $(python3 --version 2>&1 || echo none)"
"$python" -c 'import ensurepip' 2>/dev/null || missing+=("$("$python" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')")

if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    command -v apt-get >/dev/null || fail "please install: ${missing[*]} (this script knows apt-get only)"
    sudo=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "root is needed to install: ${missing[*]}"
        sudo=sudo
    fi
    say "installing Debian packages: ${missing[*]}"
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

command -v cargo >/dev/null || fail "Rust is needed (https://rustup.rs); cargo is not on PATH"

extras=
[ "$purpose" = test ] && extras='[dev]'
stamp=.venv/.installed-$purpose
wanted=$(sha256sum pyproject.toml | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
    say "installing Python packages of pyproject.toml$extras into .venv"
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".$extras"
    echo "$wanted" >"$stamp"
fi

# p4runtime-shell drives the softswitch in a test; its dependencies exclude ours.
shell_requirements=tests/softswitch/clients/p4runtime-shell.txt
if [ "$purpose" = test ] && ! cmp -s "$shell_requirements" .venv/p4runtime-shell/.installed; then
    say "installing p4runtime-shell, used by a test, into .venv/p4runtime-shell"
    "$python" -m venv .venv/p4runtime-shell
    .venv/p4runtime-shell/bin/python -m pip install --quiet --disable-pip-version-check --requirement "$shell_requirements"
    cp "$shell_requirements" .venv/p4runtime-shell/.installed
fi

# cargo builds what changed and nothing else.
say "Rust programs (switch, collector) in target/release"
cargo build --release --locked
say "ready"
