import { loadFfi } from './load-ffi.ts';

let mkfifo: ((path: string, mode: number) => unknown) | undefined;

/**
 * Creates a named pipe, which Node cannot. Calls the C library, because not every image has the program `mkfifo`, and
 * because a process takes longer. Follows the umask.
 */
export function makeFifo(path: string, mode: number): void {
  const types = { arguments: ['string', 'uint32'], return: 'int32' } as const;
  mkfifo ??= loadFfi().dlopen(null, { mkfifo: types }).functions.mkfifo;
  if (mkfifo(path, mode) !== 0) throw new Error(`the named pipe ${path} could not be created`);
}
