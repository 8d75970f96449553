# SPDX-License-Identifier: Apache-2.0
"""Files with a congestion control that was written for another tree, changed so that mainline's Linux takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from narrows.errors import InputError

HEADER = "include/net/tcp.h"


@dataclass(frozen=True)
class Port:
    """A congestion control of another tree, and what of its text becomes what.

    ``what`` and ``known`` name it, and a public version that was tried. ``mark`` is in a file, and in that tree's
    header, and ``needs`` in the header of a kernel that the changed file fits.
    """

    what: str
    known: str
    mark: str
    needs: str
    edits: tuple[tuple[str, str], ...]


PORTS = (
    Port(
        "TCP Prague",
        "tcp_prague.c of minuscat/rpi-6.18.y at 330b511ac19ea2cadea7bb1ad3707c991a361d22",
        "TCP_CONG_WANTS_ECT_1",
        "TCP_CONG_ECT_1_NEGOTIATION",
        (
            # One flag asks for ECT(1) here, of the SYN and of data (see narrows.virtual.adjustments).
            ("TCP_CONG_WANTS_ECT_1", "TCP_CONG_ECT_1_NEGOTIATION"),
            ("TCP_ECN_ECT_1_ESTABLISH", "0"),
            # The marks that an acknowledgement reports: here counted over the connection alone. The structure has all
            # of the bytes that the kernel gives, and four to fill in after this member.
            ("mtu_cache;", "mtu_cache, counted_ce;"),
            ("ca->saw_ce = !!", "ca->counted_ce = tp->delivered_ce; ca->saw_ce = !!"),
            (
                "acked = rs->acked_sacked;",
                "acked = rs->acked_sacked; "
                "u32 ece_delta = tp->delivered_ce - ca->counted_ce; ca->counted_ce = tp->delivered_ce;",
            ),
            ("rs->ece_delta", "ece_delta"),
            # Segments of a burst: here a CCA says how few at least, and for how long at the pacing rate.
            (", unsigned int mss_now)", ")"),
            (".tso_segs", ".min_tso_segs"),
            ("ca->max_tso_burst = 1;", "ca->max_tso_burst = 1; sk_pacing_shift_update(sk, prague_burst_shift);"),
            # Smaller segments at low rates: here the MTU of the path would undo them with the next one sent.
            (
                "tp->mss_cache_set_by_cca = true;",
                "tp->rx_opt.mss_clamp = mtu - inet_csk(sk)->icsk_af_ops->net_header_len - sizeof(struct tcphdr);",
            ),
            ("tcp_sync_mss(sk, mtu)", "tcp_sync_mss(sk, inet_csk(sk)->icsk_pmtu_cookie)"),
            # What it shows of itself has a number and a structure in its own tree only.
            ("\n\nstatic size_t prague_get_info(", "\n#if 0\nstatic size_t prague_get_info("),
            ("\n\nstatic void prague_release(", "\n#endif\nstatic void prague_release("),
            (".get_info\t= prague_get_info,", ""),
        ),
    ),
)


def port(file: Path, text: str, tree: Path, say: Callable[[str], None]) -> str:
    """The text of a congestion control as a kernel takes it: as it is, unless it was written for a tree of `PORTS`.

    Lines keep their numbers, by which a compiler names them.

    Args:
        file: what the user calls it.
        text: what is in it.
        tree: the kernel's source.
        say: progress.

    Raises:
        InputError: the file is of another version, or the kernel has not what it needs.
    """
    header = (tree / HEADER).read_text()
    for one in PORTS:
        if one.mark not in text or one.mark in header:
            continue
        if one.needs not in header:
            raise InputError(f"--cca {file}: {one.what} needs {one.needs}; allowed: --base with Linux 7.0 or newer")
        for found, becomes in one.edits:
            if found not in text:
                raise InputError(
                    f"--cca {file}: this {one.what} cannot be changed for mainline's Linux: it does not have "
                    f"'{found.strip()}' as it was sought; allowed: {one.known}"
                )
            text = text.replace(found, becomes)
        say(f"{file.name}: {one.what}, changed for mainline's Linux")
    return text
