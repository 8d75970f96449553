# SPDX-License-Identifier: Apache-2.0
"""Published studies: what they say as data, and how close runs of the same conditions come.

`catalogue.STUDIES` holds the studies; `measures.measure_run` makes numbers of a run, `evaluate.evaluate` a verdict of
numbers and a statement, `page.render` a page of verdicts.
"""
