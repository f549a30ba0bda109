/**
 * First process of a sandbox under the control of an attacker: it starts the honest agent, and stands between it and
 * the server. With `LIE_SEED` in the environment that the server sets, it changes about a third of the answers: their
 * content by the schemas of the protocol, their order, time and number. `ANSWERS` is a constant of the build.
 */
import { spawn } from 'node:child_process';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { mutateBytes } from '../../../../packages/shared/testkit/src/mutations.ts';
import { Random } from '../../../../packages/shared/testkit/src/random.ts';
import type { AnswerSchema } from './answer-schemas.ts';
import { brokenMessage, FLOOD_BYTES, LyingLines } from './lie.ts';

declare const ANSWERS: readonly AnswerSchema[];

const INNER = '/tmp/honest-agent.sock';
/** Part of the answers that are lies. */
const LIES = 0.3;
const STATUSES = [100, 101, 199, 200, 204, 302, 304, 404, 409, 418, 500, 599, 999] as const;
const WAYS = [
  'message',
  'message',
  'message',
  'bytes',
  'nothing',
  'reset',
  'half',
  'status',
  'twice',
  'endless',
  'length',
  'interim',
  'slow',
  'head',
] as const;

let random: Random | undefined;

const child = spawn(process.execPath, ['/opt/cloche/agent.cjs'], {
  stdio: 'inherit',
  env: { ...process.env, CLOCHE_LISTEN_PATH: INNER },
});
child.on('exit', (code) => process.exit(code ?? 1));
process.on('SIGTERM', () => child.kill('SIGTERM'));

const schemaOf = ({ method, url }: IncomingMessage) =>
  ANSWERS.find(({ of }) => new RegExp(of).test(`${method} ${url}`));

function ask(asked: IncomingMessage) {
  const { method, url, rawHeaders } = asked;
  return request({ socketPath: INNER, method, path: url, headers: rawHeaders as unknown as string[], agent: false });
}

const server = createServer({ requestTimeout: 0, keepAliveTimeout: 3_600_000 }, onRequest);
server.on('checkContinue', onRequest);
server.on('clientError', (_error, socket) => socket.destroy());
server.on('upgrade', onUpgrade);
server.listen({ fd: Number(process.env.CLOCHE_LISTEN_FD) });

async function onRequest(asked: IncomingMessage, response: ServerResponse): Promise<void> {
  response.on('error', () => undefined);
  if (asked.method === 'PUT' && asked.url === '/environment') return setEnvironment(asked, response);
  const lies = random?.chance(LIES) ?? false;
  if (lies && random?.chance(0.05)) return tooEarly(response);
  const forwarded = ask(asked).on('error', () => response.destroy());
  forwarded.on('continue', () => response.writeContinue());
  asked.on('error', () => forwarded.destroy()).pipe(forwarded);
  response.once('close', () => forwarded.destroy());
  forwarded.on('response', (answer) => {
    answer.on('error', () => response.destroy());
    if (!random || !lies) return void answer.pipe(response.writeHead(answer.statusCode ?? 0, answer.rawHeaders));
    const known = schemaOf(asked);
    if (known?.isLines && random.chance(0.7)) lieInLines(answer, response, known);
    else void lieInAnswer(answer, response, known).catch(() => response.destroy());
  });
}

async function setEnvironment(asked: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await buffer(asked);
  const seed = JSON.parse(String(body)).env?.LIE_SEED;
  const forwarded = ask(asked).on('error', () => response.destroy());
  forwarded.on('response', (answer) => answer.pipe(response.writeHead(answer.statusCode ?? 0, answer.rawHeaders)));
  forwarded.end(body);
  // From the next request on.
  if (seed !== undefined) random = new Random(Number(seed));
}

/** Answers before the request has been read. */
function tooEarly(response: ServerResponse): void {
  response.socket?.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
}

function lieInLines(answer: IncomingMessage, response: ServerResponse, { schema }: AnswerSchema): void {
  const lines = new LyingLines(random as Random, schema);
  response.writeHead(answer.statusCode ?? 0, { 'content-type': 'application/x-ndjson' });
  send(answer, response, lines);
  answer.once('end', () => (random?.chance(0.1) ? flood(response, '{}\n') : response.end()));
}

function send(from: IncomingMessage | Duplex, to: ServerResponse | Duplex, lines: LyingLines): void {
  from.on('data', (piece: Buffer) => {
    const { text, ending } = lines.of(piece);
    if (text !== '') to.write(text, 'latin1');
    if (ending === undefined) return;
    from.removeAllListeners('data').resume();
    if (ending === 'end') to.end();
    else if (ending === 'reset') to.destroy();
    else flood(to, text.slice(0, 1000) || '\n');
  });
}

/** Writes for ever, at the pace of the other side, up to `FLOOD_BYTES`. */
function flood(to: ServerResponse | Duplex, text: string): void {
  const piece = text.repeat(Math.ceil(65_536 / text.length));
  let left = FLOOD_BYTES / piece.length;
  const next = () => {
    if (left-- > 0 && !to.destroyed) to.write(piece, next);
  };
  next();
}

async function lieInAnswer(answer: IncomingMessage, response: ServerResponse, known?: AnswerSchema): Promise<void> {
  const lying = random as Random;
  const body = (await buffer(answer)).subarray(0, 2 ** 20);
  const { socket } = response;
  if (!socket) return;
  const head = (length: number, status = answer.statusCode ?? 0) =>
    `HTTP/1.1 ${status} X\r\ncontent-type: ${answer.headers['content-type'] ?? 'application/json'}\r\ncontent-length: ${length}\r\n`;
  const whole = (text: Buffer | string, status?: number) =>
    Buffer.concat([Buffer.from(`${head(Buffer.byteLength(text), status)}\r\n`), Buffer.from(text)]);
  const honest = whole(body);
  const way = lying.pick(WAYS);
  switch (way) {
    case 'message':
      return void socket.write(
        whole(Buffer.from(brokenMessage(lying, body.toString('latin1'), known?.schema), 'latin1')),
      );
    case 'bytes':
      return void socket.write(mutateBytes(lying, honest));
    case 'nothing':
      return;
    case 'reset':
      return void socket.destroy();
    case 'half':
      return void socket.end(honest.subarray(0, lying.below(honest.length)));
    case 'status':
      return void socket.write(whole(body, lying.pick(STATUSES)));
    case 'twice':
      return void socket.write(Buffer.concat([honest, honest]));
    case 'endless':
      socket.write(`HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\r\n`);
      return flood(socket, lying.pick(['x', '[', '{"a":', '\n', 'HTTP/1.1 200 X\r\n\r\n']));
    case 'length':
      socket.write(`${head(body.length + lying.below(1000) - 500)}\r\n`);
      return void socket.write(body);
    case 'interim':
      return void socket.write(
        Buffer.concat([...Array(1 + lying.below(200)).fill(Buffer.from('HTTP/1.1 103 Early\r\n\r\n')), honest]),
      );
    case 'slow':
      for (const byte of honest.subarray(0, 2000)) {
        socket.write(Buffer.of(byte));
        await new Promise((resolve) => setImmediate(resolve));
      }
      return void socket.write(honest.subarray(2000));
    case 'head':
      return void socket.write(
        `${head(body.length)}x: ${'y'.repeat(lying.below(200_000))}\r\n\r\n${body.toString('latin1')}`,
      );
  }
}

function onUpgrade(asked: IncomingMessage, socket: Duplex, head: Buffer): void {
  socket.on('error', () => undefined);
  const lies = random?.chance(LIES) ?? false;
  if (lies && random?.chance(0.2)) return void socket.end(refusals(random as Random));
  const forwarded = ask(asked).on('error', () => socket.destroy());
  forwarded.on('response', (answer) => {
    socket.write(`HTTP/1.1 ${answer.statusCode} X\r\ncontent-length: ${answer.headers['content-length'] ?? 0}\r\n\r\n`);
    answer.pipe(socket);
  });
  forwarded.on('upgrade', (answer, inner, innerHead) => {
    inner.on('error', () => socket.destroy()).once('close', () => socket.destroy());
    socket.once('close', () => inner.destroy());
    const fields = answer.rawHeaders.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${fields}\r\n`);
    if (head.length > 0) inner.write(head);
    socket.pipe(inner);
    if (innerHead.length > 0) inner.unshift(innerHead);
    if (random && lies) lieInUpgrade(inner, socket, asked);
    else inner.pipe(socket);
  });
  forwarded.end();
}

function refusals(lying: Random): string {
  return lying.pick([
    '',
    'HTTP/1.1 101 X\r\n\r\n',
    'HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n',
    'HTTP/1.1 409 X\r\ncontent-length: 40\r\n\r\n{"error":{"code":"conflict","message":1}}',
    `HTTP/1.1 404 X\r\ncontent-length: 1000000\r\n\r\n{"error"`,
    'garbage\r\n\r\n',
  ]);
}

function lieInUpgrade(inner: Duplex, socket: Duplex, asked: IncomingMessage): void {
  const lying = random as Random;
  const known = schemaOf(asked);
  if (known) {
    send(inner, socket, new LyingLines(lying, known.schema));
    return;
  }
  inner.on('data', (piece: Buffer) => {
    if (lying.chance(0.1)) socket.destroy();
    else if (lying.chance(0.05)) flood(socket, 'O\0\0\0\x01x');
    else socket.write(lying.chance(0.3) ? mutateBytes(lying, piece) : piece);
  });
}
