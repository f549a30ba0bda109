/**
 * Servers of a test internet, started in its network namespace with an `InternetHost` as JSON. They record the traffic
 * that reached them: `GET /seen` on port 8000 returns it.
 */

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import { createServer as createSecureServer } from 'node:https';
import { connect, createServer as createTcpServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { decode, encode, streamDecode, streamEncode } from 'dns-packet';

export interface InternetHost {
  /** Address at which the `httpPorts` answer. */
  httpAddress: string;
  httpPorts: readonly number[];
  /** Addresses that answer datagrams. */
  addresses: readonly string[];
  /** Addresses that answer DNS on port 53. */
  resolvers: readonly string[];
  /**
   * Addresses of each name, which may have an asterisk as its first label. Each query is answered with the next
   * address.
   */
  names: Readonly<Record<string, readonly string[]>>;
  tls?: { certFile: string; keyFile: string; unknownCertFile: string };
}

const DNS_OVER_TLS_PORT = 853;
const RAW_PORT = 7000;
const DATAGRAM_PORTS = [RAW_PORT, 123, 443, 4433];
/** Packet of a server in QUIC version 1, with arbitrary content. */
const QUIC_PACKET = Buffer.concat([Buffer.from('c300000001', 'hex'), Buffer.from('reached')]);
const UNTRUSTED_PORT = 8443;
const LENIENT_PORT = 8002;
const CLEAR_HTTP2_PORT = 8003;
const LENIENT_TLS_PORT = 8444;
const TLS_HANDSHAKE = 0x16;
const RECORD_HEAD_BYTES = 5;

export interface Seen {
  requests: string[];
  /** Hosts and values of `Authorization` fields. */
  authorizations: string[];
  questions: string[];
  raw: number;
  datagrams: number;
  /** Open requests for `/hold`, which are never answered. */
  held: number;
  /** The words `tag-…` in first packets of QUIC, of any version. */
  quic: string[];
}

const host: InternetHost = JSON.parse(process.argv[2] ?? '{}');
const seen: Seen = { requests: [], authorizations: [], questions: [], raw: 0, datagrams: 0, held: 0, quic: [] };
const turns = new Map<string, number>();

const answer: RequestListener = (request, response) => {
  const url = new URL(request.url ?? '/', 'http://whoever');
  if (url.pathname === '/seen') return void response.end(JSON.stringify(seen));
  if (url.pathname === '/hold') {
    seen.held += 1;
    return void response.once('close', () => void seen.held--);
  }
  seen.requests.push(`${request.method} ${request.headers.host} ${request.url}`);
  const { authorization } = request.headers;
  if (authorization !== undefined) seen.authorizations.push(`${request.headers.host} ${authorization}`);
  if (url.pathname.startsWith('/private/') && authorization === undefined) {
    return void response.writeHead(401, { 'www-authenticate': 'Basic realm="private"' }).end();
  }
  if (url.pathname === '/echo')
    return void response.writeHead(200, { 'x-echo': authorization ?? '' }).end(authorization);
  const question = url.searchParams.get('dns');
  if (question) return void response.end(resolve(Buffer.from(question, 'base64url')));
  const mebibytes = Number(url.searchParams.get('mebibytes'));
  if (mebibytes > 0) return void response.end(Buffer.alloc(mebibytes * 1024 * 1024));
  const to = url.searchParams.get('to');
  if (to) return void response.writeHead(302, { location: to }).end();
  response.end(`reached ${request.headers.host} at ${request.socket.localAddress}`);
};

function listen(server: Server | ReturnType<typeof createTcpServer>, port: number): Promise<unknown> {
  server.listen(port, host.httpAddress);
  return once(server, 'listening');
}

function web(server: Server): Server {
  // Node removes its own listener from connections that leave HTTP.
  server.on('connection', (socket: Socket) => socket.on('error', () => {}));
  server.on('secureConnection', (socket: Socket) => socket.on('error', () => {}));
  server.on('upgrade', (request: IncomingMessage, socket: Socket) => {
    const { host: name, authorization } = request.headers;
    seen.requests.push(`UPGRADE ${name} ${request.url}`);
    if (authorization !== undefined) seen.authorizations.push(`${name} ${authorization}`);
    const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash('sha1').update(key).digest('base64');
    const head = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade';
    // A single text frame that contains `reached`.
    socket.end(`${head}\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n\x81\x07reached`);
  });
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    seen.requests.push(`CONNECT ${request.url}`);
    // Tunnels every CONNECT to this server, whatever its target.
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    server.emit('connection', socket);
  });
  return server;
}

function resolve(message: Buffer): Buffer {
  const query = decode(message);
  const [question] = query.questions ?? [];
  const name = question?.name.toLowerCase() ?? '';
  seen.questions.push(name);
  const known = host.names[name] ?? host.names[name.replace(/^[^.]+/, '*')];
  const turn = turns.get(name) ?? 0;
  if (question?.type === 'A') turns.set(name, turn + 1);
  const address = question?.type === 'A' ? known?.[turn % known.length] : undefined;
  return encode({
    type: 'response',
    id: query.id ?? 0,
    // Response code: 0 is success, 3 is NXDOMAIN.
    flags: known ? 0 : 3,
    questions: query.questions ?? [],
    answers: address ? [{ type: 'A', name: question?.name ?? '', ttl: 1, data: address }] : [],
  });
}

/**
 * Returns the name, in `seen`, of a message that no sandbox may send to an operator's resolver; undefined for a plain
 * question.
 */
function strangeness(message: Buffer): string | undefined {
  const opcode = ((message[2] ?? 0) >> 3) & 0xf;
  if (opcode !== 0) return `opcode ${opcode}`;
  try {
    const type = decode(message).questions?.[0]?.type;
    return type === 'AXFR' || type === 'IXFR' ? type : undefined;
  } catch {
    return 'garbage';
  }
}

/** Returns whether a query is for a name that is never answered. */
function isHeld(message: Buffer): boolean {
  return decode(message).questions?.[0]?.name.endsWith('.hold.test') ?? false;
}

function answerQuestion(socket: Socket): void {
  socket
    .on('error', () => {})
    .once('data', (data: Buffer) => {
      const query = streamDecode(data);
      socket.end(query && streamEncode(decode(resolve(encode(query)))));
    });
}

/** Records the tag of a first packet of QUIC: a header, then the tag and a space. Returns whether it is one. */
function noteTag(message: Buffer): boolean {
  const [, tag] = /^[^x].{8,20} (tag-\S+)/s.exec(message.toString('latin1')) ?? [];
  if (tag) seen.quic.push(tag);
  return tag !== undefined;
}

async function serveNames(address: string): Promise<void> {
  const datagrams = createSocket('udp4');
  datagrams.on('message', (message, from) => {
    if (noteTag(message)) return;
    const kind = strangeness(message);
    if (kind) return void seen.questions.push(kind);
    const answer = resolve(message);
    if (!isHeld(message)) datagrams.send(answer, from.port, from.address);
  });
  datagrams.bind(53, address);
  const connections = createTcpServer(answerQuestion);
  connections.listen(53, address);
  await Promise.all([once(datagrams, 'listening'), once(connections, 'listening')]);
}

async function serveDatagrams(address: string, port: number): Promise<void> {
  const datagrams = createSocket('udp4');
  datagrams.on('message', (message, from) => {
    seen.datagrams += 1;
    noteTag(message);
    const isAskedForQuic = message.toString('latin1') === 'answer with QUIC';
    datagrams.send(isAskedForQuic ? QUIC_PACKET : 'reached', from.port, from.address);
  });
  datagrams.bind(port, address);
  await once(datagrams, 'listening');
}

/** Runs Python's HTTP server, which is lenient about how the request line is split. It ends with its standard input. */
async function serveLeniently(): Promise<void> {
  const program = `
import http.server, sys, threading
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"reached")
server = http.server.ThreadingHTTPServer(("0.0.0.0", ${LENIENT_PORT}), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("listening", flush=True)
sys.stdin.read()`;
  const python = spawn('python3', ['-c', program], { stdio: ['pipe', 'pipe', 'ignore'] });
  await once(python.stdout, 'data');
}

/** Skips records of other types before the first handshake, as the servers of Go and BoringSSL skip alerts. */
function serveTlsLeniently(): ReturnType<typeof createTcpServer> {
  return createTcpServer((client) => {
    client.on('error', () => {});
    let bytes = Buffer.alloc(0);
    const onData = (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      while (bytes.length >= RECORD_HEAD_BYTES && bytes[0] !== TLS_HANDSHAKE) {
        bytes = bytes.subarray(RECORD_HEAD_BYTES + bytes.readUInt16BE(3));
      }
      if (bytes[0] !== TLS_HANDSHAKE) return;
      client.off('data', onData).unshift(bytes);
      const server = connect(443, '127.0.0.1').on('error', () => client.destroy());
      client.pipe(server).pipe(client);
    };
    client.on('data', onData);
  });
}

await Promise.all(host.httpPorts.map((port) => listen(web(createServer(answer)), port)));
await Promise.all(host.resolvers.map(serveNames));
const datagramServers = host.addresses.flatMap((address) =>
  DATAGRAM_PORTS.map((port) => serveDatagrams(address, port)),
);
await Promise.all(datagramServers);
if (host.resolvers.length > 0) {
  const raw = createTcpServer((socket) => {
    seen.raw += 1;
    socket.on('error', () => {}).end('reached');
  });
  await listen(raw, RAW_PORT);
  await serveLeniently();
  const http2 = createHttp2Server((_request, response) => void response.end('reached'));
  http2.listen(CLEAR_HTTP2_PORT, host.httpAddress);
  await once(http2, 'listening');
}
if (host.tls) {
  const [cert, unknown, key] = [host.tls.certFile, host.tls.unknownCertFile, host.tls.keyFile].map((file) =>
    readFileSync(file),
  );
  await listen(web(createSecureServer({ cert, key }, answer)), 443);
  await listen(createTlsServer({ cert, key }, answerQuestion), DNS_OVER_TLS_PORT);
  await listen(serveTlsLeniently(), LENIENT_TLS_PORT);
  await listen(createSecureServer({ cert: unknown, key }, answer), UNTRUSTED_PORT);
}
console.log('listening');
