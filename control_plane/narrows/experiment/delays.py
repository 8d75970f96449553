# SPDX-License-Identifier: Apache-2.0
"""Where base round-trip times are made: each host's port holds what leaves for the host, so that the delays of a flow's
two hosts add up to its RTT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# A flow's sender and receiver.
Pair = tuple[str, str]


class NoDelays(Exception):
    """Hosts that flows share cannot have the RTTs that were asked for; ``pair`` is where that shows."""

    def __init__(self, pair: Pair) -> None:
        """Of the flows between two hosts."""
        super().__init__(f"{pair[0]}, {pair[1]}")
        self.pair = pair


@dataclass(frozen=True)
class _Term:
    """A delay as ``sign * t + constant``, with one unknown ``t`` for all hosts that flows connect."""

    sign: int
    constant: int


def host_delays(rtts: Mapping[Pair, int]) -> dict[str, int]:
    """A delay for each host, in nanoseconds and not negative, such that those of each pair add up to its RTT.

    Receivers have none where that can be: the delay is on the reverse path then, and data meet none but the queue's.

    Args:
        rtts: base RTT in nanoseconds of each sender and receiver.

    Raises:
        NoDelays: no delays make these RTTs.
    """
    delays: dict[str, int] = {}
    for terms, exact in _components(rtts):
        receivers = [host for _, host in rtts if host in terms]
        # With t = 0 the first receiver has no delay; it is more only where another delay would be negative.
        least = max(-term.constant for term in terms.values() if term.sign > 0)
        most = min(term.constant for term in terms.values() if term.sign < 0)
        value = least if exact is None else exact
        if value < least or value > most:
            raise NoDelays(next(pair for pair in rtts if pair[1] in receivers))
        delays |= {host: term.sign * value + term.constant for host, term in terms.items()}
    return delays


def spread(delays: Mapping[str, int], pairs: Iterable[Pair]) -> dict[str, int]:
    """The same RTTs with the smallest delay of both ends of the pairs alike, so that no direction is without one.

    Hosts whose RTTs leave no choice keep their delays.
    """
    spread_out = dict(delays)
    for terms, exact in _components({pair: delays[pair[0]] + delays[pair[1]] for pair in pairs}):
        if exact is None:
            near, far = ([host for host, term in terms.items() if term.sign == sign] for sign in (1, -1))
            shift = (min(delays[host] for host in far) - min(delays[host] for host in near)) // 2
            spread_out |= {host: delays[host] + shift for host in near}
            spread_out |= {host: delays[host] - shift for host in far}
    return spread_out


def _components(rtts: Mapping[Pair, int]) -> list[tuple[dict[str, _Term], int | None]]:
    """The hosts that flows connect with one another, each delay in terms of one unknown; its value where it is fixed.

    Raises:
        NoDelays: two ways of working out a delay disagree.
    """
    neighbours: dict[str, dict[str, int]] = {}
    for (sender, receiver), rtt in rtts.items():
        for host, other in ((receiver, sender), (sender, receiver)):
            if neighbours.setdefault(host, {}).setdefault(other, rtt) != rtt:
                raise NoDelays((sender, receiver))
    found: list[tuple[dict[str, _Term], int | None]] = []
    known: set[str] = set()
    # A receiver first: its delay is to be 0.
    for _, root in rtts:
        if root in known:
            continue
        terms, exact, waiting = {root: _Term(1, 0)}, None, [root]
        while waiting:
            host = waiting.pop()
            for other, rtt in neighbours[host].items():
                term = _Term(-terms[host].sign, rtt - terms[host].constant)
                if other not in terms:
                    terms[other] = term
                    waiting.append(other)
                    continue
                # A ring of hosts: of even length it must agree, of odd length it fixes the unknown.
                gap, signs = term.constant - terms[other].constant, terms[other].sign - term.sign
                if (signs == 0 and gap) or (signs and (gap % signs or exact not in (None, gap // signs))):
                    raise NoDelays((other, host))
                exact = gap // signs if signs else exact
        found.append((terms, exact))
        known |= terms.keys()
    return found
