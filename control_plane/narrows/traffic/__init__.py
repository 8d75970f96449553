# SPDX-License-Identifier: Apache-2.0
"""What makes the flows of an experiment."""
