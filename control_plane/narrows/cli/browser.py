# SPDX-License-Identifier: Apache-2.0
"""Opening a page in the user's browser."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from narrows.plain_text import say


def open_page(page: Path) -> None:
    """Open a file in the browser of the user who asked, also under sudo; say so where there is none."""
    opener = next((path for name in ("xdg-open", "open", "wslview") if (path := shutil.which(name))), None)
    if opener is None:
        say(f"--open: no browser was found (xdg-open); the page is {page.absolute()}")
        return
    command = [opener, str(page.absolute())]
    user = os.environ.get("SUDO_USER")
    if user and os.geteuid() == 0:
        # Not as root; and with the user's display, which sudo would take from the environment.
        command = ["runuser", "-u", user, "--", *command]
    subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
