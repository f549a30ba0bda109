/**
 * The C library, called in-process: a launch makes about twenty system calls that Node does not offer. Starting a
 * program for each would cost more than all of them together.
 */
import { getSystemErrorName } from 'node:util';
import koffi, { type LibraryHandle } from 'koffi';

const library = koffi.load('libc.so.6');

/** Binds a function of the C library by its C prototype. */
export function bindLibc(prototype: string): ReturnType<LibraryHandle['func']> {
  return library.func(prototype);
}

/** A system call that failed; `code` is the name of its errno (`ENOSPC`), as in Node's own errors. */
export class SyscallError extends Error {
  readonly syscall: string;
  readonly code: string;

  constructor(syscall: string, errno: number, subject?: string) {
    const code = getSystemErrorName(-errno);
    super(`${syscall}${subject === undefined ? '' : ` ${subject}`} failed: ${code}`);
    this.name = 'SyscallError';
    this.syscall = syscall;
    this.code = code;
  }
}

/** Returns the result, or throws the error in errno when it is negative. Call it right after the function itself. */
export function checked(result: number, syscall: string, subject?: string): number {
  if (result < 0) throw new SyscallError(syscall, koffi.errno(), subject);
  return result;
}

/** Returns the code of a system error, whether Node or `checked` threw it. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
