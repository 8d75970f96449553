#!/bin/sh
# Installs the Narrows program on this switch, and makes bf_switchd run it at every start.
#
#   sudo SDE=/path/to/sde deploy/install-switch.sh tofino|tofino2 [--managed] [--compile]
#
# With --managed it is the program that manages queues as well, narrows_managed (docs/queues.md).
# Run it from a checkout of Narrows, with the SDE (open-p4studio and the vendor's board support) built. The program is the
# compiled one of this checkout where the SDE has the version of its compiler; otherwise, or with --compile, the SDE's own
# compiler makes it. Running it again after an update of either is fine. The service is (re)started last: every port and
# table is reset by that.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

fail() {
    echo "install-switch.sh: $*" >&2
    exit 1
}

# Where bf_switchd serves BF Runtime.
PORT=50052

chip=${1:-}
case $chip in
tofino) option=TOFINO ;;
tofino2) option=TOFINO2 ;;
*) fail "usage: install-switch.sh tofino|tofino2 [--managed] [--compile]" ;;
esac
shift
compile=
program=narrows
top=narrows
variant=
for word; do
    case $word in
    --compile) compile=--compile ;;
    --managed)
        program=narrows_managed
        top=managed
        variant=-managed
        ;;
    *) fail "'$word' is unknown; allowed: --managed, --compile" ;;
    esac
done
[ "$(id -u)" = 0 ] || fail "needs root; fix: sudo"
[ -d "${SDE:-}/p4studio" ] || fail "SDE is not the directory of an SDE; fix: SDE=/path/to/sde"
SDE_INSTALL=${SDE_INSTALL:-$SDE/install}
[ -x "$SDE_INSTALL/bin/bf_switchd" ] || fail "$SDE_INSTALL has no bf_switchd; fix: build the SDE first"
narrows=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
source=$narrows/p4src/tofino/$top.p4
ours=$narrows/p4src/compiled/$chip$variant
programs=$SDE_INSTALL/share/${chip}pd/$program
targets=$SDE_INSTALL/share/p4/targets/$chip
[ -f "$source" ] || fail "no $source"
compiler=$(sed -n 's/.*"compiler": "p4c-barefoot \([^ "]*\).*/\1/p' "$ours/digest.json")
version=$(cat "$SDE_INSTALL/share/VERSION" 2>/dev/null || echo unknown)
[ "$version" = "$compiler" ] || compile=--compile
tools=ss
[ -z "$compile" ] || tools="cmake make bf-p4c p4c-gen-bfrt-conf p4c-manifest-config ss"
for tool in $tools; do
    PATH=$SDE_INSTALL/bin:$PATH command -v "$tool" >/dev/null || fail "'$tool' is missing; fix: the SDE's compiler and build tools"
done

# Where the SDE's dependencies are is said where its own run_switchd.sh looks.
environment=$SDE_INSTALL/share/environment
if [ -z "${SDE_DEPENDENCIES:-}" ] && [ -f "$environment" ]; then
    SDE_DEPENDENCIES=$(cd "$SDE_INSTALL" && realpath "$(sed -n 's/^.*SDE_DEPENDENCIES=//p' "$environment")")
fi

if [ -z "$compile" ]; then
    command -v xz >/dev/null || fail "'xz' is missing; fix: apt-get install xz-utils"
    echo "installing the program compiled for SDE $version"
    install -d -m 755 "$programs/pipe" "$targets"
    install -m 644 "$ours/bf-rt.json" "$programs/bf-rt.json"
    for file in context.json "$chip.bin"; do
        xz -dc "$ours/pipe/$file.xz" >"$programs/pipe/$file"
        chmod 644 "$programs/pipe/$file"
    done
    install -m 644 "$ours/$program.conf" "$targets/$program.conf"
else
    build=$(mktemp -d)
    trap 'rm -rf "$build"' EXIT
    echo "compiling $source for $chip with SDE $version"
    (
        cd "$build"
        PATH=$SDE_INSTALL/bin:$PATH
        export PATH SDE SDE_INSTALL
        cmake "$SDE/p4studio" -DCMAKE_MODULE_PATH="$SDE/cmake" -DCMAKE_INSTALL_PREFIX="$SDE_INSTALL" \
            -DP4_PATH="$source" -DP4_NAME="$program" -DP4_LANG=p4-16 -DTOFINO=OFF -DTOFINO2=OFF "-D$option=ON"
        make "$program"
        make install
    ) || fail "the program does not compile; the messages above say why"
    [ -f "$targets/$program.conf" ] || fail "the build left no $program.conf"
fi

install -d -m 755 /etc/narrows
printf 'SDE=%s\nSDE_INSTALL=%s\nSDE_DEPENDENCIES=%s\nNARROWS_CHIP=%s\nNARROWS_PROGRAM=%s\n' \
    "$SDE" "$SDE_INSTALL" "${SDE_DEPENDENCIES:-$SDE_INSTALL}" "$chip" "$program" >/etc/narrows/switch.env
install -m 644 "$narrows/deploy/systemd/narrows-switchd.service" /etc/systemd/system/narrows-switchd.service
systemctl daemon-reload
systemctl enable narrows-switchd
systemctl restart narrows-switchd
# Serdes firmware takes minutes on some boards; nothing can be done with the switch before BF Runtime listens.
waited=0
until ss -Htln "sport = :$PORT" | grep -q .; do
    systemctl is-active --quiet narrows-switchd || fail "narrows-switchd has ended; fix: journalctl -u narrows-switchd"
    [ "$waited" -lt "${NARROWS_WAIT_S:-600}" ] ||
        fail "nothing listens on port $PORT after $waited s; fix: journalctl -u narrows-switchd"
    sleep 1
    waited=$((waited + 1))
done
echo "BF Runtime listens on port $PORT"
echo "done; next: narrows doctor --target tofino --inventory FILE"
