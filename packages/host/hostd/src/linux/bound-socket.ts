import { closeSync } from 'node:fs';
import { bindLibc, checked } from './libc.ts';

const bindCall = bindLibc('int bind(int fd, void *address, uint length)');

/**
 * Binds a socket to an address and returns its descriptor. Closes the socket if that fails.
 *
 * @param address a `sockaddr` of the socket's family
 * @param subject names the address in the error
 */
export function boundSocket(fd: number, address: Buffer, subject: string): number {
  try {
    checked(bindCall(fd, address, address.length), 'bind', subject);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}
