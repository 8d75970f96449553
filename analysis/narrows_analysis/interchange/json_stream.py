# SPDX-License-Identifier: Apache-2.0
"""A JSON text read piece by piece: members of objects and elements of arrays as they come, values whole."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import BinaryIO

from narrows_formats.bounded_json import NotJsonError, integer

CHUNK_BYTES = 1 << 20
_SPACE = " \t\r\n"


class Cut(Exception):
    """The text ends before its value does."""


_DECODER = json.JSONDecoder(parse_int=integer)


class JsonStream:
    """A text of which what is under way is in memory, and no value of more than ``most`` characters."""

    def __init__(self, stream: BinaryIO, most: int) -> None:
        """Nothing is read before it is asked for. What is not UTF-8 is replaced."""
        self._stream, self._most = stream, most
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._text, self._at, self._ended = "", 0, False

    def members(self) -> Iterator[str]:
        """The names of an object's members; each one's value is to be read before the next one.

        Raises:
            Cut: the text ends.
            NotJsonError: there is no object.
        """
        for _ in self._items("{", "}"):
            key = self.value()
            if not isinstance(key, str):
                raise NotJsonError("is not JSON: an object's member has no name")
            self._expect(":")
            yield key

    def elements(self) -> Iterator[None]:
        """Once for each element of an array, which is to be read before the next one.

        Raises:
            Cut: the text ends.
            NotJsonError: there is no array.
        """
        return self._items("[", "]")

    def value(self) -> object:
        """The next value.

        Raises:
            Cut: the text ends.
            NotJsonError: there is none, or it is too long.
        """
        self._next()
        while True:
            found: object = None
            try:
                found, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise NotJsonError("is not JSON: nested too deeply") from None
            except json.JSONDecodeError:
                # What is missing may follow, and so may the rest of a number.
                end = len(self._text) + 1
            if end < len(self._text) or (self._ended and end == len(self._text)):
                self._at = end
                return found
            if self._ended:
                raise Cut
            if len(self._text) - self._at > self._most:
                raise NotJsonError(f"has a value of more than {self._most} characters")
            # Twice as much each time: a long value is not decoded from its beginning too often.
            self._read(max(CHUNK_BYTES, len(self._text) - self._at))

    def _items(self, begin: str, end: str) -> Iterator[None]:
        self._expect(begin)
        if self._next() == end:
            self._at += 1
            return
        while True:
            yield
            if self._expect(",", end) == end:
                return

    def _expect(self, *allowed: str) -> str:
        found = self._next()
        if found not in allowed:
            raise NotJsonError(f"is not JSON: no {' or '.join(allowed)} where one should be")
        self._at += 1
        return found

    def _next(self) -> str:
        """The next character that is not space."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                raise Cut
            self._read(CHUNK_BYTES)

    def _read(self, count: int) -> None:
        data = self._stream.read(count)
        self._ended = not data
        self._text = self._text[self._at :] + self._utf8.decode(data, final=self._ended)
        self._at = 0
