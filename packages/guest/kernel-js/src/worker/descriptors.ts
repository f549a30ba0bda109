import { DynamicLibrary } from 'node:ffi';

const F_DUPFD_CLOEXEC = 1030;

/**
 * Lowest new number: above those that opening files yields, and within a process's initial descriptor table. Growing
 * the table takes 10 ms.
 */
const OUT_OF_REACH = 60;

/** Moves a descriptor to a high number and marks it close-on-exec, so that no child inherits it. Returns the number. */
export function moveOutOfReach(fd: number): number {
  const libc = new DynamicLibrary(null);
  const fcntl = libc.getFunction('fcntl', { arguments: ['i32', 'i32', 'i32'], return: 'i32' });
  const close = libc.getFunction('close', { arguments: ['i32'], return: 'i32' });
  const moved = fcntl(fd, F_DUPFD_CLOEXEC, OUT_OF_REACH);
  if (moved < 0) throw new Error(`Descriptor ${fd} cannot be moved: is it open?`);
  close(fd);
  return moved;
}
