#!/usr/bin/env bash
# Formatters and linters of every language in the tree; changes nothing.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

echo "lint: ruff, mypy"
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy

echo "lint: rustfmt, clippy"
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

if command -v p4fmt >/dev/null; then
    echo "lint: p4fmt"
    find p4src -name '*.p4' -print0 | while IFS= read -r -d '' file; do
        p4fmt "$file" | diff -u "$file" - || { echo "lint: $file is not in p4fmt style" >&2; exit 1; }
    done
else
    echo "lint: p4fmt skipped, it is not on PATH"
fi
