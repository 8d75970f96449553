# SPDX-License-Identifier: Apache-2.0
"""Studies by name, ours and those of other distributions alike: entry points of `narrows.studies`."""

from narrows_formats import plugins

GROUP = "narrows.studies"
"""Values of `narrows_studies.model.Study`; their experiments are in ``experiments/NAME/`` beside the module."""

OFFERS = plugins.offers(GROUP)
