"""
Kernels of Jupyter that run in sandboxes of Cloche, for any Jupyter on any machine.

`python -m cloche.kernelspec install` adds the kernels to Jupyter. For each kernel, Jupyter starts a process on its own
machine. The process passes messages between Jupyter's ZeroMQ sockets and a WebSocket of the kernel gateway of Cloche.
The extra `cloche[jupyter]` has what this needs.
"""
