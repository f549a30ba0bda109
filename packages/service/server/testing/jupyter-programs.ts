/**
 * The requests of three programs to a Jupyter server for one notebook, from the first to the last, taken from their
 * sources. Each function returns the statuses of its requests and the outputs of its cells.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { WebSocket } from 'ws';

/** A Jupyter server; `url` ends with a slash. */
export interface JupyterSite {
  readonly url: string;
  readonly token: string;
  /** Code that prints `out` and ends with the value 42, and code that fails. */
  readonly cell: string;
  readonly failing: string;
}

// biome-ignore lint/suspicious/noExplicitAny: bodies and messages are read field by field
type Json = any;
type Program = (site: JupyterSite) => Promise<string[]>;

const OFFSETS = 'v1.kernel.websocket.jupyter.org';

class Session {
  readonly seen: string[] = [];
  readonly #site: JupyterSite;

  constructor(site: JupyterSite) {
    this.#site = site;
  }

  /** Sends a request and notes its status. `ID` in the path is the kernel's or session's id. */
  async call(method: string, path: string, init: RequestInit = {}, id = 'ID'): Promise<Json> {
    const url = this.#site.url + path.replace('TOKEN', this.#site.token).replace('ID', id);
    const response = await fetch(url, { method, redirect: 'manual', ...init });
    this.seen.push(`${method} ${path.split('?', 1)[0]} ${response.status}`);
    const text = await response.text();
    return response.headers.get('content-type')?.includes('json') && text ? JSON.parse(text) : undefined;
  }

  async dial(path: string, protocols: string[], headers: Record<string, string> = {}): Promise<Channels> {
    const url = this.#site.url.replace('http', 'ws') + path.replace('TOKEN', this.#site.token);
    const socket = new WebSocket(url, protocols, { headers, maxPayload: 2 ** 24 });
    await once(socket, 'open');
    if (protocols.length > 0) this.seen.push(`WebSocket of ${socket.protocol}`);
    return new Channels(socket);
  }
}

class Channels {
  readonly socket: WebSocket;
  readonly #arrived: Json[] = [];
  #wake: () => void = () => undefined;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data: Buffer) => {
      this.#arrived.push(socket.protocol === OFFSETS ? partsOf(data) : JSON.parse(String(data)));
      this.#wake();
    });
  }

  /** Yields the messages of one request, as long as the loop runs. */
  async *answers(id: string): AsyncGenerator<Json> {
    for (;;) {
      const message = this.#arrived.shift();
      if (message === undefined) await new Promise<void>((resolve) => (this.#wake = resolve));
      else if (message.parent_header?.msg_id === id) yield message;
    }
  }
}

/** Returns what a cell shows, in the words of a notebook. */
function shown({ header, content }: Json): string[] {
  if (header.msg_type === 'stream') return [`${content.name} ${content.text}`];
  if (header.msg_type === 'execute_result') return [`value ${content.data['text/plain']}`];
  return header.msg_type === 'error' ? [`error ${content.ename}`] : [];
}

/** Open WebUI's code interpreter: the token as a parameter, no body, no subprotocol, headers without a date. */
const openWebUi: Program = async (site) => {
  const session = new Session(site);
  const type = { headers: { 'content-type': 'application/octet-stream' } };
  for (const code of [site.cell, site.failing]) {
    const { id } = await session.call('POST', 'api/kernels?token=TOKEN', type);
    const channels = await session.dial(`api/kernels/${id}/channels?token=TOKEN`, []);
    const header = { msg_id: randomUUID(), msg_type: 'execute_request', username: 'user', session: randomUUID() };
    const options = { silent: false, store_history: true, user_expressions: {}, allow_stdin: false };
    const content = { code, ...options, stop_on_error: true };
    const message = { header: { ...header, date: '', version: '5.3' }, parent_header: {}, metadata: {}, content };
    channels.socket.send(JSON.stringify({ ...message, channel: 'shell' }));
    for await (const answer of channels.answers(header.msg_id)) {
      session.seen.push(...shown(answer));
      // The program reads the type beside the header.
      if (answer.msg_type === 'status' && answer.content.execution_state === 'idle') break;
    }
    channels.socket.close();
    await session.call('DELETE', 'api/kernels/ID?token=TOKEN', {}, id);
  }
  return session.seen;
};

/** The Jupyter client of AutoGen 0.2 and AG2: buffers that are an object, and a cell ends with its error. */
const autoGen: Program = async (site) => {
  const session = new Session(site);
  const headers = { authorization: `token ${site.token}` };
  const { kernelspecs } = await session.call('GET', 'api/kernelspecs', { headers });
  if (!('python3' in kernelspecs)) throw new Error('there is no python3');
  const json = { ...headers, 'content-type': 'application/json' };
  const { id } = await session.call('POST', 'api/kernels', { headers: json, body: '{"name": "python3"}' });
  const channels = await session.dial(`api/kernels/${id}/channels`, [], headers);
  const own = randomUUID();
  const ask = (msg_type: string, content: object) => {
    const header = { username: 'autogen', version: '5.0', session: own, msg_id: randomUUID(), msg_type };
    const message = { header: { ...header, date: '2026-01-01T00:00:00.000001' }, parent_header: {}, metadata: {} };
    channels.socket.send(JSON.stringify({ ...message, channel: 'shell', content, buffers: {} }));
    return channels.answers(header.msg_id);
  };
  const ready = async () => {
    for await (const { msg_type } of ask('kernel_info_request', {})) if (msg_type === 'kernel_info_reply') break;
    session.seen.push('ready');
  };
  await ready();
  const options = { silent: false, store_history: true, user_expressions: {}, allow_stdin: false, stop_on_error: true };
  for (const code of [site.cell, site.failing]) {
    for await (const answer of ask('execute_request', { code, ...options })) {
      session.seen.push(...shown(answer));
      if (answer.msg_type === 'error' || answer.content.execution_state === 'idle') break;
    }
  }
  await session.call('POST', 'api/kernels/ID/restart', { headers }, id);
  await ready();
  const listed = await session.call('GET', 'api/kernels', { headers });
  if (!listed.some((each: Json) => each.id === id)) throw new Error('the kernel is not listed');
  await session.call('DELETE', 'api/kernels/ID', { headers }, id);
  channels.socket.close();
  return session.seen;
};

/**
 * VS Code with a server's URL and token: it looks for a hub and a login page without the token, then works as
 * `@jupyterlab/services` does. It makes a notebook on the server, and does without where the server has no files.
 */
const vsCode: Program = async (site) => {
  const session = new Session(site);
  const hub = { headers: { connection: 'keep-alive' } };
  await session.call('GET', 'hub/api', hub);
  await session.call('GET', 'tree?', hub);
  const headers = { authorization: `token ${site.token}` };
  const json = { ...headers, 'content-type': 'application/json' };
  await session.call('GET', 'api/kernels?1700000000000', { headers });
  const specs = await session.call('GET', 'api/kernelspecs?1700000000001', { headers });
  await session.call('GET', 'api/sessions?1700000000002', { headers });
  await session.call('POST', 'api/contents', { headers: json, body: '{"type":"notebook"}' });
  const path = `work-jvsc-${randomUUID()}.ipynb`;
  const body = { path, kernel: { name: specs.default }, name: path, type: 'notebook' };
  const opened = await session.call('POST', 'api/sessions', { headers: json, body: JSON.stringify(body) });
  const client = randomUUID();
  const kernel = opened.kernel.id;
  const url = `api/kernels/${kernel}/channels?session_id=${client}&token=TOKEN`;
  const channels = await session.dial(url, [OFFSETS]);
  const ask = (msg_type: string, content: object) => {
    const header = { msg_id: randomUUID(), msg_type, session: client, username: '', version: '5.2' };
    channels.socket.send(framed('shell', { ...header, date: new Date().toISOString() }, {}, {}, content));
    return channels.answers(header.msg_id);
  };
  const finish = async (msg_type: string, content: object) => {
    for await (const answer of ask(msg_type, content)) {
      session.seen.push(...shown(answer));
      if (answer.content.execution_state === 'idle') break;
    }
  };
  await finish('kernel_info_request', {});
  const cell = { silent: false, store_history: true, user_expressions: {}, allow_stdin: true, stop_on_error: true };
  await finish('execute_request', { code: site.cell, ...cell });
  await finish('execute_request', { code: site.failing, ...cell });
  await session.call('POST', 'api/kernels/ID/interrupt', { headers: json }, kernel);
  await session.call('GET', 'api/kernels/ID?1700000000003', { headers }, kernel);
  const renamed = JSON.stringify({ path: `new-${path}` });
  await session.call('PATCH', 'api/sessions/ID', { headers: json, body: renamed }, opened.id);
  await session.call('POST', 'api/kernels/ID/restart', { headers: json, body: '{}' }, kernel);
  await session.call('DELETE', 'api/sessions/ID', { headers: json }, opened.id);
  channels.socket.close();
  await session.call('GET', 'api/sessions/ID', { headers }, opened.id);
  return session.seen;
};

export const JUPYTER_PROGRAMS = { openWebUi, autoGen, vsCode } as const;

const OFFSET_BYTES = 8;

function framed(channel: string, ...parts: object[]): Buffer {
  const texts = [Buffer.from(channel), ...parts.map((part) => Buffer.from(JSON.stringify(part)))];
  const head = Buffer.alloc(OFFSET_BYTES * (texts.length + 2));
  let end = head.length;
  head.writeBigUInt64LE(BigInt(texts.length + 1));
  for (const [index, text] of [Buffer.alloc(0), ...texts].entries()) {
    end += text.length;
    head.writeBigUInt64LE(BigInt(end), OFFSET_BYTES * (index + 1));
  }
  return Buffer.concat([head, ...texts]);
}

function partsOf(frame: Buffer): Json {
  const count = Number(frame.readBigUInt64LE());
  const ends = Array.from({ length: count }, (_, at) => Number(frame.readBigUInt64LE(OFFSET_BYTES * (at + 1))));
  const texts = ends.slice(1).map((end, at) => frame.toString('utf8', ends[at], end));
  const [header, parent_header, , content] = texts.slice(1, PARTS).map((text) => JSON.parse(text));
  return { header, parent_header, content };
}
const PARTS = 5;
