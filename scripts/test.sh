#!/usr/bin/env bash
# Everything `make test` checks, cheapest first.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
sudo=
[ "$(id -u)" = 0 ] || sudo="sudo --preserve-env=PATH"

scripts/lint.sh
echo "test: Rust"
cargo test --workspace --release --locked --quiet
echo "test: PTF suite on the softswitch"
$sudo .venv/bin/python ptf-tests/run.py --target soft
echo "test: Python"
$sudo .venv/bin/python -m pytest -q
