/**
 * An agent in the hands of an attacker who has become root of the sandbox. It gets ready like an honest one and tells
 * the lie that the code of a run names. Its argument is the version of the protocol that it claims to speak.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** `accept` answers the request to upgrade, where that has not been answered yet. */
type Lie = (socket: Duplex, runId: string, accept: () => void) => void;

const protocolVersion = Number(process.argv.at(-1));
const accepted = 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: cloche-runs\r\n\r\n';
const json = (response: ServerResponse, body: object) => response.end(JSON.stringify(body));
const event = (runId: string, type: string, data: unknown) => `${JSON.stringify({ type, runId, data })}\n`;
const done = (runId: string) => event(runId, 'done', { executionCount: 1, durationMs: 1 });
/** Writes on until the other side has had enough. */
const flood = (socket: Duplex, chunk: string) => {
  const next = () => void socket.write(chunk, next);
  next();
};
/** A lie that is told in an answer as the protocol has it. */
const inEvents =
  (tell: (socket: Duplex, runId: string) => void): Lie =>
  (socket, runId, accept) => {
    accept();
    tell(socket, runId);
  };
/** A lie that is told in place of that answer. */
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
const server = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const [, resource, contextId] = (request.url ?? '').split('/');
  if (resource === 'health') return json(response, { status: 'ready', protocolVersion });
  if (request.method === 'PUT' && resource === 'contexts') return json(response, { contextId, ...JSON.parse(text) });
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
