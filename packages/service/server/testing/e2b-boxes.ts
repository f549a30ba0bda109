/** Sandboxes that E2B's protocol creates and reaches. */

/** Ports at which E2B's clients expect the services of a sandbox. */
export const BOX = '49983';
export const INTERPRETER = '49999';
/** Longer than a test file takes on a busy machine. */
const LIFETIME_S = 3600;

export interface E2bBox {
  readonly sandboxId: string;
  readonly token: string;
}

export interface Call {
  readonly port: string;
  readonly method?: string;
  readonly path: string;
  readonly body?: object | undefined;
  /** Sends the body as the frame of a stream. */
  readonly inFrame?: boolean;
}

export class E2bBoxes {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  /** @param more further fields of the creation */
  async create(key: string, more: object = {}): Promise<E2bBox> {
    return this.#open(key, '/v2/sandboxes', { templateID: 'base', timeout: LIFETIME_S, ...more });
  }

  /** Opens a sandbox that exists with a key. */
  async connect(key: string, sandboxId: string): Promise<E2bBox> {
    return this.#open(key, `/v2/sandboxes/${sandboxId}/connect`, { timeout: 60 });
  }

  headers({ sandboxId, token }: E2bBox, port: string): Record<string, string> {
    return { 'e2b-sandbox-id': sandboxId, 'e2b-sandbox-port': port, 'x-access-token': token };
  }

  /** Calls a service of a sandbox. */
  call(box: E2bBox, { port, method = 'POST', path, body = {}, inFrame = false }: Call): Promise<Response> {
    const url = `${this.#url}/e2b-box${path}`;
    const headers = this.headers(box, port);
    if (method !== 'POST') return fetch(url, { method, headers });
    const type = inFrame ? 'application/connect+json' : 'application/json';
    const sent = new Uint8Array(inFrame ? frame(body) : Buffer.from(JSON.stringify(body)));
    return fetch(url, { method, headers: { ...headers, 'content-type': type }, body: sent });
  }

  async #open(key: string, path: string, body: object): Promise<E2bBox> {
    const response = await fetch(`${this.#url}/e2b${path}`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const { sandboxID: sandboxId, envdAccessToken: token, ...rest } = (await response.json()) as Record<string, string>;
    if (!sandboxId || !token) throw new Error(JSON.stringify(rest));
    return { sandboxId, token };
  }
}

/** A frame of Connect: flags, the length, and the message. */
function frame(message: object): Buffer {
  const text = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(text.length, 1);
  return Buffer.concat([head, text]);
}
