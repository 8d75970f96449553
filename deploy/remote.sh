#!/bin/sh
# Runs a program on a server for a run: `remote.sh PROGRAM ARGUMENT...`. Names of signals come line by line on standard
# input and are passed on; when that ends, because the run or the connection did, the program is ended as well.
#
# SPDX-License-Identifier: Apache-2.0
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
{
    while read -r name; do
        kill -s "$name" "$program" 2>/dev/null
    done
    kill -s TERM "$program" 2>/dev/null
    sleep 5
    kill -s KILL "$program" 2>/dev/null
} <&3 >/dev/null 2>&1 &
listener=$!
exec 3<&-
wait "$program"
code=$?
kill -s KILL "$listener" 2>/dev/null
exit "$code"
