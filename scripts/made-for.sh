#!/usr/bin/env bash
# Prints the path that the Python environment in .venv was made for; fails where there is none, or it does not say.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd -P "$(dirname "$0")/.."
place=$(sed -n 's/^command = .* -m venv \(--[^ ]* \)*//p' .venv/pyvenv.cfg 2>/dev/null || true)
[ -n "$place" ] || place=$(sed -n '1s/^#!\(.*\)\/bin\/python.*$/\1/p' .venv/bin/narrows 2>/dev/null || true)
[ -n "$place" ] && printf '%s\n' "$place"
