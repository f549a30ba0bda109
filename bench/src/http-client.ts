import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';

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

/** HTTP client for both the subject and its peers: keep-alive connections, no retries, JSON. */
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

  /**
   * Returns a client that sends requests to the same service for another `Host`, without this client's other headers.
   */
  as(host: string): HttpClient {
    return new HttpClient(this.#target, { host });
  }

  /** Sends bytes unchanged. */
  async send(method: string, path: string, bytes: Buffer): Promise<void> {
    await this.call(method, path, bytes, { 'content-type': 'application/octet-stream' });
  }

  /** Reads a response to its end without keeping it, and returns its size in bytes. */
  async receive(path: string): Promise<number> {
    const response = await this.open('GET', path);
    let bytes = 0;
    for await (const chunk of response) bytes += chunk.length;
    if (response.statusCode !== 200) throw new Error(`GET ${path}: ${response.statusCode}`);
    return bytes;
  }

  /**
   * Reads the body of a response without keeping it, and returns its size in bytes. Uses a connection of its own that
   * reads into one buffer. This costs a quarter to a half of the processor time of a plain socket, and client and
   * service share the processors.
   */
  async drain(path: string): Promise<number> {
    let [head, bytes] = ['', 0];
    const memory = Buffer.allocUnsafeSlow(1024 * 1024);
    const callback = (length: number) => {
      bytes += length;
      if (head.includes('\r\n\r\n')) return true;
      head += memory.toString('latin1', 0, length);
      const end = head.indexOf('\r\n\r\n');
      if (end >= 0) bytes = head.length - end - 4;
      return true;
    };
    const { socketPath, host, port } = this.#target;
    const place = socketPath === undefined ? { host, port } : { path: socketPath };
    const socket = connect({ ...(place as { path: string }), onread: { buffer: memory, callback } });
    const fields = Object.entries({ host: 'x', ...this.#headers, connection: 'close' });
    socket.write(`GET ${path} HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`);
    socket.resume();
    await once(socket, 'close');
    const length = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1]);
    if (!head.startsWith('HTTP/1.1 200 ') || bytes !== length) throw new Error(`GET ${path}: ${head.slice(0, 100)}`);
    return bytes;
  }

  /** Resolves with the response before its body is read. */
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
