#!/usr/bin/env bash
# What can be known of a change in a few minutes, without root: linters, and the short tests without network and guest.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
# Bytecode of tests, too: pytest would make it anew in each of its processes.
unset PYTHONDONTWRITEBYTECODE

scripts/lint.sh
echo "check: tests of analysis, files, plans and documents, side by side"
# None of them leaves a file, a socket or a process to the garbage collector.
.venv/bin/python -m pytest -q -n "$(nproc)" --dist loadfile -m "not root and not long" -W error::ResourceWarning \
    tests/analysis tests/control_plane tests/formats tests/p4 tests/test_*.py --ignore tests/test_documented_runs.py
