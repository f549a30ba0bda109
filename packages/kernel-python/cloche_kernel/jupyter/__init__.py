# SPDX-License-Identifier: Apache-2.0
"""What a kernel answers to messages of Jupyter's protocol. Loaded with the first of them."""
