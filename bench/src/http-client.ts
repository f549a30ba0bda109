import { Agent, type IncomingMessage, request } from 'node:http';

export interface Target {
  readonly host?: string;
  readonly port?: number;
  readonly socketPath?: string;
}

export interface Reply {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of several services
  readonly body: any;
}

/** One client for subject and peers alike: kept-alive connections, no retries, JSON. */
export class HttpClient {
  readonly #target: Target;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 256 });

  constructor(target: Target, headers: Readonly<Record<string, string>> = {}) {
    this.#target = target;
    this.#headers = headers;
  }

  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    const response = await this.open(method, path, body, headers);
    response.setEncoding('utf8');
    let text = '';
    for await (const chunk of response) text += chunk;
    const status = response.statusCode ?? 0;
    const isJson = response.headers['content-type']?.includes('json') ?? false;
    if (status >= 400) throw new Error(`${method} ${path}: ${status} ${text.slice(0, 300)}`);
    return { status, body: isJson && text !== '' ? JSON.parse(text) : text };
  }

  /** Sends bytes as they are. */
  async send(method: string, path: string, bytes: Buffer): Promise<void> {
    await this.call(method, path, bytes, { 'content-type': 'application/octet-stream' });
  }

  /** Reads an answer to its end, and keeps none of it. */
  async receive(path: string): Promise<number> {
    const response = await this.open('GET', path);
    let bytes = 0;
    for await (const chunk of response) bytes += chunk.length;
    if (response.statusCode !== 200) throw new Error(`GET ${path}: ${response.statusCode}`);
    return bytes;
  }

  /** The answer before its body. */
  open(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<IncomingMessage> {
    const payload = body === undefined || Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
    const own = {
      ...this.#headers,
      ...(payload && { 'content-type': 'application/json', 'content-length': String(payload.length) }),
      ...headers,
    };
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const sent = request({ ...this.#target, agent: this.#agent, method, path, headers: own }, resolve);
    sent.once('error', reject);
    sent.end(payload);
    return promise;
  }

  close(): void {
    this.#agent.destroy();
  }
}
