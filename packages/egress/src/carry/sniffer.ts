import type { Socket } from 'node:net';

const MAX_LINE_BYTES = 8 * 1024;
const MAX_TOKEN_BYTES = 64;
const TLS_HANDSHAKE = 0x16;
const SSL_MAJOR = 3;
const CLIENT_HELLO = 1;
const CR = 13;
const LF = 10;
const SPACE = 32;
const TAB = 9;

/** `raw` is all that neither HTTP nor TLS clients begin with. */
export type Protocol = 'tls' | 'http' | 'raw';

/**
 * What a client speaks, by its first bytes; undefined while they could yet become HTTP or TLS. As generous as the most
 * lenient server: what is taken for HTTP is read strictly later, but what is taken for raw is read by nobody.
 */
export function classify(bytes: Buffer): Protocol | undefined {
  const [first, second, third] = bytes;
  if (first === undefined) return undefined;
  if (first === TLS_HANDSHAKE) return second === undefined ? undefined : second === SSL_MAJOR ? 'tls' : 'raw';
  if (first >= 0x80) {
    // The greeting of SSL 2, which servers of today still take.
    return third === undefined ? undefined : third === CLIENT_HELLO ? 'tls' : 'raw';
  }
  if (first === CR || first === LF || first === SPACE || first === TAB) return 'http';
  return classifyText(bytes);
}

function classifyText(bytes: Buffer): Protocol | undefined {
  const tokenEnd = bytes.findIndex((byte) => !isTokenByte(byte));
  if (tokenEnd === -1) return bytes.length > MAX_TOKEN_BYTES ? 'raw' : undefined;
  if (tokenEnd === 0 || (bytes[tokenEnd] !== SPACE && bytes[tokenEnd] !== TAB)) return 'raw';

  const lineEnd = bytes.indexOf(LF);
  if (lineEnd === -1 && bytes.length < MAX_LINE_BYTES) return undefined;
  const line = bytes.subarray(0, lineEnd === -1 ? MAX_LINE_BYTES : lineEnd).toString('latin1');
  // HTTP/0.9 has no version; a line of the PROXY protocol has HTTP on the next one.
  return lineEnd === -1 || /HTTP\//i.test(line) || /^(?:GET|PROXY)\s/i.test(line) ? 'http' : 'raw';
}

/** RFC 9110, `tchar`. */
function isTokenByte(byte: number): boolean {
  return /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(byte));
}

/** Reads as much of a connection as it takes to tell what is spoken on it, and puts it back. */
export class Sniffer {
  /** Undefined when the client ended, or the sniffer was stopped, before it could be told. */
  readonly protocol: Promise<Protocol | undefined>;
  readonly #socket: Socket;
  readonly #resolve: (protocol: Protocol | undefined) => void;
  #bytes = Buffer.alloc(0);
  #isDone = false;

  constructor(socket: Socket) {
    const { promise, resolve } = Promise.withResolvers<Protocol | undefined>();
    this.protocol = promise;
    this.#resolve = resolve;
    this.#socket = socket;
    socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onEnd);
  }

  /** Leaves the rest to another reader. Idempotent. */
  stop(): void {
    this.#finish(undefined);
  }

  readonly #onData = (chunk: Buffer) => {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    const protocol = classify(this.#bytes);
    if (protocol) this.#finish(protocol);
  };

  readonly #onEnd = () => this.#finish(undefined);

  #finish(protocol: Protocol | undefined): void {
    if (this.#isDone) return;
    this.#isDone = true;
    const socket = this.#socket;
    socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onEnd);
    socket.pause();
    if (this.#bytes.length > 0 && !socket.readableEnded) socket.unshift(this.#bytes);
    this.#resolve(protocol);
  }
}
