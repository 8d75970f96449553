# SPDX-License-Identifier: Apache-2.0
"""Many runs below one directory: sweeps, studies and tests are made by one scheduler."""
