/** A small client of Jupyter's kernel gateway. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { WebSocket } from 'ws';

// biome-ignore lint/suspicious/noExplicitAny: bodies are read field by field
type Json = any;

/** Longest wait for a message or a connection, in milliseconds. A test that waits longer would not say for what. */
const LONGEST_WAIT_MS = 120_000;

interface Answer {
  readonly status: number;
  readonly body: Json;
}

export interface KernelMessage {
  readonly channel: string;
  readonly header: { readonly msg_id: string; readonly msg_type: string };
  readonly parent_header: { readonly msg_id?: string };
  readonly metadata: Json;
  readonly content: Json;
  readonly buffers: readonly Buffer[];
}

export interface OpenOptions {
  readonly protocol?: string | undefined;
  readonly session?: string;
  /** Sends the key as a parameter and not as a header. */
  readonly inQuery?: boolean;
}

export class JupyterClient {
  readonly #url: string;
  readonly #apiKey: string;

  constructor(url: string, apiKey: string) {
    this.#url = `${url}/jupyter`;
    this.#apiKey = apiKey;
  }

  get = (path: string) => this.#call('GET', path);
  delete = (path: string) => this.#call('DELETE', path);
  post = (path: string, body: object) => this.#call('POST', path, body);
  patch = (path: string, body: object) => this.#call('PATCH', path, body);

  async open(kernelId: string, options: OpenOptions = {}): Promise<KernelChannels> {
    const socket = this.#dial(kernelId, options);
    const channels = new KernelChannels(socket, options.session ?? randomUUID());
    await once(socket, 'open');
    return channels;
  }

  /** Returns the status with which the channels of a kernel are refused. */
  async refusal(kernelId: string): Promise<number> {
    const socket = this.#dial(kernelId, {});
    socket.on('error', () => undefined);
    const [, response] = await once(socket, 'unexpected-response');
    response.resume();
    return response.statusCode;
  }

  #dial(kernelId: string, { protocol, session, inQuery }: OpenOptions): WebSocket {
    const query = new URLSearchParams({
      ...(session && { session_id: session }),
      ...(inQuery && { token: this.#apiKey }),
    });
    const url = `${this.#url.replace('http', 'ws')}/api/kernels/${kernelId}/channels?${query}`;
    const headers = inQuery ? {} : this.#headers();
    return new WebSocket(url, protocol ? [protocol] : [], { headers, handshakeTimeout: LONGEST_WAIT_MS });
  }

  #headers(): Record<string, string> {
    return this.#apiKey ? { authorization: `token ${this.#apiKey}` } : {};
  }

  async #call(method: string, path: string, body?: object): Promise<Answer> {
    const response = await fetch(this.#url + path, {
      method,
      headers: { ...this.#headers(), ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text && JSON.parse(text) };
  }
}

/** The outputs of a cell. */
export interface Executed {
  readonly reply: Json;
  readonly stdout: string;
  readonly result: Record<string, Json> | undefined;
  /** Types of its messages on the channel `iopub`. */
  readonly types: readonly string[];
}

export class KernelChannels {
  readonly messages: KernelMessage[] = [];
  readonly #socket: WebSocket;
  readonly #session: string;
  readonly #waiting = new Set<() => void>();

  constructor(socket: WebSocket, session: string) {
    this.#socket = socket;
    this.#session = session;
    socket.setMaxListeners(0);
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      this.messages.push(isBinary && this.protocol ? readOffsets(data) : JSON.parse(String(data)));
      for (const look of this.#waiting) look();
    });
    socket.on('error', () => undefined);
  }

  get protocol(): string {
    return this.#socket.protocol;
  }

  /** Sends a message and returns its id. */
  send(
    type: string,
    content: Json = {},
    channel = 'shell',
    { buffers = [], metadata = {} }: { readonly buffers?: readonly Buffer[]; readonly metadata?: object } = {},
  ): string {
    const id = randomUUID();
    const date = new Date().toISOString();
    const header = { msg_id: id, msg_type: type, session: this.#session, username: 'test', date, version: '5.4' };
    const message = { channel, header, parent_header: {}, metadata, content };
    this.#socket.send(this.protocol ? writeOffsets(message, buffers) : JSON.stringify(message));
    return id;
  }

  sendRaw(frame: string | Buffer): void {
    this.#socket.send(frame);
  }

  /** Resolves with a message that fits, once it has arrived. */
  received(fits: (message: KernelMessage) => boolean): Promise<KernelMessage> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = this.messages.find(fits);
        if (found) done(() => resolve(found));
      };
      const gone = (code = 1006) => done(() => reject(new Error(`the channels are closed with the code ${code}`)));
      const timer = setTimeout(() => {
        const last = this.messages
          .slice(-5)
          .map(({ header, content }) => `${header.msg_type} ${JSON.stringify(content)}`);
        done(() => reject(new Error(`no such message within ${LONGEST_WAIT_MS} ms; the last: ${last.join(', ')}`)));
      }, LONGEST_WAIT_MS);
      const done = (settle: () => void) => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        this.#socket.off('close', gone);
        settle();
      };
      this.#waiting.add(look);
      this.#socket.on('close', gone);
      look();
      if (this.#socket.readyState === WebSocket.CLOSED) gone();
    });
  }

  /** Returns the content of the reply to a request. */
  async ask(type: string, content: Json = {}, channel = 'shell'): Promise<Json> {
    const id = this.send(type, content, channel);
    const isReply = (message: KernelMessage) => message.channel === channel && message.parent_header.msg_id === id;
    return (await this.received(isReply)).content;
  }

  async execute(code: string, options: object = {}, metadata: object = {}): Promise<Executed> {
    const id = this.send('execute_request', { code, silent: false, ...options }, 'shell', { metadata });
    const ofCell = ({ parent_header }: KernelMessage) => parent_header.msg_id === id;
    const { content: reply } = await this.received((message) => ofCell(message) && message.channel === 'shell');
    if (reply.status !== 'aborted' && reply.ename !== 'Refused') {
      await this.received((message) => ofCell(message) && message.content.execution_state === 'idle');
    }
    const told = this.messages.filter((message) => ofCell(message) && message.channel === 'iopub');
    const ofType = (type: string) => told.filter(({ header }) => header.msg_type === type);
    return {
      reply,
      stdout: ofType('stream').reduce((text, { content }) => text + content.text, ''),
      result: ofType('execute_result')[0]?.content.data,
      types: told.map(({ header }) => header.msg_type),
    };
  }

  /** Resolves with true when the other side has closed the connection. */
  async closed(): Promise<boolean> {
    if (this.#socket.readyState !== WebSocket.CLOSED) await once(this.#socket, 'close');
    return true;
  }

  /** Ends the connection as a network does that breaks. */
  async cut(): Promise<void> {
    this.#socket.terminate();
    await this.closed();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cut();
  }
}

const OFFSET_BYTES = 8;

function writeOffsets({ channel, header, parent_header, metadata, content }: Json, buffers: readonly Buffer[]): Buffer {
  const json = [header, parent_header, metadata, content].map((part) => Buffer.from(JSON.stringify(part)));
  const parts = [Buffer.from(channel), ...json, ...buffers];
  const head = Buffer.alloc(OFFSET_BYTES * (parts.length + 2));
  head.writeBigUInt64LE(BigInt(parts.length + 1));
  const ends = parts.map((_, index) => Buffer.concat(parts.slice(0, index + 1)).length + head.length);
  for (const [index, offset] of [head.length, ...ends].entries()) {
    head.writeBigUInt64LE(BigInt(offset), OFFSET_BYTES * (index + 1));
  }
  return Buffer.concat([head, ...parts]);
}

function readOffsets(frame: Buffer): KernelMessage {
  const count = Number(frame.readBigUInt64LE());
  const offsets = Array.from({ length: count }, (_, index) =>
    Number(frame.readBigUInt64LE(OFFSET_BYTES * (index + 1))),
  );
  const [channel, header, parent, metadata, content, ...buffers] = offsets
    .slice(1)
    .map((end, index) => frame.subarray(offsets[index], end));
  const parse = (bytes: Buffer | undefined) => JSON.parse(String(bytes));
  const parts = {
    header: parse(header),
    parent_header: parse(parent),
    metadata: parse(metadata),
    content: parse(content),
  };
  return { channel: String(channel), ...parts, buffers };
}
