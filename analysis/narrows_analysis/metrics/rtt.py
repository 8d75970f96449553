# SPDX-License-Identifier: Apache-2.0
"""Round-trip time and data in flight, as a switch that sees both directions of a flow can measure them.

A data packet passes the switch, its acknowledgement passes it on the reverse path: the time between is the RTT between
switch and receiver. Measured at the ingress of the queue (departure time - queue delay) it includes the queue. The same
on the other side, with the roles of the directions exchanged, gives the RTT between switch and sender; the sum is the
RTT of the path.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]


def rtt_from_timestamps(
    data_time_s: npt.ArrayLike, tsval: npt.ArrayLike, ack_time_s: npt.ArrayLike, tsecr: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """RTT samples from TCP timestamps of one flow: times (s) of the acknowledgements and RTTs (s).

    Each timestamp value is matched between the first packet that carries it and the first in the other direction that
    echoes it: later echoes would count the receiver's waiting as RTT. 0 means that the option is absent. Values
    that repeat after 2^32 ticks must not be in one call.
    Source: RFC 7323, section 4; K. Nichols, "pping: passive ping", 2017.
    """
    value, first = np.unique(np.asarray(tsval, dtype=np.int64), return_index=True)
    echo, echoed = np.unique(np.asarray(tsecr, dtype=np.int64), return_index=True)
    both, i, j = np.intersect1d(value, echo, assume_unique=True, return_indices=True)
    sent = np.asarray(data_time_s, dtype=np.float64)[first[i]]
    received = np.asarray(ack_time_s, dtype=np.float64)[echoed[j]]
    usable = (received > sent) & (both != 0)
    order = np.argsort(received[usable], kind="stable")
    return received[usable][order], (received - sent)[usable][order]


def rtt_from_sequence(
    data_time_s: npt.ArrayLike,
    sequence: npt.ArrayLike,
    length: npt.ArrayLike,
    ack_time_s: npt.ArrayLike,
    ack: npt.ArrayLike,
) -> tuple[FloatArray, FloatArray]:
    """RTT samples of one flow from data segments and the first acknowledgements that cover them: times (s), RTTs (s).

    An acknowledgement samples only the segment that it ends with, and none whose last byte was sent more than once,
    nor one acknowledged only after a later hole was filled. 32-bit numbers of one call must span less than 2^31 bytes.
    Source: P. Karn, C. Partridge, "Improving Round-Trip Time Estimates in Reliable Transport Protocols", SIGCOMM 1987;
    RFC 6298, section 3.
    """
    start = np.asarray(sequence, dtype=np.int64)
    if not len(start) or not len(np.asarray(ack)):
        return np.zeros(0), np.zeros(0)
    base = int(start[0])
    end = _relative(start + np.asarray(length, dtype=np.int64), base)
    number = _relative(np.asarray(ack, dtype=np.int64), base)
    value, first, count = np.unique(end, return_index=True, return_counts=True)
    once = count == 1
    value, first = value[once], first[once]
    reached = np.maximum.accumulate(number)
    fresh = np.concatenate(([True], reached[1:] > reached[:-1]))
    acknowledged, when = reached[fresh], np.asarray(ack_time_s, dtype=np.float64)[fresh]
    _, i, j = np.intersect1d(value, acknowledged, assume_unique=True, return_indices=True)
    sent = np.asarray(data_time_s, dtype=np.float64)[first[i]]
    # An acknowledgement that jumps over more than what was outstanding in order ends a recovery: not an RTT.
    times = np.asarray(data_time_s, dtype=np.float64)
    again = np.zeros(len(end), np.bool_)
    again[1:] = end[1:] <= np.maximum.accumulate(end)[:-1]
    repaired = np.searchsorted(times[again], when[j]) > np.searchsorted(times[again], sent)
    usable = (when[j] > sent) & ~repaired
    return when[j][usable], (when[j] - sent)[usable]


def inflight(
    data_time_s: npt.ArrayLike,
    sequence: npt.ArrayLike,
    length: npt.ArrayLike,
    ack_time_s: npt.ArrayLike,
    ack: npt.ArrayLike,
    sender_rtt_s: float = 0.0,
) -> tuple[FloatArray, Int64Array]:
    """Bytes sent and not yet acknowledged, after each packet of either direction: times (s), bytes.

    Highest sequence number minus highest acknowledgement; an upper estimate, since selectively acknowledged and lost
    bytes count until the cumulative acknowledgement passes them. An acknowledgement counts `sender_rtt_s` (the RTT
    between switch and sender) after it passed the switch, when the data that it released can arrive there: so what is
    between switch and sender is in flight as well, as it is for the sender. With 0 it is what has passed the switch.
    Source: RFC 5681, section 2 (FlightSize), seen at the switch.
    """
    start = np.asarray(sequence, dtype=np.int64)
    if not len(start):
        return np.zeros(0), np.zeros(0, np.int64)
    base = int(start[0])
    end = _relative(start + np.asarray(length, dtype=np.int64), base)
    number = np.maximum(_relative(np.asarray(ack, dtype=np.int64), base), 0)
    effect_s = np.asarray(ack_time_s, dtype=np.float64) + sender_rtt_s
    time = np.concatenate((np.asarray(data_time_s, dtype=np.float64), effect_s))
    sent = np.concatenate((end, np.zeros(len(number), np.int64)))
    confirmed = np.concatenate((np.zeros(len(end), np.int64), number))
    order = np.argsort(time, kind="stable")
    open_bytes = np.maximum.accumulate(sent[order]) - np.maximum.accumulate(confirmed[order])
    return time[order], np.maximum(open_bytes, 0)


def _relative(number: Int64Array, base: int) -> Int64Array:
    return (number - base + (1 << 31)) % (1 << 32) - (1 << 31)
