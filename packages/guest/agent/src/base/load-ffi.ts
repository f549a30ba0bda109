/**
 * Loads Node's FFI without its warning about being experimental. The warning is needless: the Node version is pinned.
 */
export function loadFfi() {
  const { emitWarning } = process;
  process.emitWarning = () => undefined;
  try {
    return process.getBuiltinModule('node:ffi');
  } finally {
    process.emitWarning = emitWarning;
  }
}
