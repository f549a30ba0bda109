/** Requests to previews, whose host names only browsers resolve on this machine. */
import { once } from 'node:events';
import { type IncomingMessage, type RequestOptions, request } from 'node:http';
import type { LookupFunction } from 'node:net';
import { text } from 'node:stream/consumers';

/** Resolves every name to this machine. */
export const toThisMachine: LookupFunction = (_name, { all }, done) => {
  if (all) done(null, [{ address: '127.0.0.1', family: 4 }]);
  else done(null, '127.0.0.1', 4);
};

/** Returns the status and the text of an answer. */
export async function getPreview(url: string, headers: RequestOptions['headers'] = {}): Promise<[number, string]> {
  const sent = request(url, { headers, lookup: toThisMachine, agent: false }).end();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return [answer.statusCode ?? 0, await text(answer)];
}

/** Asks for a WebSocket. Returns the status of the answer, which is 101 if the app has accepted. */
export async function openPreviewSocket(url: string, headers: RequestOptions['headers'] = {}): Promise<number> {
  const upgrade = {
    ...{ Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13' },
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
  };
  const sent = request(url.replace(/^ws/, 'http'), {
    headers: { ...upgrade, ...headers },
    lookup: toThisMachine,
    agent: false,
  }).end();
  const [answer] = (await Promise.race([once(sent, 'upgrade'), once(sent, 'response')])) as [IncomingMessage];
  sent.destroy();
  return answer.statusCode ?? 0;
}
