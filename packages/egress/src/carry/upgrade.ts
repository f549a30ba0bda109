import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fieldPairs } from '@cloche/protocol';
import { hostText } from '../policy/host-name.ts';
import type { SandboxTraffic } from '../sandboxes/sandbox-traffic.ts';
import { EgressError } from '../upstream/egress-error.ts';
import { endToEndFields } from './fields.ts';
import { type Forwarded, type Permitted, refuseFailed, sendRequest } from './forward.ts';
import { type Http1Exchange, http1Exchange, responseOn } from './http1-exchange.ts';
import { tunnel } from './tunnel.ts';

/**
 * What follows is no content: a request for an upgrade has none here, and a 101 must not have a length (RFC 9110, 8.6).
 * Whoever believed one would take frames for a body, or for the next message.
 */
const LENGTH = 'content-length';

/** Asks a server for a WebSocket and, when it agrees, carries what goes both ways. Does not reject. */
export async function forwardUpgrade(
  request: IncomingMessage,
  client: Socket,
  { target, path, hostField }: Permitted,
  traffic: SandboxTraffic,
): Promise<Forwarded> {
  const fields = endToEndFields(request.rawHeaders, 'host', LENGTH);
  const asked = sendRequest({
    traffic,
    target,
    method: 'GET',
    path,
    fields: ['Host', hostField, ...fields, 'Connection', 'Upgrade', 'Upgrade', 'websocket'],
  });
  const { promise: agreed, resolve: agree } = Promise.withResolvers<[IncomingMessage, Duplex, Buffer]>();
  asked.request.on('upgrade', (...agreement) => agree(agreement));
  const abandoned = () => asked.request.destroy();
  client.once('close', abandoned).on('error', abandoned);
  asked.request.end();
  /** Unless a WebSocket comes of it. */
  let response: ServerResponse | undefined;
  const exchange = () => {
    response ??= responseOn(request, client);
    return http1Exchange(request, response);
  };
  try {
    const outcome = await Promise.race([agreed, asked.answer]);
    if (!Array.isArray(outcome)) return { status: await passRefusalOn(exchange(), outcome), ...asked.bytes() };
    const [answer, server, head] = outcome;
    client.write(switchingProtocols(answer));
    if (head.length > 0) server.unshift(head);
    await tunnel(client, server as Socket);
    return { status: 101, ...asked.bytes() };
  } catch (error) {
    const failure = error instanceof EgressError ? error.reason : 'broken_off';
    const refused = exchange();
    if (refused) refuseFailed(refused, hostText(target.host), failure);
    return { failure, ...asked.bytes() };
  }
}

async function passRefusalOn(exchange: Http1Exchange | undefined, answer: IncomingMessage): Promise<number> {
  const { statusCode: status = 502, statusMessage = '', rawHeaders } = answer;
  const out = exchange?.answer(status, statusMessage, [
    ...endToEndFields(rawHeaders, 'alt-svc'),
    'Connection',
    'close',
  ]);
  if (out) await pipeline(answer, out);
  return status;
}

/** Written from what the strict parser read, so that no value can hold a line of its own. */
function switchingProtocols({ statusMessage, rawHeaders }: IncomingMessage): Buffer {
  const fields = [
    ...fieldPairs(endToEndFields(rawHeaders, 'alt-svc', LENGTH)),
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
  ];
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return Buffer.from(`HTTP/1.1 101 ${statusMessage}\r\n${lines}\r\n`, 'latin1');
}
