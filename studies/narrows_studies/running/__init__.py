# SPDX-License-Identifier: Apache-2.0
"""Published studies as experiments: which points they have, and running them."""
