"""What the synchronous and the asynchronous client share. Nothing here does input or output over the network."""
