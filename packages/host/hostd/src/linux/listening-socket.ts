import { chmodSync, chownSync, closeSync } from 'node:fs';
import { bindLibc, checked } from './libc.ts';

const socketCall = bindLibc('int socket(int domain, int type, int protocol)');
const bindCall = bindLibc('int bind(int fd, void *address, uint length)');
const listenCall = bindLibc('int listen(int fd, int backlog)');

const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0o2000000;
const BACKLOG = 512;
/** Size of `sun_path` without its terminating zero. */
const MAX_PATH_BYTES = 107;

/**
 * Binds a listening Unix socket that only `owner` (and root) may connect to, and returns its descriptor, which the
 * caller closes. Not Node's own server: that unlinks the path when its handle closes, and this socket outlives hostd.
 */
export function openListeningSocket(path: string, owner: { uid: number; gid: number }): number {
  const pathBytes = Buffer.from(path);
  if (pathBytes.length > MAX_PATH_BYTES) {
    throw new Error(`the socket path ${path} is longer than ${MAX_PATH_BYTES} bytes: choose a shorter run directory`);
  }
  const fd = checked(socketCall(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), 'socket');
  try {
    const address = Buffer.alloc(2 + pathBytes.length + 1);
    address.writeUInt16LE(AF_UNIX, 0);
    pathBytes.copy(address, 2);
    checked(bindCall(fd, address, address.length), 'bind', path);
    // No client can connect before `listen` below, so the socket never accepts with other permissions.
    chmodSync(path, 0o600);
    chownSync(path, owner.uid, owner.gid);
    checked(listenCall(fd, BACKLOG), 'listen', path);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}
