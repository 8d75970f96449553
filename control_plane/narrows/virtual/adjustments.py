# SPDX-License-Identifier: Apache-2.0
"""What the source of a kernel needs to run as a guest here: changes of its text, which are made, or fail its build."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from narrows.errors import RunError
from narrows.hosts.users import APPLICATION_ID

LAUNCH = Path(__file__).with_name("launch.c")
EXTERNAL = Path(__file__).with_name("external.c")
# Congestion controls that are added to a tree: its kernel has those that are there when it is linked.
ADDED = "narrows_"
TCP = "net/ipv4"
SYSCALLS = "arch/um/kernel/skas/syscall.c"
# Where a source is known to have all of the texts.
KNOWN = "Linux 6.1, 6.12, 7.2 and 7.3"


@dataclass(frozen=True)
class Edit:
    """A change of a tree: in a file, what is found becomes something else. Where nothing is sought, the file is new."""

    file: str
    found: str
    becomes: str


@dataclass(frozen=True)
class Adjustment:
    """Edits that are made together: ``aim`` says what for.

    ``needed_by`` are a file and a text in it: a tree without that text is as it should be. None: every tree needs it.
    """

    aim: str
    edits: tuple[Edit, ...]
    needed_by: tuple[str, str] | None = None


ADJUSTMENTS = (
    # TCP's timers count in ticks: as long ones as in the kernels that people use, not 10 ms.
    Adjustment(
        "ticks last 4 ms",
        (Edit("arch/um/Kconfig", "config HZ\n\tint\n\tdefault 100\n", "config HZ\n\tint\n\tdefault 250\n"),),
    ),
    # The clock counts nanoseconds, and time goes on by one when a process reads it: with 256 a sender that reads it for
    # each packet keeps the guest's other processes from their timers, at 100 Gbit/s for a millisecond.
    Adjustment(
        "its clock counts nanoseconds",
        (
            Edit(
                "arch/um/include/linux/time-internal.h",
                "#define TIMER_MULTIPLIER 256\n",
                "#define TIMER_MULTIPLIER 1\n",
            ),
        ),
    ),
    # Random numbers begin with the seed that a run has, and with nothing else. The one that the kernel takes at its
    # start makes its own ready; processes would wait for that for ever. What else they would be made of is when and
    # where it was built, the paths of this checkout and of Python, and at which nanosecond of which instruction it was
    # interrupted, which these paths move: the same run has the same random numbers wherever it is started. What remains
    # is the seed, and how many were drawn.
    Adjustment(
        "random numbers are of the seed alone",
        (
            Edit(
                "arch/um/include/asm/archrandom.h",
                "\tret = os_getrandom(v, max_longs * sizeof(*v), 0);\n",
                "\tret = 0;\n",
            ),
            Edit(
                "arch/um/kernel/um_arch.c",
                "\tif (os_getrandom(rng_seed, sizeof(rng_seed), 0) == sizeof(rng_seed)) {\n",
                "\tmemset(rng_seed, 0, sizeof(rng_seed));\n\t{\n",
            ),
            *(
                Edit("drivers/char/random.c", found, becomes)
                for found, becomes in (
                    ("\t_mix_pool_bytes(init_utsname(), sizeof(*(init_utsname())));\n", ""),
                    ("\t_mix_pool_bytes(command_line, strlen(command_line));\n", "\t(void)command_line;\n"),
                    ("\t\tblock.rdseed[i++] = random_get_entropy();\n", "\t\tblock.rdseed[i++] = 0;\n"),
                    *(
                        (start, f"{start}\treturn;\n")
                        for start in (
                            "void add_device_randomness(const void *buf, size_t len)\n{\n",
                            "void add_interrupt_randomness(int irq)\n{\n",
                        )
                    ),
                )
            ),
        ),
    ),
    # Programs of users that poll, or round their timers, would call their kernel for ever while no time passes: each
    # call of a process in the group of applications (`narrows.hosts.users`) takes so many nanoseconds. Linux lets each
    # call that fails take a microsecond, so that whoever tries again and again gets on. A run's own hosts do not, and a
    # hundred flows that begin together would keep the switch from its timers: theirs take a nanosecond.
    Adjustment(
        "flows that begin together do so in one instant",
        (
            Edit(
                SYSCALLS,
                "#include <asm/delay.h>\n\nvoid handle_syscall(",
                "#include <asm/delay.h>\n"
                "#include <linux/cred.h>\n#include <linux/moduleparam.h>\n\n"
                "static unsigned long user_ns;\nmodule_param(user_ns, ulong, 0644);\n\nvoid handle_syscall(",
            ),
            Edit(
                SYSCALLS,
                "\tif (syscall >= 0 && syscall < __NR_syscalls) {\n",
                f"\tif (READ_ONCE(user_ns) && in_group_p(KGIDT_INIT({APPLICATION_ID})))\n\t\tum_ndelay(user_ns);\n\n"
                "\tif (syscall >= 0 && syscall < __NR_syscalls) {\n",
            ),
            Edit(
                SYSCALLS,
                "\t\t\tum_udelay(1);\n\t\t\tschedule();\n",
                f"\t\t\tum_ndelay(in_group_p(KGIDT_INIT({APPLICATION_ID})) ? 1000 : 1);\n\t\t\tschedule();\n",
            ),
        ),
    ),
    # Hosts do not fall back from ECN when packets are lost (`tcp_ecn_fallback` is 0). Linux from Accurate ECN on still
    # clears ECE in a SYN/ACK that it retransmits after the second timeout: Accurate ECN asks for that (RFC 9768,
    # section 3.2.3.2.2), RFC 3168 does not.
    Adjustment(
        "a SYN/ACK that is sent again keeps its ECE",
        (
            Edit(
                "include/net/tcp_ecn.h",
                "\tif (!req->num_timeout || synack_type != TCP_SYNACK_RETRANS) {\n",
                "\tif (!req->num_timeout || synack_type != TCP_SYNACK_RETRANS || !tcp_rsk(req)->accecn_ok) {\n",
            ),
        ),
        needed_by=("include/net/tcp_ecn.h", "num_timeout"),
    ),
    # Linux from Accurate ECN on has ECT(1) in a SYN of congestion controls that ask for it, as those of L4S have to
    # (RFC 9331, section 4.1), and ECT(0) in all that follows.
    Adjustment(
        "a congestion control may have ECT(1) in its packets",
        (Edit(f"{TCP}/tcp_output.c", "INET_ECN_xmit(sk);", "INET_ECN_xmit_ect_1_negotiation(sk);"),),
        needed_by=("include/net/tcp_ecn.h", "INET_ECN_xmit_ect_1_negotiation"),
    ),
    # The switch passes frames on ahead of their time: by a device that is made for it in less time than by queues.
    Adjustment(
        "it has a device for frames ahead of their time",
        (
            Edit(
                "drivers/net/Makefile",
                "obj-$(CONFIG_VETH) += veth.o\n",
                "obj-$(CONFIG_VETH) += veth.o\nobj-$(CONFIG_VETH) += narrows_launch.o\n",
            ),
            Edit("drivers/net/narrows_launch.c", "", LAUNCH.read_text()),
        ),
    ),
    # Users' own congestion controls are added one file each, and programs may drive a sender.
    Adjustment(
        "congestion controls can be added to it",
        (
            Edit(
                f"{TCP}/Makefile",
                "obj-$(CONFIG_TCP_CONG_CUBIC) += tcp_cubic.o\n",
                "obj-$(CONFIG_TCP_CONG_CUBIC) += tcp_cubic.o\n"
                f"obj-y += $(patsubst %.c,%.o,$(notdir $(wildcard $(srctree)/{TCP}/{ADDED}*.c)))\n"
                # Kernels with BBRv3 ask a congestion control for the segments of a write by another name.
                f"CFLAGS_{ADDED}external.o += $(if $(shell grep min_tso_segs $(srctree)/include/net/tcp.h),"
                "-DEXTERNAL_MIN_TSO_SEGS)\n",
            ),
            Edit(f"{TCP}/{ADDED}external.c", "", EXTERNAL.read_text()),
        ),
    ),
    # Where system calls are caught by ptrace a guest's processes would make them to this machine once their kernel is
    # gone: they go with it.
    Adjustment(
        "processes end with their kernel",
        (
            Edit(
                "arch/um/os-Linux/skas/process.c",
                "PTRACE_O_TRACESYSGOOD)",
                "(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL))",
            ),
        ),
    ),
    # Before Linux 6.13 the state of a processor with AMX (11 kB) has no room: the guest dies of it at its start, and of
    # the small stack that it stands on afterwards.
    Adjustment(
        "the state of processors with AMX has room",
        (
            Edit(
                "arch/x86/um/user-offsets.c", "DEFINE_LONGS(HOST_FP_SIZE, 2696);", "DEFINE_LONGS(HOST_FP_SIZE, 16384);"
            ),
            Edit(
                "arch/um/Kconfig",
                "\tdefault 2 if 64BIT\n\trange 2 10 if 64BIT\n",
                # The range too: olddefconfig keeps what tinyconfig chose for 32 bits, unless it is out of range.
                "\tdefault 4 if 64BIT\n\trange 4 10 if 64BIT\n",
            ),
        ),
        needed_by=("arch/x86/um/user-offsets.c", "HOST_FP_SIZE"),
    ),
)


def adjust(tree: Path) -> None:
    """Make the adjustments that a tree needs.

    Raises:
        RunError: one cannot be made; the tree is as it was.
    """
    texts: dict[str, str] = {}
    for adjustment in ADJUSTMENTS:
        if adjustment.needed_by is not None:
            file, mark = adjustment.needed_by
            if mark not in _read(tree / file):
                continue
        for edit in adjustment.edits:
            text = texts[edit.file] if edit.file in texts else _read(tree / edit.file)
            if edit.found not in text:
                sought = edit.found.strip().splitlines()[0]
                raise RunError(
                    f"this source cannot be adjusted so that {adjustment.aim}: {edit.file} does not have '{sought}' as "
                    f"it was sought; allowed: a source that has it, as {KNOWN} do"
                )
            texts[edit.file] = text.replace(edit.found, edit.becomes)
    for file, text in texts.items():
        (tree / file).write_text(text)


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def adjusted() -> str:
    """How the salt of every kernel with today's adjustments begins."""
    return f"narrows-{hashlib.sha256(repr(ADJUSTMENTS).encode()).hexdigest()[:8]}-"
