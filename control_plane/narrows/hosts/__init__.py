# SPDX-License-Identifier: Apache-2.0
"""The machines, or network namespaces, that flows run between."""
