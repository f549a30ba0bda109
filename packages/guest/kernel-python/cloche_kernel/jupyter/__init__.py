# SPDX-License-Identifier: Apache-2.0
"""Answers messages of Jupyter's protocol. Loaded when the first of them arrives."""
