#!/usr/bin/env bash
# Which lines the tests without root reach: pages for Python and Rust below build/coverage.
# Usage: scripts/coverage.sh [PYTEST-ARGUMENT...]; CRATE=NAME measures one crate instead of all.
# Python needs coverage (.venv/bin/pip install coverage). Rust needs llvm-cov and llvm-profdata of the LLVM that rustc has:
# rustup's (rustup component add llvm-tools), or a Debian package of the same major version, such as llvm-22.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf 'coverage: error: %s\n' "$*" >&2
    exit 2
}
.venv/bin/python -c 'import coverage' 2>/dev/null || fail "coverage is not installed; fix: .venv/bin/pip install coverage"
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
tool() {
    local rustups
    rustups=$(dirname "$(rustc --print target-libdir)")/bin/$1
    if [ -x "$rustups" ]; then echo "$rustups"; else command -v "$1-$llvm"; fi
}

rm -rf build/coverage
mkdir -p build/coverage
echo "coverage: Python"
.venv/bin/python -m coverage run -m pytest -q -m "not root" --ignore tests/virtual --ignore tests/physics "$@"
.venv/bin/python -m coverage combine --quiet
.venv/bin/python -m coverage html --quiet --directory build/coverage/python
.venv/bin/python -m coverage report --format total | sed 's/^/coverage: Python: % of lines and branches: /'

if ! cov=$(tool llvm-cov) || ! profdata=$(tool llvm-profdata); then
    echo "coverage: Rust is left out: no llvm-cov of LLVM $llvm; fix: rustup component add llvm-tools"
    echo "coverage: Python in build/coverage"
    exit
fi
echo "coverage: Rust"
# Only crates of the workspace are instrumented, and in a directory of their own: programs in target/release stay as they are.
# (By bash: a plain sh keeps no variable with a hyphen in its name, as tests have that start the switch.)
wrapper=$PWD/build/coverage/instrumented-rustc
printf '#!/usr/bin/env bash\nexec "$@" -Cinstrument-coverage\n' >"$wrapper"
chmod +x "$wrapper"
export RUSTC_WORKSPACE_WRAPPER=$wrapper LLVM_PROFILE_FILE=$PWD/build/coverage/profiles/%m-%p.profraw
tests=(cargo test --tests --release --locked --quiet --target-dir target/coverage)
if [ -n "${CRATE:-}" ]; then tests+=(--package "$CRATE"); else tests+=(--workspace); fi
mapfile -t programs < <("${tests[@]}" --no-run --message-format json | sed -n 's/.*"executable":"\([^"]*\)".*/--object=\1/p')
"${tests[@]}"
"$profdata" merge --sparse build/coverage/profiles/*.profraw --output build/coverage/rust.profdata
shown=("${programs[@]}" --instr-profile build/coverage/rust.profdata --ignore-filename-regex '/(\.cargo|rustc|tests|target)/')
"$cov" show "${shown[@]}" --format html --output-dir build/coverage/rust
"$cov" report "${shown[@]}" |
    awk '/^TOTAL/ { printf "coverage: Rust: %s of lines, %s of functions, %s of regions\n", $10, $7, $4 }'
echo "coverage: Python and Rust in build/coverage"
