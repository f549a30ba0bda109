/** Connections of a sandbox that are made to keep the gateway's thread, each with an honest one for the same work. */
import { encode } from 'dns-packet';
import type { ConnectionScript, Step } from './connection-script.ts';

/** The script of one connection, which `hostile-connections.py` plays in a sandbox. */
export interface TrafficScript extends ConnectionScript {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** Offered in the greeting of TLS. */
  readonly protocol?: string;
}

export interface HostileTraffic {
  readonly name: string;
  readonly hostile: readonly TrafficScript[];
  readonly honest: readonly TrafficScript[];
}

/** Time for an answer. */
const ANSWER_MS = 5_000;

/** Slightly below the gateway's limit of a head. */
const HEAD_BYTES = 60_000;
const HOST = 'Host: allowed.test\r\n';
const CLOSE = 'Connection: close\r\n';
const GET = `GET / HTTP/1.1\r\n${HOST}${CLOSE}\r\n`;
const CONNECT = 'CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n';
const POST = `POST / HTTP/1.1\r\n${HOST}${CLOSE}`;
const WHOLE_BODY = `${POST}Content-Length: 100000\r\n\r\n${'x'.repeat(100_000)}`;
const TINY_CHUNKS = `${POST}Transfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(100_000)}0\r\n\r\n`;

function to(port: number, bytes: string | Buffer, more: Partial<TrafficScript> = {}): TrafficScript {
  const text = typeof bytes === 'string' ? bytes : bytes.toString('latin1');
  const steps: Step[] = [
    { do: 'send', bytes: text },
    { do: 'await', ms: ANSWER_MS },
  ];
  return { host: 'allowed.test', port, tls: false, reads: true, steps, ...more };
}

const plain = (bytes: string) => [to(80, bytes)];
const secure = (bytes: string | Buffer, more: Partial<TrafficScript> = {}) => [to(443, bytes, { tls: true, ...more })];
const http2 = (...frames: Buffer[]) =>
  secure(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(0x4, 0, 0), ...frames]), {
    protocol: 'h2',
  });

/** Returns a frame of HTTP/2. */
function frame(type: number, flags: number, stream: number, body = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(body.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, body]);
}

/** Fields of `GET https://allowed.test/`, in HPACK. */
const FIELDS = Buffer.concat([
  Buffer.from([0x82, 0x87, 0x84, 0x41, 'allowed.test'.length]),
  Buffer.from('allowed.test'),
]);
const END_STREAM = 0x1;
const END_HEADERS = 0x4;
const stream = (id: number) => frame(0x1, END_STREAM | END_HEADERS, id, FIELDS);
const reset = (id: number) => frame(0x3, 0, id, Buffer.from([0, 0, 0, 8]));
const ping = frame(0x6, 0, 0, Buffer.alloc(8));
const many = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));

function question(name: string): Buffer {
  const query = encode({ type: 'query', id: 7, flags: 256, questions: [{ type: 'A', name }] });
  const length = Buffer.alloc(2);
  length.writeUInt16BE(query.length);
  return Buffer.concat([length, query]);
}

/**
 * Returns the traffic of a sandbox whose policy permits `allowed.test` and `*.wild.test`.
 *
 * @param connections scripts of traffic whose connections differ
 */
export function hostileTraffic(connections: number): HostileTraffic[] {
  return [
    { name: 'a pipeline', hostile: plain(`GET / HTTP/1.1\r\n${HOST}\r\n`.repeat(2_000)), honest: plain(GET) },
    {
      name: 'a pipeline to a denied host',
      hostile: plain('GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n'.repeat(2_000)),
      honest: plain(`GET / HTTP/1.1\r\nHost: denied.test\r\n${CLOSE}\r\n`),
    },
    { name: 'tunnels behind requests', hostile: plain((GET + CONNECT).repeat(500)), honest: plain(CONNECT + GET) },
    { name: 'tunnels in a tunnel', hostile: plain(CONNECT.repeat(1_000)), honest: plain(CONNECT + GET) },
    {
      name: 'a header of spaces',
      hostile: plain(`GET / HTTP/1.1\r\n${HOST}X: a${' '.repeat(HEAD_BYTES)}\xff\r\n${CLOSE}\r\n`),
      honest: plain(`GET / HTTP/1.1\r\n${HOST}X: ${'a'.repeat(1_000)}\r\n${CLOSE}\r\n`),
    },
    {
      name: 'many header fields',
      hostile: plain(`GET / HTTP/1.1\r\n${HOST}${'a: b\r\n'.repeat(HEAD_BYTES / 6)}${CLOSE}\r\n`),
      honest: plain(GET),
    },
    {
      name: 'a name of many labels',
      hostile: plain(`GET / HTTP/1.1\r\nHost: ${'a.'.repeat(HEAD_BYTES / 2)}test\r\n${CLOSE}\r\n`),
      honest: plain(GET),
    },
    { name: 'tiny chunks', hostile: plain(TINY_CHUNKS), honest: plain(WHOLE_BODY) },
    { name: 'tiny chunks in a tunnel', hostile: plain(CONNECT + TINY_CHUNKS), honest: plain(CONNECT + WHOLE_BODY) },
    {
      name: 'a greeting of TLS that goes on as garbage',
      hostile: [to(443, `\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03${'\xff'.repeat(HEAD_BYTES)}`)],
      honest: secure(GET),
    },
    {
      name: 'names without a certificate yet',
      hostile: many(connections, (index) => to(443, GET, { tls: true, host: `n${index}.wild.test` })),
      honest: secure(GET),
    },
    {
      name: 'placeholders of secrets',
      hostile: secure(
        `GET / HTTP/1.1\r\n${HOST}X: ${`clsec_${'0'.repeat(32)}`.repeat(HEAD_BYTES / 38)}\r\n${CLOSE}\r\n`,
      ),
      honest: secure(`GET / HTTP/1.1\r\n${HOST}X: clsec_${'0'.repeat(32)}\r\n${CLOSE}\r\n`),
    },
    {
      name: 'streams that are reset',
      hostile: http2(...many(2_000, (index) => Buffer.concat([stream(2 * index + 1), reset(2 * index + 1)]))),
      honest: http2(stream(1)),
    },
    { name: 'signs of life', hostile: http2(...many(20_000, () => ping)), honest: http2(ping, stream(1)) },
    {
      name: 'fields that do not end',
      hostile: http2(
        frame(0x1, END_STREAM, 1, FIELDS),
        ...many(60, () => frame(0x9, 0, 1, Buffer.alloc(16_000, '\x00\x01a\x01b'))),
      ),
      honest: http2(stream(1)),
    },
    {
      name: 'questions by DNS',
      hostile: [to(53, Buffer.concat(many(2_000, (index) => question(`q${index}.wild.test`))))],
      honest: [to(53, question('allowed.test'))],
    },
  ];
}
