# SPDX-License-Identifier: Apache-2.0
"""Whether CUBIC leaves slow start by delays and spacing of acknowledgements; a setting of a whole kernel."""

from __future__ import annotations

from pathlib import Path

from narrows.errors import RunError
from narrows.hosts.read_back import require

PARAMETER = Path("/sys/module/tcp_cubic/parameters/hystart")


def set_hystart(on: bool, parameter: Path = PARAMETER) -> None:
    """Set it, and read it back.

    Raises:
        RunError: the kernel has no such parameter, or it reads back differently.
    """
    asked = str(int(on))
    try:
        parameter.write_text(asked)
        found = parameter.read_text()
    except OSError as error:
        raise RunError(f"tcp_cubic: hystart cannot be set to {asked}: {error.strerror}") from error
    require("tcp_cubic", {"hystart": asked}, {"hystart": found})
