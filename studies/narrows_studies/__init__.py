# SPDX-License-Identifier: Apache-2.0
"""Published studies: what they say as data, runs of the same conditions, and how close these come.

A study is a `model.Study`, in `papers` or in another distribution. `running` runs its experiments,
`measures.measure_run` turns a run into numbers, `evaluate.evaluate` a statement and numbers into a verdict, and
`page.render` verdicts into pages.
"""
