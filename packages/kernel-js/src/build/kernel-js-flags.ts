/** The flags of Node that the kernel is started with, before the path of `main.cjs`. */
export const kernelJsFlags: string[] = [
  // A terminated execution leaves entries on Node's async hooks stack. Without this the next callback aborts the process.
  '--no-force-async-hooks-checks',
  // The kernel uses node:ffi once, and what users try out is theirs to judge: neither belongs on their stderr.
  '--disable-warning=ExperimentalWarning',
];
