import { request } from 'node:http';

export type SocketAnswer = { status: number; body: unknown };

/**
 * Sends one request over a Unix socket, with `body` as JSON.
 * @throws Error when no server answers there, or when `signal` aborts.
 */
export function callSocket(
  socketPath: string,
  method: 'GET' | 'POST' | 'PATCH',
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<SocketAnswer> {
  const payload = body === undefined ? '' : JSON.stringify(body);
  const headers = {
    'content-length': Buffer.byteLength(payload),
    ...(body !== undefined && { 'content-type': 'application/json' }),
  };
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, method, path, agent: false, headers, ...(signal && { signal }) }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', reject);
      response.once('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({ status: response.statusCode ?? 0, body: text === '' ? undefined : parse(text) });
      });
    });
    call.on('error', reject);
    call.end(payload);
  });
}

/** Returns the text unchanged when it is not JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
