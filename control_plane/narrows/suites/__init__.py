# SPDX-License-Identifier: Apache-2.0
"""Suites: experiments with expectations, each with the sentence of a document that it tests."""
