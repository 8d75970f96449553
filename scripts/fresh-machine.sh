#!/usr/bin/env bash
# Runs the README's two commands on a machine that has nothing but what the README presupposes: git, Python and Rust.
# Usage: scripts/fresh-machine.sh [SUITE [demo|test|wheel FILE]], SUITE is a release of Debian (bookworm, trixie; default:
# bookworm)
#   demo   only `make demo`
#   test   and `make ptf` and `make test` (default)
#   wheel  instead, a wheel of `make release` where there are Python and iproute2 and nothing else
# The machine is a root file system of its own, made by mmdebstrap (apt-get install mmdebstrap), with a clone of what is
# committed here, in namespaces of its own; it shares this machine's kernel. Rust is this machine's toolchain as rustup
# gives it, mounted read-only, since a release of Debian may have none that is recent enough. How package registries are
# reached (apt's, pip's and cargo's settings, proxies, certificates) is taken from this machine; $MIRROR names another
# mirror for SUITE. `make test` runs without any network, after its set-up. Needs root, half an hour and 6 GB below
# ${TMPDIR:-/var/tmp}; nothing stays behind.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-bookworm}
last=${2:-test}

fail() {
    printf 'fresh-machine: error: %s\n' "$*" >&2
    exit 2
}
included=git,make,python3
case $last in
demo | test) ;;
wheel)
    wheel=${3:-}
    [ -f "$wheel" ] || fail "wheel '$wheel': is no file; allowed: a wheel of make release"
    included=python3,python3-venv,iproute2
    ;;
*) fail "no step '$last'; allowed: demo, test, wheel" ;;
esac
[ "$(id -u)" = 0 ] || fail "root is needed to make the machine"
for tool in mmdebstrap rustc git unshare; do
    command -v "$tool" >/dev/null || fail "$tool is not installed"
done
rust=$(rustc --print sysroot)
[ "$rust" != /usr ] || fail "this machine's Rust is not rustup's: it cannot be given to another machine"

root=$(mktemp -d "${TMPDIR:-/var/tmp}/fresh-machine.XXXXXX")
current=""
processes=""
finish() {
    local code=$?
    [ -z "$current" ] || printf 'fresh-machine: %s: failed: %s\n' "$suite" "$current" >&2
    if [ -n "$processes" ]; then
        kill -KILL -- "-$processes" 2>/dev/null || true
        wait "$processes" 2>/dev/null || true
    fi
    # What was mounted was mounted in namespaces of the steps, and is gone with them.
    rm -rf --one-file-system "$root"
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# How this machine reaches the registries.
certificates=/opt/certificates.crt
settings=(HOME=/root LANG=C.UTF-8 PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
given='(http|https|all|no)_proxy|(HTTP|HTTPS|ALL|NO)_PROXY|CARGO_(HTTP|NET|REGISTR|SOURCE)[A-Z0-9_]*'
given+='|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|PROXY|DEFAULT_TIMEOUT)'
while IFS= read -r variable; do
    settings+=("$variable=${!variable}")
done < <(compgen -e | grep -xE "$given")
# shellcheck disable=SC2016  # apt's own placeholders
mirror=${MIRROR:-$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
    sed -nE 's/^(Debian Debian|Ubuntu Ubuntu) (.*)$/\2/p' | head -n 1)}
[ -n "$mirror" ] || fail "apt on this machine knows no mirror; fix: apt-get update, or name one by MIRROR"
apt_options=()
while IFS= read -r option; do
    apt_options+=("--aptopt=$option")
done < <(apt-config dump | grep -iE '^Acquire::https?::.* ".+";$' || true)

give_settings() {
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    # mmdebstrap leaves out what every installer writes.
    [ -e "$root/etc/hosts" ] || printf '127.0.0.1 localhost\n::1 localhost ip6-localhost\n' >"$root/etc/hosts"
    local file
    for file in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt; do
        [ -r "$file" ] || continue
        cp "$file" "$root$certificates"
        settings+=("SSL_CERT_FILE=$certificates" "PIP_CERT=$certificates" "CARGO_HTTP_CAINFO=$certificates")
        break
    done
    for file in "${PIP_CONFIG_FILE:-}" ~/.config/pip/pip.conf ~/.pip/pip.conf /etc/pip.conf; do
        [ -r "$file" ] || continue
        grep -vE '^ *cert *=' "$file" >"$root/etc/pip.conf" || true
        break
    done
    mkdir -p "$root/root/.cargo"
    for file in config.toml config; do
        [ ! -r "${CARGO_HOME:-$HOME/.cargo}/$file" ] || cp "${CARGO_HOME:-$HOME/.cargo}/$file" "$root/root/.cargo/$file"
    done
}

# Runs a command in the machine, in its copy of this repository: inside with|without COMMAND; the first is the network.
inside() {
    local network=()
    [ "$1" = with ] || network=(--net)
    # shellcheck disable=SC2016
    unshare --mount --propagation private --pid --fork --kill-child --uts --ipc "${network[@]}" bash -euc '
        root=$1 rust=$2 command=$3
        shift 3
        hostname fresh
        # The root is a mount of its own: `ip netns exec` changes how it propagates.
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount -t sysfs sysfs "$root/sys"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
        mount -t tmpfs tmpfs "$root/run"
        mkdir -p "$root/opt/rust" "$root/run/lock"
        mount --bind -o ro "$rust" "$root/opt/rust"
        if [ -d /lib/modules ]; then
            mkdir -p "$root/lib/modules"
            mount --bind -o ro /lib/modules "$root/lib/modules"
        fi
        exec chroot "$root" env -i "$@" sh -c "ip link set lo up 2>/dev/null; cd /root/narrows && $command"
    ' inside "$root" "$rust" "$2" "${settings[@]}"
}

# A step has a process group of its own and is waited for: so a signal to this script ends it at once.
set -m
times=()
step() {
    local start=$SECONDS
    current=$1
    shift
    printf '\nfresh-machine: %s: %s\n' "$suite" "$current"
    "$@" </dev/null &
    processes=$!
    wait "$processes"
    processes=""
    times+=("$(printf '%6d s  %s' $((SECONDS - start)) "$current")")
    current=""
}

make_root() {
    mmdebstrap --quiet --variant=minbase --include="$included" "${apt_options[@]}" "$suite" "$root" "$mirror"
    chmod 755 "$root"
    git clone --quiet . "$root/root/narrows"
}

packages() { chroot "$root" apt-mark showmanual | sort; }

step "a machine with ${included//,/, }" make_root
give_settings
if [ "$last" = wheel ]; then
    cp "$wheel" "$root/root/"
    step "$(basename "$wheel")" inside with "python3 scripts/release.py --wheel /root/$(basename "$wheel")"
    exit
fi
before=$(packages)
step "make demo" inside with "make demo"
if [ "$last" = test ]; then
    step "make ptf, after make demo's set-up" inside with "make ptf TARGET=soft"
    step "set-up of make test" inside with "scripts/setup.sh test"
    step "make test, without network" inside without "make test"
fi

printf '\nfresh-machine: %s (%s), Debian packages that set-up asked for:\n' "$suite" "$(chroot "$root" python3 --version)"
comm -13 <(echo "$before") <(packages) | fmt -w 110
printf 'Python packages:\n'
chroot "$root" /root/narrows/.venv/bin/python -m pip freeze --exclude-editable | fmt -w 110
printf 'times:\n'
printf '%s\n' "${times[@]}"
