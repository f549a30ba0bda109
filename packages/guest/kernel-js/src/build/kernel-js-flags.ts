/** Node's flags for the kernel, given before the path of `main.cjs`. */
export const kernelJsFlags: string[] = [
  // A terminated execution leaves entries on Node's async hooks stack. Without this the next callback aborts the
  // process.
  '--no-force-async-hooks-checks',
  // The kernel itself uses node:ffi, and users can try experimental features. Their stderr should not show warnings.
  '--disable-warning=ExperimentalWarning',
  // A signal opens no debugger.
  '--disable-sigusr1',
];
