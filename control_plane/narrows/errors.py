# SPDX-License-Identifier: Apache-2.0
"""Errors that the command line turns into a message and an exit code, without a traceback."""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


class NarrowsError(Exception):
    """A failure with a message for the user; ``exit_code`` is what the process returns."""

    exit_code = EXIT_FAILED


class InputError(NarrowsError):
    """What the user asked for cannot be done as written; raised before anything is created."""

    exit_code = EXIT_BAD_INPUT

    def at(self, origin: str) -> InputError:
        """The same with the file, and the point of a sweep, in front of each of its lines."""
        return InputError("\n".join(f"{origin}: {line}" for line in str(self).splitlines()))


class Interrupted(NarrowsError):
    """The user (or the system) stopped a run before there was anything to keep."""

    exit_code = EXIT_INTERRUPTED


class RunError(NarrowsError):
    """Something went wrong while a run was being set up or was under way."""
