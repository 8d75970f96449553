# SPDX-License-Identifier: Apache-2.0
"""Why a port that is there has no link: what its own settings make likely."""

from __future__ import annotations

from collections.abc import Mapping

COPPER, OPTICAL = "BF_MEDIA_TYPE_COPPER", "BF_MEDIA_TYPE_OPTICAL"
NO_FEC = "BF_FEC_TYP_NONE"
# Four levels a symbol, with errors that only FEC corrects.
FEC_NEEDED = ("BF_SPEED_200G", "BF_SPEED_400G")
ANY = (
    "cable, and that speed, FEC and auto-negotiation in the inventory are those of the NIC ('ethtool INTERFACE' on the "
    "host)"
)


def likeliest_cause(port: Mapping[str, object]) -> str | None:
    """What of a port's settings most likely keeps its link down, with the fix; None where nothing stands out.

    Args:
        port: fields of its ``$PORT`` entry.
    """
    speed, negotiates = port.get("$SPEED"), port.get("$AUTO_NEGOTIATION")
    # The driver knows the medium from the board's platform library, and says "unknown" without one.
    copper, optical = (port.get("$MEDIA_TYPE") == medium for medium in (COPPER, OPTICAL))
    if not port.get("$PORT_ENABLE"):
        return "it is turned off; a run turns it on"
    if port.get("$FEC") == NO_FEC:
        if speed in FEC_NEEDED:
            return f"FEC is none, which no link of {str(speed).removeprefix('BF_SPEED_')} works without; fix: fec: rs"
        if speed == "BF_SPEED_100G" and not optical:
            return "FEC is none, and NICs have RS at 100G over copper ('ethtool --show-fec'); fix: fec: rs"
    if copper and negotiates == "PM_AN_FORCE_DISABLE":
        return "auto-negotiation is off, and NICs negotiate over copper; fix: auto_negotiation: on"
    if optical and negotiates == "PM_AN_FORCE_ENABLE":
        return "auto-negotiation is on, and optics do not negotiate; fix: auto_negotiation: off"
    if negotiates == "PM_AN_DEFAULT" and not (copper or optical):
        return (
            "the driver does not know the cable, and then does not negotiate, as NICs do over copper; fix: "
            "auto_negotiation: on for copper"
        )
    return None
