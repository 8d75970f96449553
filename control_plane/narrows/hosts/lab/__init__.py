# SPDX-License-Identifier: Apache-2.0
"""A lab's machines as hosts: what an inventory says about them; checked, set up over SSH, and restored afterwards."""
