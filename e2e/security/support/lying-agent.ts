/**
 * An agent in the hands of an attacker who has become root of the sandbox. It gets ready like an honest one and tells
 * the lie that the code of a run names. Its argument is the version of the protocol that it claims to speak.
 */
import { createServer, type ServerResponse } from 'node:http';

type Lie = (response: ServerResponse, runId: string) => void;

const protocolVersion = Number(process.argv.at(-1));
const json = (response: ServerResponse, body: object) => response.end(JSON.stringify(body));
const event = (runId: string, type: string, data: unknown) => `${JSON.stringify({ type, runId, data })}\n`;
const done = (runId: string) => event(runId, 'done', { executionCount: 1, durationMs: 1 });
/** Writes on until the other side has had enough. */
const flood = (write: (chunk: string, sent: () => void) => unknown, chunk: string) => {
  const next = () => void write(chunk, next);
  next();
};
const lies: Record<string, Lie> = {
  truth: (response, runId) => response.end(event(runId, 'stdout', 'honest') + done(runId)),
  garbage: (response) => response.end('\u0000\u0001 no JSON at all\n'),
  'no HTTP': (response) => response.socket?.end('HELO sandbox\r\n\r\n'),
  'an event of no kind': (response, runId) => response.end(event(runId, 'secret', 1) + done(runId)),
  'a result of another run': (response) => response.end(event('run_other', 'stdout', 'stolen') + done('run_other')),
  'a line of gigabytes': (response) => flood((chunk, sent) => response.write(chunk, sent), 'x'.repeat(1 << 20)),
  'endless output': (response, runId) =>
    flood((chunk, sent) => response.write(chunk, sent), event(runId, 'stdout', 'x'.repeat(1 << 20))),
  'endless headers': (response) => {
    response.socket?.write('HTTP/1.1 200 OK\r\n');
    flood((chunk, sent) => response.socket?.write(chunk, sent), `x-lie: ${'x'.repeat(1 << 16)}\r\n`);
  },
  'endless small headers': (response) => {
    response.socket?.write('HTTP/1.1 200 OK\r\n');
    flood((chunk, sent) => response.socket?.write(chunk, sent), 'a: b\r\n'.repeat(1000));
  },
  'deep nesting': (response, runId) =>
    response.end(`{"type":"stdout","runId":"${runId}","data":${'['.repeat(1 << 20)}\n`),
  'a line of nothing but brackets': (response) => response.end(`${'['.repeat(60 << 20)}\n`),
  'no end': (response, runId) => response.end(event(runId, 'stdout', 'half')),
  'a broken connection': (response) => response.socket?.destroy(),
  'endless announcements': (response) =>
    flood((chunk, sent) => response.socket?.write(chunk, sent), 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(1000)),
  'endless chunk extensions': (response) => {
    response.socket?.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;');
    flood((chunk, sent) => response.socket?.write(chunk, sent), 'x'.repeat(1 << 16));
  },
  'another protocol': (response) => response.socket?.write('HTTP/1.1 101 Switching\r\nconnection: upgrade\r\n\r\n'),
  'a way elsewhere': (response) => response.writeHead(302, { location: 'http://127.0.0.1/' }).end(),
  'a length that is none': (response) =>
    response.socket?.write('HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n{'),
  'a number of executions that is none': (response, runId) =>
    response.end(event(runId, 'done', { executionCount: 1e300, durationMs: -1 })),
  'most of a line, and then nothing': (response) => response.write('x'.repeat(60 << 20)),
  'events without end': (response, runId) =>
    flood((chunk, sent) => response.write(chunk, sent), event(runId, 'stdout', '').repeat(1000)),
  'more after the end': (response, runId) => {
    response.write(event(runId, 'stdout', 'honest') + done(runId));
    flood((chunk, sent) => response.write(chunk, sent), event(runId, 'stdout', 'x'.repeat(1 << 16)));
  },
  nothing: () => {},
};
createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const [, resource, contextId, action] = (request.url ?? '').split('/');
  if (resource === 'health') return json(response, { status: 'ready', protocolVersion });
  if (action === 'runs') {
    const { runId, code } = JSON.parse(text);
    return lies[code]?.(response, runId);
  }
  if (request.method === 'PUT' && resource === 'contexts') return json(response, { contextId, ...JSON.parse(text) });
  return response.writeHead(204).end();
}).listen({ fd: 3 });
