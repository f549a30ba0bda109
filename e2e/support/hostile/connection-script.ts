/**
 * Scripts of hostile connections, made from a seed: pipelines of requests, valid ones and broken ones, in pieces, with
 * an end that leaves the other side in the middle of something. A script is plain data, so that a program inside a
 * sandbox can play it too.
 */
import type { Random } from '@cloche/testkit/fuzz';

/** A step of a connection. Bytes are Latin-1 text. */
export type Step =
  | { readonly do: 'send'; readonly bytes: string }
  /** Waits, in milliseconds. */
  | { readonly do: 'pause'; readonly ms: number }
  /** Waits for the first bytes of an answer, at most `ms`. */
  | { readonly do: 'await'; readonly ms: number }
  /** Ends the own side. The other side may go on. */
  | { readonly do: 'end' }
  | { readonly do: 'reset' }
  | { readonly do: 'close' };

export interface ConnectionScript {
  /** Whether the connection reads what it receives. One that does not makes the other side keep it. */
  readonly reads: boolean;
  readonly steps: readonly Step[];
}

/** A place that a connection can ask for. */
export interface Target {
  readonly method: string;
  readonly path: string;
  /** Lines of the head, each with its end, that make the request acceptable: host, key. */
  readonly fields: string;
  readonly body?: string;
}

const WEBSOCKET =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
const UPGRADES = [
  WEBSOCKET,
  WEBSOCKET,
  'Connection: Upgrade\r\nUpgrade: websocket\r\n',
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 99\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n',
  'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n',
  'Connection: Upgrade\r\nUpgrade: cloche-terminal\r\n',
] as const;
const AUTHORITIES = [
  'x',
  'denied.test:443',
  'allowed.test:443',
  '127.0.0.1:1',
  '[::1]:99999',
  'a b:1',
  '*:443',
] as const;
const METHODS = ['HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE', 'PATCH', 'M-SEARCH', 'PROPFIND'] as const;
const ODD_LINES = [
  'GET\r\n\r\n',
  'GET / HTTP/9.9\r\n\r\n',
  'GET http://other.example/ HTTP/1.1\r\nHost: x\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET / HTTP/1.0\r\n\r\n',
  'GET / HTTP/1.1\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc',
  'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
  'GET /\x80\xff HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET / HTTP/1.1\nHost: x\n\n',
  'GET / HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n',
  '\r\n\r\n\r\n',
  '\0\0\0\0',
] as const;
/** First bytes of HTTP/2, TLS 1.2, SSH and the PROXY protocol. */
const PREFACES = [
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0',
  '\x16\x03\x01\0\xa5\x01\0\0\xa1\x03\x03',
  'SSH-2.0-OpenSSH_9.2\r\n',
  'PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n',
] as const;
const CHUNKED = 'Transfer-Encoding: chunked\r\n';
const BROKEN_CHUNKS = [
  '-1\r\n',
  'fffffffffffffffff\r\n',
  'x\r\n',
  '3\r\nabcd\r\n',
  '5;a="\r\n',
  '2\r\nab',
  '',
] as const;
const MOST_REQUESTS = 40;
const MOST_PIECES = 8;
const MOST_PAUSE_MS = 20;
const AWAIT_MS = 200;

/** Makes the script of one connection to one of `targets`, or to several of them. */
export function connectionScript(random: Random, targets: readonly [Target, ...Target[]]): ConnectionScript {
  const bytes = random.chance(0.05) ? random.pick(PREFACES) : pipeline(random, targets);
  const steps = inPieces(random, bytes);
  if (random.chance(0.3)) steps.push(...afterTheAnswer(random));
  steps.push(...leaving(random));
  return { reads: random.chance(0.8), steps };
}

/** Returns one to forty requests. Most connections have few, and many have an upgrade or CONNECT at the end. */
function pipeline(random: Random, targets: readonly [Target, ...Target[]]): string {
  const count = random.chance(0.8) ? 1 + random.below(4) : 1 + random.below(MOST_REQUESTS);
  const requests = Array.from({ length: count }, () => request(random, random.pick(targets)));
  if (random.chance(0.4)) requests.push(switching(random, random.pick(targets)));
  if (random.chance(0.2)) requests.push(request(random, random.pick(targets)));
  const all = requests.join('');
  return random.chance(0.1) ? all.slice(0, random.below(all.length)) : all;
}

function request(random: Random, target: Target): string {
  const kind = random.next();
  if (kind < 0.35) return plain(target);
  if (kind < 0.5) return switching(random, target);
  if (kind < 0.6) return withBrokenBody(random, target);
  if (kind < 0.7) return withExpectation(random, target);
  if (kind < 0.8) return withOddHead(random, target);
  if (kind < 0.9) return plain({ ...target, method: random.pick(METHODS), body: random.chance(0.5) ? 'abc' : '' });
  return random.pick(ODD_LINES);
}

function plain({ method, path, fields, body = '' }: Target, more = ''): string {
  const length = body === '' ? '' : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  return `${method} ${path} HTTP/1.1\r\n${fields}${length}${more}\r\n${body}`;
}

/** Asks for another protocol, or for a tunnel. */
function switching(random: Random, target: Target): string {
  if (random.chance(0.25)) {
    const authority = random.pick(AUTHORITIES);
    return `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`;
  }
  const method = random.chance(0.8) ? 'GET' : random.pick(METHODS);
  return `${method} ${target.path} HTTP/1.1\r\n${target.fields}${random.pick(UPGRADES)}\r\n`;
}

function withBrokenBody(random: Random, { path, fields }: Target): string {
  const head = `POST ${path} HTTP/1.1\r\n${fields}Content-Type: application/json\r\n`;
  if (random.chance(0.3)) return `${head}Content-Length: ${1 + random.below(100_000)}\r\n\r\n{"a":`;
  return `${head}${CHUNKED}\r\n2\r\n{}\r\n${random.pick(BROKEN_CHUNKS)}`;
}

function withExpectation(random: Random, target: Target): string {
  const expected = random.pick(['100-continue', '100-continue, x', 'x'] as const);
  const body = random.chance(0.5) ? '{}' : '';
  const length = random.chance(0.5) ? body.length : 1_000_000;
  return `POST ${target.path} HTTP/1.1\r\n${target.fields}Expect: ${expected}\r\nContent-Length: ${length}\r\n\r\n${body}`;
}

function withOddHead(random: Random, target: Target): string {
  const odd = random.pick([
    `Authorization: Bearer${' '.repeat(1 + random.below(14_000))}\xff\r\n`,
    `X-Long: ${'x'.repeat(random.below(20_000))}\r\n`,
    'a: b\r\n'.repeat(1 + random.below(2_500)),
    'Content-Encoding: gzip\r\n',
    'Content-Type: multipart/form-data; boundary=x\r\n',
    `Cookie: ${'a=b; '.repeat(random.below(2_000))}\r\n`,
    'Range: bytes=0-,1-,2-,3-\r\n',
    'Connection: close\r\n',
    'Accept: text/event-stream\r\nLast-Event-ID: \xff\r\n',
    'Content-Digest: sha-256=:x:\r\n',
  ] as [string, ...string[]]);
  return plain(target, odd);
}

function inPieces(random: Random, bytes: string): Step[] {
  const steps: Step[] = [];
  const pieces = random.chance(0.6) ? 1 : 2 + random.below(MOST_PIECES);
  for (let at = 0, left = pieces; at < bytes.length; left -= 1) {
    const end = left <= 1 ? bytes.length : at + 1 + random.below(bytes.length - at);
    steps.push({ do: 'send', bytes: bytes.slice(at, end) });
    if (left > 1 && random.chance(0.5)) steps.push({ do: 'pause', ms: random.below(MOST_PAUSE_MS) });
    at = end;
  }
  return steps;
}

function afterTheAnswer(random: Random): Step[] {
  const more = random.pick([
    'x',
    '\r\n',
    '\x81\x85\0\0\0\0hello',
    '\x88\x80\0\0\0\0',
    'GET / HTTP/1.1\r\nHost: x\r\n\r\n',
  ]);
  return [
    { do: 'await', ms: AWAIT_MS },
    { do: 'send', bytes: more },
  ];
}

function leaving(random: Random): Step[] {
  const how = random.next();
  const pause: Step[] = random.chance(0.5) ? [{ do: 'pause', ms: random.below(MOST_PAUSE_MS) }] : [];
  if (how < 0.3) return [...pause, { do: 'reset' }];
  if (how < 0.5) return [...pause, { do: 'close' }];
  if (how < 0.8)
    return [...pause, { do: 'end' }, { do: 'pause', ms: random.below(10 * MOST_PAUSE_MS) }, { do: 'close' }];
  return [{ do: 'await', ms: AWAIT_MS }, ...pause, { do: 'close' }];
}
