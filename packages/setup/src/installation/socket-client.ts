import { request } from 'node:http';

export type SocketAnswer = { status: number; body: unknown };

/** One operation over a Unix socket, with `message` as its JSON body. @throws when nobody answers there. */
export function callSocket(
  socketPath: string,
  method: 'GET' | 'POST',
  path: string,
  message?: unknown,
): Promise<SocketAnswer> {
  const body = message === undefined ? '' : JSON.stringify(message);
  const headers = {
    'content-length': Buffer.byteLength(body),
    ...(message === undefined ? {} : { 'content-type': 'application/json' }),
  };
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, method, path, agent: false, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', reject);
      response.once('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({ status: response.statusCode ?? 0, body: text === '' ? undefined : JSON.parse(text) });
      });
    });
    call.once('error', reject);
    call.end(body);
  });
}
