/** What the kernel knows of a connection and Node does not tell. */
import type { Socket } from 'node:net';
import koffi from 'koffi';

const getsockopt = koffi
  .load('libc.so.6')
  .func('int getsockopt(int fd, int level, int option, _Out_ uint8_t *value, _Inout_ uint32_t *length)');

const SOL_IP = 0;
const SO_ORIGINAL_DST = 80;
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;

export interface Endpoint {
  address: string;
  port: number;
}

/** Where a redirected connection was going. Undefined for one that was not redirected. */
export function originalDestination(socket: Socket): Endpoint | undefined {
  // struct sockaddr_in: family, port and address in network order, padding.
  const value = readOption(socket, SOL_IP, SO_ORIGINAL_DST, 16);
  return value && { address: value.subarray(4, 8).join('.'), port: value.readUInt16BE(2) };
}

/** The user of the process at the other end of a Unix socket, as it was when it connected. */
export function peerUid(socket: Socket): number | undefined {
  // struct ucred: pid, uid, gid.
  return readOption(socket, SOL_SOCKET, SO_PEERCRED, 12)?.readUInt32LE(4);
}

function readOption(socket: Socket, level: number, option: number, bytes: number): Buffer | undefined {
  // Node keeps the descriptor to itself, and every release so far has it here.
  const { _handle: handle } = socket as { _handle?: { fd?: number } | null };
  if (handle?.fd === undefined || handle.fd < 0) return undefined;
  const value = Buffer.alloc(bytes);
  return getsockopt(handle.fd, level, option, value, [bytes]) < 0 ? undefined : value;
}
