#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a suite, and writes what changed against a baseline as a comment: $RESULTS/comment.md. Ends with 1 if a case fails or a run
# did; with a baseline, only if a cell that passed there does not pass any more.
set -euo pipefail

words=()
for cca in $CCAS; do words+=(--cca "$cca"); done
for program in $PROGRAMS; do words+=(--program "$program"); done
for kernel in $KERNELS; do words+=(--kernel "$kernel"); done

code=0
"$NARROWS" suite run "$SUITE" --quick --quiet --out "$RESULTS" --junit "$RESULTS-junit.xml" "${words[@]}" >"$RESULTS.txt" || code=$?
cat "$RESULTS.txt"
# 1: a case failed, or a run. Anything else leaves no matrix.
((code <= 1)) || exit "$code"

title="$(tail -n 2 "$RESULTS.txt" | head -n 1)"
changes=""
if [[ -n $BASELINE ]]; then
    # All: a case that passed in the baseline and is not run any more got worse, too.
    changes="$("$NARROWS" suite compare --all "$BASELINE" "$RESULTS")"
    worse="$(grep -c ': pass -> ' <<<"$changes" || true)"
    code=$((worse > 0))
fi
{
    echo "### $title"
    if [[ -n $BASELINE ]]; then
        printf '%s\n' '' '~~~text' "$changes" '~~~'
    fi
    printf '%s\n' '' '<details><summary>All cells</summary>' '' '~~~text' "$(cat "$RESULTS.txt")" '~~~' '</details>'
} >"$RESULTS/comment.md"
exit "$code"
