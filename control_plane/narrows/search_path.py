# SPDX-License-Identifier: Apache-2.0
"""Where programs are looked for that do not depend on a user's PATH: root's own, a flow's, and all of a guest."""

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
