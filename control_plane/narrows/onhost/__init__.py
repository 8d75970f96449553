# SPDX-License-Identifier: Apache-2.0
"""What runs on hosts: the standard library of Python 3.8 is enough for it, and it imports nothing else of ours."""
