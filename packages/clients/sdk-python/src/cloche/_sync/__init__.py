"""The synchronous client. `_sync` is generated from it."""
