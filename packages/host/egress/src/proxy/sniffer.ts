import type { Socket } from 'node:net';

const MAX_LINE_BYTES = 8 * 1024;
const MAX_TOKEN_BYTES = 64;
/**
 * Record types of TLS: change_cipher_spec, alert, handshake, application_data, heartbeat. Some servers skip the
 * others.
 */
const TLS_RECORD_TYPES = { first: 0x14, last: 0x18 };
const CLIENT_HELLO = 1;
const HTTP2_SETTINGS = 4;
const SETTING_BYTES = 6;
const LF = 10;
/** Bytes that end a method in RFC 9112. */
const BLANKS = [0x20, 0x09];
/** Further bytes that end or precede a method for a server that splits at Unicode white space, as Python's does. */
const ODD_BLANKS = [0x0b, 0x0c, 0x0d, 0x1c, 0x1d, 0x1e, 0x1f, 0x85, 0xa0];
const LETTER = /[A-Za-z]/;

/** `raw` is traffic that neither an HTTP nor a TLS client begins with. */
export type Protocol = 'tls' | 'http' | 'raw';

/**
 * Returns the protocol that a client speaks, given its first bytes; undefined while they can still become HTTP or TLS.
 * Accepts what the most lenient server accepts: HTTP and TLS are parsed strictly later, but raw bytes are not parsed.
 */
export function classify(bytes: Buffer): Protocol | undefined {
  const [first, , third] = bytes;
  if (first === undefined) return undefined;
  if (first >= TLS_RECORD_TYPES.first && first <= TLS_RECORD_TYPES.last) return 'tls';
  if (first >= 0x80) {
    // The hello of SSL 2, which today's servers still accept.
    if (third === undefined) return undefined;
    if (third === CLIENT_HELLO) return 'tls';
  }
  if (first === LF || isBlank(first)) return 'http';
  return classifyText(bytes);
}

function classifyText(bytes: Buffer): Protocol | undefined {
  const tokenEnd = bytes.findIndex((byte) => !isTokenByte(byte));
  // A server may refuse a long method and keep the connection for the next request.
  if (tokenEnd === -1) return bytes.length > MAX_TOKEN_BYTES ? 'http' : undefined;
  const endsMethod = BLANKS.includes(bytes[tokenEnd] ?? 0) || isOddMethod(bytes, tokenEnd);
  if (tokenEnd === 0 || !endsMethod) return 'raw';

  const lineEnd = bytes.indexOf(LF);
  if (lineEnd === -1 && bytes.length < MAX_LINE_BYTES) return undefined;
  const line = bytes.subarray(0, lineEnd === -1 ? MAX_LINE_BYTES : lineEnd).toString('latin1');
  const isBareMethod = /^(?:GET|HEAD|POST|PROXY)$/i.test(bytes.toString('latin1', 0, tokenEnd));
  // HTTP/0.9 has no version. A line of the PROXY protocol is followed by HTTP on the next line.
  return lineEnd === -1 || /HTTP\//i.test(line) || isBareMethod ? 'http' : 'raw';
}

/**
 * Returns whether unusual white space ends a method. Only a letter begins one, because few binary protocols begin with
 * a letter: an LDAP message begins with `0` and a length that may equal unusual white space.
 */
function isOddMethod(bytes: Buffer, tokenEnd: number): boolean {
  return ODD_BLANKS.includes(bytes[tokenEnd] ?? 0) && LETTER.test(String.fromCharCode(bytes[0] ?? 0));
}

function isBlank(byte: number): boolean {
  return BLANKS.includes(byte) || ODD_BLANKS.includes(byte);
}

/** Returns whether a byte is a `tchar` of RFC 9110. */
function isTokenByte(byte: number): boolean {
  return /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(byte));
}

/**
 * Returns whether a server's greeting, sent before the client spoke, is HTTP or TLS. It can be HTTP/2 settings, which
 * HTTP/2 servers without TLS send at once, a response to a client that is too slow, or a TLS record.
 */
export function isHttpServer(greeting: Buffer): boolean {
  const [first = 0, , , fourth] = greeting;
  const isTls = first >= TLS_RECORD_TYPES.first && first <= TLS_RECORD_TYPES.last;
  const isSettings = first === 0 && fourth === HTTP2_SETTINGS && greeting.readUInt16BE(1) % SETTING_BYTES === 0;
  return isTls || isSettings || /^HTTP\//i.test(greeting.toString('latin1', 0, 5));
}

/** Reads the first bytes of a connection until its protocol is known, then puts them back. */
export class Sniffer {
  /** Undefined if the client ended, or the sniffer was stopped, before the protocol was known. */
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

  /** Stops reading, so that other code can read. Idempotent. */
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
