# SPDX-License-Identifier: Apache-2.0
"""A lab's machines as hosts: what an inventory says of them, checked and set up by SSH, and put back afterwards."""
