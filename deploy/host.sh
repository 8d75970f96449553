#!/bin/sh
# Sets a server of a testbed up for experiments, and back again. POSIX shell, ip, ethtool, sysctl, tc; runs as root.
#
#   host.sh apply INTERFACE NAME=VALUE...   set up; what was there before is kept for restore
#   host.sh guard INTERFACE run=TOKEN       hold the machine for a run: restore when standard input ends, because the run or
#                                           the connection did. It says "ready" once `apply ... run=TOKEN` may come
#   host.sh silence INTERFACE               take the link down until restore
#   host.sh check INTERFACE NAME=VALUE...   say what is missing, changing nothing: tools="NAME NAME", cca="NAME NAME",
#                                           python=VERSION, netem=yes, dedicated=yes (nothing else uses the NIC), pair=NAME,
#                                           mac=ADDRESS
#   host.sh restore INTERFACE               restore what apply found, if there is anything
#   host.sh describe INTERFACE [CCA...]     one "name=value" line for everything a run depends on
#
# NAMEs of apply: address=A/P, mtu=N, buffer=BYTES (largest socket buffer), ecn=0|1, cca="NAME NAME",
# nic=fast (fixed coalescing, no pause frames, processors at full clock and awake),
# neighbour="ADDRESS/MAC ADDRESS/MAC", ports="LOW HIGH" (ephemeral), delay="ADDRESS/NANOSECONDS ...", limit=PACKETS,
# run=TOKEN (only while that run's guard holds the machine), directory=PATH (made, and removed with what is in it).
# Of a NIC that is a port of a switch: quiet=yes (the kernel sends nothing of its own), queues=N (receive queues: with one,
# frames are in order), interrupts=CPULIST (where they are handled), pair=NAME (INTERFACE and NAME are made: two ends of a
# cable within this machine).
#
# SPDX-License-Identifier: Apache-2.0
set -eu

PROGRAM=host.sh
# The guard of a run that was killed takes that long at most to put things back.
TAKE_OVER_S=10
# Segmentation and its inverse: packets must be on the wire as TCP made them. Checksums may stay with the NIC.
OFFLOADS="tso gso gro lro"
# Namespaces of one machine have state of their own.
STATE=${NARROWS_HOST_STATE:-/run/narrows-host}/$(readlink /proc/self/ns/net | tr -dc 0-9)

fail() {
    echo "$PROGRAM: $*" >&2
    exit 1
}

need() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || fail "'$tool' is missing; fix: install it on this machine"
    done
}

# Remembers how to undo something, before it is done: a kill in between must not leave a change without its undoing.
# restore runs the lines last one first.
remember() {
    printf '%s\n' "$1" >>"$STATE/$interface"
}

# Only one at a time changes this machine, or this namespace of it. However it ends, the others can then continue.
lock() {
    while :; do
        mkdir -p "$STATE"
        exec 9<"$STATE"
        flock 9
        # Who had it may have removed it.
        # shellcheck disable=SC3013
        [ ! "$STATE" -ef "/proc/$$/fd/9" ] || return 0
    done
}

# Who takes the lock makes the directory, if it has been removed meanwhile.
tidy() {
    rmdir "$STATE" 2>/dev/null || true
}

need_python() {
    need python3
    python3 -I -c "import sys; sys.exit(sys.version_info < ($(echo "$1" | tr . ,)))" ||
        fail "$(python3 --version) is too old; fix: install Python $1 or later on this machine"
}

# Tried in a network namespace of its own: this machine's interfaces are not touched.
has_netem() {
    unshare -n sh -c 'tc qdisc add dev lo root handle 1: prio &&
        tc qdisc add dev lo parent 1:2 handle 12: netem delay 1ms &&
        tc filter add dev lo parent 1: protocol ip u32 match ip dst 127.0.0.1 flowid 1:2' >/dev/null 2>&1
}

# What every machine must have.
need_tools() {
    need ip ethtool ss sysctl tc readlink flock
}

need_interface() {
    [ -d "/sys/class/net/$interface" ] || fail "no interface $interface; there are: $(cd /sys/class/net && echo *)"
}

# The other machines' static ARP entries have this MAC address: a NIC with another one would receive nothing.
need_mac() {
    found=$(cat "/sys/class/net/$interface/address")
    [ "$found" = "$1" ] || fail "$interface has the MAC address $found, not $1; fix: mac in the inventory"
}

quote() {
    printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"
}

set_sysctl() {
    old=$(sysctl -n "$1" 2>/dev/null) || fail "the kernel has no $1"
    old=$(printf %s "$old" | tr '\t' ' ')
    [ "$old" = "$2" ] && return
    remember "sysctl -q -w $(quote "$1=$old")"
    sysctl -q -w "$1=$2" || fail "$1 cannot be set to $2"
    new=$(sysctl -n "$1" | tr '\t' ' ')
    [ "$new" = "$2" ] || fail "$1 reads $new after it was set to $2"
}

feature() {
    case $1 in
    tso) echo tcp-segmentation-offload ;;
    gso) echo generic-segmentation-offload ;;
    gro) echo generic-receive-offload ;;
    lro) echo large-receive-offload ;;
    esac
}

feature_state() {
    ethtool -k "$interface" | sed -n "s/^$(feature "$1"): //p"
}

set_offloads() {
    for short in $OFFLOADS; do
        state=$(feature_state "$short")
        case $state in
        on*fixed*) fail "$interface cannot turn $(feature "$short") off; fix: use another NIC" ;;
        on*)
            remember "ethtool -K $interface $short on"
            ethtool -K "$interface" "$short" off || fail "$interface: $(feature "$short") cannot be turned off"
            ;;
        esac
    done
}

# Rings as large as they go: bursts of a whole congestion window arrive at line rate.
set_rings() {
    sizes=$(ethtool -g "$interface" 2>/dev/null) || return 0
    for ring in RX TX; do
        most=$(printf '%s\n' "$sizes" | sed -n "/Pre-set/,/Current/s/^$ring:[[:space:]]*//p" | head -n 1)
        now=$(printf '%s\n' "$sizes" | sed -n "/Current/,\$s/^$ring:[[:space:]]*//p" | head -n 1)
        case $most$now in *[!0-9]* | '') continue ;; esac
        [ "$most" = "$now" ] && continue
        flag=$(printf %s "$ring" | tr RTX rtx)
        remember "ethtool -G $interface $flag $now"
        ethtool -G "$interface" "$flag" "$most" || fail "$interface: ring $ring cannot be set to $most"
        now=$(ethtool -g "$interface" | sed -n "/Current/,\$s/^$ring:[[:space:]]*//p" | head -n 1)
        [ "$now" = "$most" ] || fail "$interface: ring $ring reads $now after it was set to $most"
    done
}

# One receive queue hands frames up in the order in which they came; several do so for each flow only.
set_queues() {
    for kind in Combined RX; do
        now=$(queues_now "$kind")
        case $now in *[!0-9]* | '' | 0) continue ;; esac
        if [ "$now" != "$1" ]; then
            flag=$(printf %s "$kind" | tr CRX crx)
            remember "ethtool -L $interface $flag $now"
            ethtool -L "$interface" "$flag" "$1" || fail "$interface: $flag cannot be set to $1 queues"
        fi
        break
    done
    now=$(receive_queues)
    [ "$now" = "$1" ] || fail "$interface has $now receive queues, not $1; fix: a NIC whose driver can change that" \
        "(ethtool -L), or queues in the inventory"
}

queues_now() {
    ethtool -l "$interface" 2>/dev/null | sed -n "/Current/,\$s/^$1:[[:space:]]*//p" | head -n 1
}

receive_queues() {
    for queue in "/sys/class/net/$interface"/queues/rx-*; do echo "$queue"; done | wc -l | tr -d ' '
}

# The kernel sends nothing of its own: no neighbour discovery of a machine that is only a cable here.
set_quiet() {
    [ ! -d "/proc/sys/net/ipv6/conf/$interface" ] || set_sysctl "net.ipv6.conf.$interface.disable_ipv6" 1
}

is_quiet() {
    [ "$(cat "/proc/sys/net/ipv6/conf/$interface/disable_ipv6" 2>/dev/null || echo 1)" = 1 ] && echo yes || echo no
}

# A NIC by which this machine itself is reached must not become a port of a switch.
used_by() {
    ip -brief address show dev "$interface" scope global | awk 'NF > 2 {print "has the address " $3}'
    [ ! -e "/sys/class/net/$interface/master" ] ||
        echo "belongs to $(basename "$(readlink "/sys/class/net/$interface/master")")"
}

need_dedicated() {
    used=$(used_by)
    [ -z "$used" ] || fail "$interface $used; fix: a NIC that nothing else uses"
}

# A cable within this machine.
make_pair() {
    [ ! -d "/sys/class/net/$interface" ] || fail "$interface exists already; fix: ip link del $interface"
    remember "ip link del $interface"
    ip link add "$interface" type veth peer name "$1" || fail "no veth pair $interface, $1; fix: a kernel with veth"
    for end in "$interface" "$1"; do
        [ ! -d "/proc/sys/net/ipv6/conf/$end" ] || sysctl -q -w "net.ipv6.conf.$end.disable_ipv6=1"
        for short in $OFFLOADS; do ethtool -K "$end" "$short" off 2>/dev/null || true; done
        [ -z "$mtu" ] || ip link set dev "$end" mtu "$mtu"
    done
    ip link set dev "$1" up
}

# One interrupt a CPU of the NIC's own NUMA node (or of $interrupts), and no daemon that moves them during a run.
set_interrupts() {
    device=/sys/class/net/$interface/device
    [ -d "$device/msi_irqs" ] || return 0
    if command -v systemctl >/dev/null 2>&1 && systemctl is-active --quiet irqbalance; then
        remember "systemctl start irqbalance"
        systemctl stop irqbalance
    fi
    cpus=${interrupts:-$(cat "$device/local_cpulist" 2>/dev/null)}
    cpus=$(echo "$cpus" | tr ',' '\n' | while IFS=- read -r from to; do
        [ -z "$from" ] ||
            seq "$from" "${to:-$from}"
    done)
    [ -n "$cpus" ] || return 0
    # shellcheck disable=SC2086
    set -- $cpus
    number=0
    for irq in "$device"/msi_irqs/*; do
        irq=${irq##*/}
        list=/proc/irq/$irq/smp_affinity_list
        [ -w "$list" ] || continue
        shift_by=$((number % $#))
        cpu=$(printf '%s\n' "$@" | sed -n "$((shift_by + 1))p")
        old=$(cat "$list")
        # Managed interrupts refuse, also what they have; they are spread already.
        if echo "$old" 2>/dev/null >"$list"; then
            remember "echo $old > $list"
            # One that cannot go there stays where it is.
            echo "$cpu" 2>/dev/null >"$list" || true
        fi
        number=$((number + 1))
    done
}

set_address() {
    ip -brief address show dev "$interface" | tr ' ' '\n' | grep -qxF "$1" && return
    case $1 in *:*) nodad=nodad ;; *) nodad= ;; esac
    remember "ip address del $1 dev $interface"
    # shellcheck disable=SC2086
    ip address add "$1" dev "$interface" $nodad || fail "$interface: address $1 cannot be added"
}

# Flows have the same ports in every run: what the kernel remembers of the connections before is in their way.
forget_connections() {
    own=${1%/*}
    case $own in *:*) own="[$own]" ;; esac
    waited=0
    # A kernel without CONFIG_INET_DIAG_DESTROY forgets after a minute.
    while ss -K -Htn state time-wait src "$own" >/dev/null 2>&1
        [ -n "$(ss -Htn state time-wait src "$own")" ]; do
        [ "$waited" -lt 70 ] || fail "connections of an earlier run from $own are still in TIME_WAIT"
        sleep 1
        waited=$((waited + 1))
    done
}

set_neighbours() {
    for pair in $1; do
        peer=${pair%%/*}
        remember "ip neighbour del $peer dev $interface"
        ip neighbour replace "$peer" lladdr "${pair#*/}" dev "$interface" nud permanent ||
            fail "$interface: neighbour $peer cannot be set"
    done
}

load_ccas() {
    for cca in $1; do
        has_cca "$cca" && continue
        modprobe "tcp_$cca" 2>/dev/null || true
        has_cca "$cca" || no_cca "$cca"
    done
}

has_cca() {
    case " $(sysctl -n net.ipv4.tcp_available_congestion_control) " in *" $1 "*) return 0 ;; esac
    return 1
}

no_cca() {
    fail "the kernel has no congestion control '$1'; fix: install a kernel with tcp_$1, or use one of:" \
        "$(sysctl -n net.ipv4.tcp_available_congestion_control)"
}

# Base RTT: a delay of its own for what goes to each address, behind a classifier; everything else passes undelayed.
set_delay() {
    # shellcheck disable=SC2086
    set -- $1
    bands=$(($# + 1))
    [ "$bands" -le 16 ] || fail "delays to $# addresses; allowed: up to 15"
    remember "tc qdisc del dev $interface root 2>/dev/null || true"
    map=$(yes 0 | head -n 16 | tr '\n' ' ')
    # shellcheck disable=SC2086
    tc qdisc replace dev "$interface" root handle 1: prio bands "$((bands > 2 ? bands : 2))" priomap $map ||
        fail "$interface: no prio qdisc; fix: a kernel with sch_prio and sch_netem on this machine"
    class=2
    for pair in "$@"; do
        peer=${pair%%/*}
        tc qdisc add dev "$interface" parent "1:$class" handle "1$class:" netem delay "${pair#*/}ns" limit "$limit" ||
            fail "$interface: no netem; fix: a kernel with sch_netem on this machine (package kernel-modules-extra" \
                "or linux-modules-extra)"
        case $peer in
        *:*) tc filter add dev "$interface" parent 1: protocol ipv6 prio 2 u32 match ip6 dst "$peer" flowid "1:$class" ;;
        *) tc filter add dev "$interface" parent 1: protocol ip prio 1 u32 match ip dst "$peer" flowid "1:$class" ;;
        esac || fail "$interface: no u32 classifier; fix: a kernel with cls_u32 on this machine"
        class=$((class + 1))
    done
}

# The first word of a setting in one of ethtool's lists; nothing where the NIC has no such list.
ethtool_value() {
    ethtool "$1" "$interface" 2>/dev/null | tr '\t' ' ' | sed -n "s/^$2: *\([^ ]*\).*/\1/p" | head -n 1
}

# One of ethtool's lists of settings, by three words each: its name for a change, the value, its name in the list.
set_ethtool() {
    show=$1 change=$2
    shift 2
    while [ $# -gt 0 ]; do
        old=$(ethtool_value "$show" "$3")
        # What the NIC does not have reads n/a, or is not in the list; another clause of the same line is not meant.
        case $old in
        '' | n/a | "$2") ;;
        *)
            remember "ethtool $change $interface $1 $old"
            ethtool "$change" "$interface" "$1" "$2" || fail "$interface: $1 cannot be set to $2"
            new=$(ethtool_value "$show" "$3")
            [ "$new" = "$2" ] || fail "$interface: $1 ($change) reads $new after it was set to $2"
            ;;
        esac
        shift 3
    done
}

# What 25-100 Gbit/s take: packets are handed up at once and evenly, no pause frames, no processor sleeps.
set_fast_nic() {
    # Adaptive moderation would have its own way with what is set after it.
    set_ethtool -c -C adaptive-rx off 'Adaptive RX' rx-usecs 8 rx-usecs tx-usecs 8 tx-usecs
    set_ethtool -a -A autoneg off Autonegotiate rx off RX tx off TX
    for governor in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do
        [ -w "$governor" ] || continue
        old=$(cat "$governor")
        [ "$old" = performance ] && continue
        remember "echo $old > $governor"
        echo performance >"$governor" || fail "$governor cannot be set to performance"
    done
    # A processor that sleeps deeply wakes up late: states that take longer than 10 us are not entered.
    for state in /sys/devices/system/cpu/cpu*/cpuidle/state*; do
        [ -w "$state/disable" ] || continue
        [ "$(cat "$state/latency")" -gt 10 ] || continue
        [ "$(cat "$state/disable")" = 0 ] || continue
        remember "echo 0 > $state/disable"
        echo 1 >"$state/disable"
    done
}

undo_unless() {
    [ "$1" = 0 ] || undo
    exit "$1"
}

apply() {
    address='' mtu='' buffer='' ecn='' cca='' neighbour='' ports='' delay='' limit=1000000 nic=''
    run='' directory='' quiet='' queues='' interrupts='' cable=''
    for pair in "$@"; do
        value=${pair#*=}
        case ${pair%%=*} in
        address) address=$value ;;
        mtu) mtu=$value ;;
        buffer) buffer=$value ;;
        ecn) ecn=$value ;;
        cca) cca=$value ;;
        neighbour) neighbour=$value ;;
        ports) ports=$value ;;
        delay) delay=$value ;;
        limit) limit=$value ;;
        nic) nic=$value ;;
        run) run=$value ;;
        directory) directory=$value ;;
        quiet) quiet=$value ;;
        queues) queues=$value ;;
        interrupts) interrupts=$value ;;
        pair) cable=$value ;;
        *) fail "unknown setting '${pair%%=*}'" ;;
        esac
    done
    need_tools
    lock
    if [ "$(cat "$STATE/$interface.run" 2>/dev/null)" != "$run" ]; then
        tidy
        fail "$interface: the run that asked for this has ended"
    fi
    # A run that was killed left its settings: begin from what was before it.
    undo
    [ -n "$cable" ] || need_interface
    : >"$STATE/$interface"
    chmod 600 "$STATE/$interface"
    mkdir -p "$FILES"
    chmod 700 "$FILES"
    # All or nothing.
    trap 'undo_unless $?' EXIT
    [ -z "$cable" ] || make_pair "$cable"
    if [ -n "$directory" ]; then
        remember "rm -rf $(quote "$directory")"
        mkdir -m 700 "$directory" || fail "$directory cannot be made"
    fi
    load_ccas "$cca"
    if [ -n "$mtu" ]; then
        old=$(cat "/sys/class/net/$interface/mtu")
        if [ "$old" != "$mtu" ]; then
            remember "ip link set dev $interface mtu $old"
            ip link set dev "$interface" mtu "$mtu" || fail "$interface: MTU $mtu is refused"
        fi
    fi
    set_offloads
    [ -z "$queues" ] || set_queues "$queues"
    set_rings
    set_interrupts
    [ -z "$quiet" ] || set_quiet
    [ "$nic" != fast ] || set_fast_nic
    case $(ip -brief link show dev "$interface") in
    *"<"*",UP"* | *"<UP"*) ;;
    *)
        remember "ip link set dev $interface down"
        ip link set dev "$interface" up
        ;;
    esac
    if [ -n "$address" ]; then
        set_address "$address"
        forget_connections "$address"
    fi
    [ -z "$neighbour" ] || set_neighbours "$neighbour"
    if [ -n "$buffer" ]; then
        for name in net.core.rmem_max net.core.wmem_max; do
            # Namespaces other than the first do not have these; the TCP limits below do not depend on them.
            [ ! -e "/proc/sys/$(echo "$name" | tr . /)" ] || [ ! -w "/proc/sys/$(echo "$name" | tr . /)" ] ||
                set_sysctl "$name" "$buffer"
        done
        set_sysctl net.ipv4.tcp_rmem "4096 131072 $buffer"
        set_sysctl net.ipv4.tcp_wmem "4096 65536 $buffer"
        set_sysctl net.ipv4.tcp_no_metrics_save 1
    fi
    if [ -n "$ecn" ]; then
        set_sysctl net.ipv4.tcp_ecn "$ecn"
        # A lost SYN would make a connection one without ECN.
        set_sysctl net.ipv4.tcp_ecn_fallback 0
    fi
    [ -z "$ports" ] || set_sysctl net.ipv4.ip_local_port_range "$ports"
    [ -z "$delay" ] || set_delay "$delay"
}

check() {
    need_tools
    case " $* " in *" pair="*) ;; *) need_interface ;; esac
    for pair in "$@"; do
        case ${pair%%=*} in
        tools) for tool in ${pair#*=}; do need "$tool"; done ;;
        # One that is a module is loaded by apply.
        cca) for cca in ${pair#*=}; do
            has_cca "$cca" || modprobe -n -q "tcp_$cca" 2>/dev/null || no_cca "$cca"
        done ;;
        python) need_python "${pair#*=}" ;;
        netem) has_netem || fail "no delays: the kernel lacks sch_prio, sch_netem or cls_u32; fix: install the" \
            "package kernel-modules-extra or linux-modules-extra, or make the RTT elsewhere (delay.at)" ;;
        dedicated) need_dedicated ;;
        mac) need_mac "${pair#*=}" ;;
        # What is not there is made.
        pair) ;;
        *) fail "unknown requirement '${pair%%=*}'" ;;
        esac
    done
}

undo() {
    [ -f "$STATE/$interface" ] || return 0
    # Each line stands for itself: one that fails must not keep the others from being done.
    sed '1!G;h;$!d' "$STATE/$interface" | while IFS= read -r line; do
        sh -c "$line" </dev/null || echo "$PROGRAM: not restored: $line" >&2
    done
    rm -f "$STATE/$interface"
    rm -rf "$FILES"
}

restore() {
    [ -d "$STATE" ] || return 0
    lock
    undo
    rm -f "$STATE/$interface.run"
    tidy
}

# Runs as long as the run. What the run leaves when it ends is restored by it, not by the next one.
guard() {
    need_tools
    token=${1#run=}
    while :; do
        lock
        exec 8>>"$STATE/$interface.run"
        exec 9<&-
        # The guard of a run that was killed may be putting things back at this moment.
        flock -w "$TAKE_OVER_S" 8 || fail "$interface is in use by another run; wait for its end"
        lock
        # shellcheck disable=SC3013
        [ ! "$STATE/$interface.run" -ef "/proc/$$/fd/8" ] || break
    done
    printf '%s' "$token" >"$STATE/$interface.run"
    exec 9<&-
    # Changes are restored however the connection ends.
    trap '' HUP INT TERM PIPE
    echo ready
    cat >/dev/null
    [ -d "$STATE" ] || return 0
    lock
    # Another run may have this machine by now.
    if [ "$(cat "$STATE/$interface.run" 2>/dev/null)" = "$token" ]; then
        restore >/dev/null 2>&1
    fi
    tidy
}

# Nothing leaves this machine by the interface any more, until restore.
silence() {
    [ -f "$STATE/$interface" ] || fail "$interface is not set up"
    lock
    [ -f "$STATE/$interface" ] || fail "$interface is not set up"
    remember "ip link set dev $interface up"
    ip link set dev "$interface" down
}

# What the kernel has received from a NIC and not handed to a socket: its backlogs by processor, then by protocol.
kernel_losses() {
    dropped=0
    while read -r _ more _; do
        dropped=$((dropped + 0x$more))
    done </proc/net/softnet_stat
    echo "kernel.backlog=$dropped"
    awk '
        FNR % 2 { split($0, names); next }
        {
            for (at = 2; at <= NF; at++)
                if (names[at] ~ /^(InDiscards|RcvbufErrors|TCPBacklogDrop|TCPRcvQDrop|RcvPruned|OfoPruned|PFMemallocDrop)$/) {
                    protocol = $1
                    sub(":", ".", protocol)
                    print "kernel." protocol names[at] "=" $at
                }
        }' /proc/net/snmp /proc/net/netstat
}

describe() {
    echo "kernel=$(uname -r)"
    echo "cpus=$(getconf _NPROCESSORS_ONLN)"
    echo "isolated=$(cat /sys/devices/system/cpu/isolated 2>/dev/null)"
    echo "ccas=$(sysctl -n net.ipv4.tcp_available_congestion_control)"
    for tool in ip ethtool ss tc python3 sysctl; do
        command -v "$tool" >/dev/null 2>&1 && echo "tool.$tool=yes" || echo "tool.$tool=no"
    done
    if command -v python3 >/dev/null 2>&1; then
        echo "python=$(python3 -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    fi
    has_netem && echo "netem=yes" || echo "netem=no"
    kernel_losses
    if [ -d "/sys/class/net/$interface" ]; then
        echo "interface=yes"
        echo "mac=$(cat "/sys/class/net/$interface/address")"
        echo "mtu=$(cat "/sys/class/net/$interface/mtu")"
        echo "carrier=$(cat "/sys/class/net/$interface/carrier" 2>/dev/null || echo 0)"
        echo "speed=$(cat "/sys/class/net/$interface/speed" 2>/dev/null || echo unknown)"
        # What the NIC has received and not handed on, under the names that drivers give it.
        echo "rx_packets=$(cat "/sys/class/net/$interface/statistics/rx_packets")"
        ethtool -S "$interface" 2>/dev/null | sed -n \
            's/^ *\([a-z0-9_.]*\(discard\|out_of_buffer\|no_buffer\|missed\|crc\|symbol_err\|fec_uncorr\)[a-z0-9_.]*\): *\([0-9]*\)$/nic.\1=\3/p'
        for short in $OFFLOADS; do
            echo "offload.$short=$(feature_state "$short")"
        done
        echo "queues=$(receive_queues)"
        echo "quiet=$(is_quiet)"
        echo "used=$(used_by)"
        for name in rx-usecs adaptive-rx; do
            value=$(ethtool_value -c "$(echo "$name" | sed 's/adaptive-rx/Adaptive RX/')")
            [ -z "$value" ] || echo "coalescing.$name=$value"
        done
        for name in RX TX; do
            value=$(ethtool_value -a "$name")
            [ -z "$value" ] || echo "pause.$name=$value"
            value=$(ethtool -g "$interface" 2>/dev/null | sed -n "/Current/,\$s/^$name:[[:space:]]*//p" | head -n 1)
            [ -z "$value" ] || echo "ring.$name=$value"
        done
    else
        echo "interface=no"
    fi
    if command -v chronyc >/dev/null 2>&1; then
        echo "clock=$(chronyc tracking 2>/dev/null | sed -n 's/^Leap status *: //p')"
    elif command -v timedatectl >/dev/null 2>&1; then
        echo "clock=$(timedatectl show -p NTPSynchronized --value 2>/dev/null)"
    else
        echo "clock=unknown"
    fi
    for name in tcp_rmem tcp_wmem tcp_no_metrics_save tcp_ecn tcp_ecn_fallback; do
        echo "sysctl.$name=$(sysctl -n "net.ipv4.$name" | tr '\t' ' ')"
    done
    [ -f "$STATE/$interface" ] && echo "applied=yes" || echo "applied=no"
    # Where a run keeps what its processes here need.
    echo "files=$FILES"
}

[ $# -ge 2 ] || fail "usage: $PROGRAM apply|guard|check|silence|restore|describe INTERFACE [NAME=VALUE...]"
action=$1
interface=$2
shift 2
case $interface in *[!A-Za-z0-9._@-]* | '') fail "'$interface' is not an interface name" ;; esac
FILES=$STATE/$interface.files
case $action in
apply)
    apply "$@"
    ;;
guard) guard "$@" ;;
check) check "$@" ;;
silence) silence ;;
restore) restore ;;
describe) describe ;;
*) fail "unknown action '$action'; allowed: apply, guard, check, silence, restore, describe" ;;
esac
