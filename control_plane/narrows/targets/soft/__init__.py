# SPDX-License-Identifier: Apache-2.0
"""The softswitch as a target, and as a delay line beside another one."""
