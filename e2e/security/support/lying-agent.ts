/**
 * Agent under the control of an attacker who has become root of the sandbox. It starts like an honest agent and sends the
 * lie that the code of a run names. Its argument is the protocol version that it claims to support.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Sends a lie. `accept` answers the upgrade request, if it has not been answered yet. */
type Lie = (socket: Duplex, runId: string, accept: () => void) => void;

const protocolVersion = Number(process.argv.at(-1));
const accepted = 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: cloche-runs\r\n\r\n';
const json = (response: ServerResponse, body: object) => response.end(JSON.stringify(body));
const event = (runId: string, type: string, data: unknown) => `${JSON.stringify({ type, runId, data })}\n`;
const done = (runId: string) => event(runId, 'done', { executionCount: 1, durationMs: 1 });
/** Writes until the other side closes the connection. */
const flood = (socket: Duplex, chunk: string) => {
  const next = () => void socket.write(chunk, next);
  next();
};
/** Lie that follows a valid upgrade response. */
const inEvents =
  (tell: (socket: Duplex, runId: string) => void): Lie =>
  (socket, runId, accept) => {
    accept();
    tell(socket, runId);
  };
/** Lie in place of the upgrade response. */
const inAnswer =
  (text: string): Lie =>
  (socket) =>
    void socket.write(text);
const inAnswerWithoutEnd =
  (text: string, rest: string): Lie =>
  (socket) => {
    socket.write(text);
    flood(socket, rest);
  };
const lies: Record<string, Lie> = {
  truth: inEvents((socket, runId) => socket.write(event(runId, 'stdout', 'honest') + done(runId))),
  garbage: inEvents((socket) => socket.write('\u0000\u0001 no JSON at all\n')),
  'no HTTP': inAnswer('HELO sandbox\r\n\r\n'),
  'an event of no kind': inEvents((socket, runId) => socket.write(event(runId, 'secret', 1) + done(runId))),
  'a result of another run': inEvents((socket) =>
    socket.write(event('run_other', 'stdout', 'stolen') + done('run_other')),
  ),
  'a line of gigabytes': inEvents((socket) => flood(socket, 'x'.repeat(1 << 20))),
  'endless output': inEvents((socket, runId) => flood(socket, event(runId, 'stdout', 'x'.repeat(1 << 20)))),
  'endless headers': inAnswerWithoutEnd('HTTP/1.1 101 Switching Protocols\r\n', `x-lie: ${'x'.repeat(1 << 16)}\r\n`),
  'endless small headers': inAnswerWithoutEnd('HTTP/1.1 101 Switching Protocols\r\n', 'a: b\r\n'.repeat(1000)),
  'deep nesting': inEvents((socket, runId) =>
    socket.write(`{"type":"stdout","runId":"${runId}","data":${'['.repeat(1 << 20)}\n`),
  ),
  'a line of nothing but brackets': inEvents((socket) => socket.write(`${'['.repeat(60 << 20)}\n`)),
  'no end': inEvents((socket, runId) => socket.end(event(runId, 'stdout', 'half'))),
  'a broken connection': (socket) => socket.destroy(),
  'half of an answer': inAnswer(accepted.slice(0, 20)),
  'endless announcements': inAnswerWithoutEnd('', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(1000)),
  'another protocol': inAnswer('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n'),
  'a way elsewhere': inAnswer('HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\n\r\n'),
  'a number of executions that is none': inEvents((socket, runId) =>
    socket.write(event(runId, 'done', { executionCount: 1e300, durationMs: -1 })),
  ),
  'most of a line, and then nothing': inEvents((socket) => socket.write('x'.repeat(60 << 20))),
  'events without end': inEvents((socket, runId) => flood(socket, event(runId, 'stdout', '').repeat(1000))),
  'more after the end': inEvents((socket, runId) => {
    socket.write(event(runId, 'stdout', 'honest') + done(runId));
    flood(socket, event(runId, 'stdout', 'x'.repeat(1 << 16)));
  }),
  nothing: inEvents(() => {}),
};
/** Archives by the path of the directory: a link, a file below that link, and a device. */
const archives: Record<string, Buffer> = {
  '/link': tarOf('link', '2', '', '../elsewhere'),
  '/below-link': tarOf('link/file', '0', 'from the sandbox'),
  '/device': tarOf('disk', '4'),
};
function tarOf(name: string, flag: string, content = '', target = ''): Buffer {
  const header = Buffer.alloc(512);
  const size = content.length.toString(8).padStart(11, '0');
  const written = { 0: name, 100: '0000644', 108: '0000000', 116: '0000000', 124: size, 136: '00000000000' };
  const fields = { ...written, 156: flag, 157: target, 257: 'ustar\u000000', 329: '0000007', 337: '0000000' };
  for (const [at, text] of Object.entries(fields)) header.write(text, Number(at), 'latin1');
  const sum = header.reduce((total, byte) => total + byte, 8 * 0x20);
  header.write(`${sum.toString(8).padStart(6, '0')}\u0000 `, 148, 'latin1');
  return Buffer.concat([
    header,
    Buffer.alloc(content === '' ? 0 : 512, content.padEnd(512, '\u0000')),
    Buffer.alloc(1024),
  ]);
}

const server = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const [, resource, contextId] = (request.url ?? '').split('/');
  if (resource === 'health') return json(response, { status: 'ready', protocolVersion });
  if (request.method === 'PUT' && resource === 'contexts') return json(response, { contextId, ...JSON.parse(text) });
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://agent');
  const path = searchParams.get('path') ?? '';
  if (pathname === '/files/archive') return response.end(archives[path.replace(/\/\.$/, '')]);
  const folder = { type: 'directory', sizeBytes: 0, mode: 0o755, uid: 1000, gid: 1000, modifiedMs: 0 };
  if (pathname === '/files/stat') return json(response, { path, name: path.slice(1), ...folder });
  return response.writeHead(204).end();
});
server.on('upgrade', (_request, socket, head) => {
  let isAccepted = false;
  const accept = () => {
    if (!isAccepted) socket.write(accepted);
    isAccepted = true;
  };
  const told = (bytes: Buffer) => {
    const { runId, code } = JSON.parse(String(bytes));
    lies[code]?.(socket, runId, accept);
  };
  socket.on('data', told).on('end', () => socket.destroy());
  socket.on('error', () => {});
  if (head.length > 0) told(head);
});
server.listen({ fd: 3 });
