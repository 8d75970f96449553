# SPDX-License-Identifier: Apache-2.0
"""The first process of a guest that measures. Used as ``python -m narrows.virtual.start``.

It imports what a measurement needs; only what makes that cheap is imported before.
"""

from __future__ import annotations

from narrows.virtual.init import imports_at_once


def main() -> None:
    """The life of the guest."""
    with imports_at_once():
        from narrows.virtual import inside
    inside.main()


if __name__ == "__main__":
    main()
