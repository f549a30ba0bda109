import koffi from 'koffi';
import { bindLibc, checked } from './libc.ts';

const socketpairCall = bindLibc('int socketpair(int family, int type, int protocol, _Out_ int *pair)');
const sendmsgCall = bindLibc('long sendmsg(int fd, const void *message, int flags)');

const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;

const HEADER_BYTES = 56;
const VECTOR_BYTES = 16;
const CONTROL_HEADER_BYTES = 16;

/** Opens two connected stream sockets; their receivers close them. */
export function openSocketPair(): [number, number] {
  const pair = [0, 0];
  checked(socketpairCall(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 'socketpair');
  const [one = -1, other = -1] = pair;
  return [one, other];
}

/**
 * Sends a short `text` and copies of descriptors in one message. Never blocks: throws `EAGAIN` when the receiver has
 * not read the earlier messages.
 */
export function sendDescriptors(socketFd: number, text: string, fds: readonly number[]): void {
  const bytes = Buffer.from(text);
  const vector = Buffer.alloc(VECTOR_BYTES);
  vector.writeBigUInt64LE(BigInt(koffi.address(bytes)), 0);
  vector.writeBigUInt64LE(BigInt(bytes.length), 8);

  const control = Buffer.alloc(CONTROL_HEADER_BYTES + Math.ceil(fds.length / 2) * 8);
  control.writeBigUInt64LE(BigInt(CONTROL_HEADER_BYTES + fds.length * 4), 0);
  control.writeInt32LE(SOL_SOCKET, 8);
  control.writeInt32LE(SCM_RIGHTS, 12);
  for (const [index, fd] of fds.entries()) control.writeInt32LE(fd, CONTROL_HEADER_BYTES + index * 4);

  const header = Buffer.alloc(HEADER_BYTES);
  header.writeBigUInt64LE(BigInt(koffi.address(vector)), 16);
  header.writeBigUInt64LE(1n, 24);
  if (fds.length > 0) {
    header.writeBigUInt64LE(BigInt(koffi.address(control)), 32);
    header.writeBigUInt64LE(BigInt(control.length), 40);
  }
  const sent = checked(Number(sendmsgCall(socketFd, header, MSG_DONTWAIT | MSG_NOSIGNAL)), 'sendmsg');
  if (sent !== bytes.length) throw new Error(`sendmsg took ${sent} of ${bytes.length} bytes`);
}
