import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fieldPairs, type LeavingConnection } from '@cloche/node-support';
import { hostText } from '../policy/host-name.ts';
import type { SandboxTraffic } from '../sandboxes/sandbox-traffic.ts';
import type { PlacedSecrets } from '../secrets/placed-secrets.ts';
import { EgressError } from '../upstream/egress-error.ts';
import { assertAcceptable, assertWebSocket } from './acceptable-answer.ts';
import { endToEndFields } from './fields.ts';
import {
  type Forwarded,
  needsSecrets,
  type Permitted,
  place,
  refuseFailed,
  type SentRequest,
  sendRequest,
} from './forward.ts';
import { type Http1Exchange, http1Exchange } from './http1-exchange.ts';
import { tunnel } from './tunnel.ts';

/**
 * Dropped from upgrades: such a request has no body here, and a 101 response must not have a length (RFC 9110, 8.6). A
 * peer that believed the length would take frames for a body or for the next message.
 */
const LENGTH = 'content-length';

type Hide = PlacedSecrets['hide'];

/** Requests a WebSocket from a server. If the server agrees, copies bytes in both directions. Never rejects. */
export async function forwardUpgrade(
  leaving: LeavingConnection,
  { target, path, hostField }: Permitted,
  traffic: SandboxTraffic,
): Promise<Forwarded> {
  const { request } = leaving;
  let asked: SentRequest | undefined;
  request.socket.once('close', () => asked?.request.destroy());
  const exchange = () => http1Exchange(request, leaving.respond());
  let client: Socket | undefined;
  try {
    const own = endToEndFields(request.rawHeaders, 'host', LENGTH);
    const placed = needsSecrets(own, target) && (await place(own, target, traffic));
    if (!leaving.isWaiting) return { failure: 'broken_off', bytesUp: 0, bytesDown: 0 };
    const fields = placed ? placed.fields : own;
    const hide = placed ? placed.hide : (text: string) => text;
    const { promise: agreed, resolve: agree } = Promise.withResolvers<[IncomingMessage, Duplex, Buffer]>();
    asked = sendRequest({
      traffic,
      target,
      method: 'GET',
      path,
      fields: ['Host', hostField, ...fields, 'Connection', 'Upgrade', 'Upgrade', 'websocket'],
      onUpgrade: (...agreement) => agree(agreement),
    });
    asked.request.end();
    const outcome = await Promise.race([agreed, asked.answer]);
    if (!Array.isArray(outcome)) return { status: await sendRefusal(exchange(), outcome, hide), ...asked.bytes() };
    const [answer, server, head] = outcome;
    assertWebSocket(answer);
    const agreement = switchingProtocols(answer, hide);
    client = leaving.take();
    if (!client) throw new Error('the client has left');
    client.write(agreement);
    if (head.length > 0) server.unshift(head);
    await tunnel(client, server as Socket);
    return { status: 101, ...asked.bytes() };
  } catch (error) {
    asked?.request.destroy();
    client?.destroy();
    const failure = error instanceof EgressError ? error.reason : 'broken_off';
    const refused = leaving.isWaiting && exchange();
    if (refused) refuseFailed(refused, hostText(target.host), failure);
    return { failure, ...(asked?.bytes() ?? { bytesUp: 0, bytesDown: 0 }) };
  }
}

async function sendRefusal(exchange: Http1Exchange | undefined, answer: IncomingMessage, hide: Hide): Promise<number> {
  assertAcceptable(answer);
  const { statusCode: status = 502, statusMessage = '', rawHeaders } = answer;
  const out = exchange?.answer(status, hide(statusMessage), [
    ...endToEndFields(rawHeaders, 'alt-svc').map(hide),
    'Connection',
    'close',
  ]);
  if (out) await pipeline(answer, out);
  return status;
}

/** Returns the response head, serialized from the strictly parsed fields, so that no value can add a line. */
function switchingProtocols({ statusMessage = '', rawHeaders }: IncomingMessage, hide: Hide): Buffer {
  const fields = [
    ...fieldPairs(endToEndFields(rawHeaders, 'alt-svc', LENGTH).map(hide)),
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
  ];
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return Buffer.from(`HTTP/1.1 101 ${hide(statusMessage)}\r\n${lines}\r\n`, 'latin1');
}
