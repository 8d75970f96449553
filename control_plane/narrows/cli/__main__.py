# SPDX-License-Identifier: Apache-2.0
"""``narrows`` by its module, where the script's place is not known."""

from narrows.cli import main

main()
