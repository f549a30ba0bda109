import { type IncomingMessage, request } from 'node:http';
import type { Duplex } from 'node:stream';
import { PORT_TUNNEL_PROTOCOL } from '@cloche/protocol';
import { AgentError } from '../../driver/runtime-driver.ts';
import { agentErrorBody, type ErrorKinds, MAX_SMALL_BYTES, refusal } from './agent-requests.ts';
import { isConnectionError } from './http-response.ts';

const MAX_HEADER_BYTES = 4 * 1024;

/**
 * Opens a connection to a port inside the sandbox, over the agent's socket. After the agent's `101`, the bytes are
 * those of the process that listens on the port and are not inspected.
 *
 * @throws AgentError for every other response, and `gone` without a response.
 */
export function openAgentTunnel(socketPath: string, port: number, signal: AbortSignal): Promise<Duplex> {
  return upgradeToAgent(socketPath, `/ports/${port}`, PORT_TUNNEL_PROTOCOL, signal);
}

/** Opens a dedicated connection to the agent with the protocol `upgrade`. Throws as `openAgentTunnel` does. */
export function upgradeToAgent(
  socketPath: string,
  path: string,
  upgrade: string,
  signal: AbortSignal,
): Promise<Duplex> {
  const opened = Promise.withResolvers<Duplex>();
  const headers = { connection: 'upgrade', upgrade };
  const sent = request({ socketPath, path, headers, agent: false, maxHeaderSize: MAX_HEADER_BYTES });
  const abort = () => sent.destroy(signal.reason);
  const broke = () => opened.reject(new AgentError('gone', 'the connection broke while a tunnel was opened'));
  sent.once('upgrade', (_, socket, head) => {
    if (head.length > 0) socket.unshift(head);
    opened.resolve(socket);
  });
  sent.once('response', (response) => {
    // The request closes before its response has been read.
    sent.off('close', broke);
    readAgentError(response).then(opened.reject, (error) => opened.reject(toAgentError(error, signal)));
  });
  sent.on('error', (error) => opened.reject(toAgentError(error, signal)));
  sent.once('close', broke);
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  sent.end();
  return opened.promise
    .catch((error: unknown) => {
      sent.destroy();
      throw error;
    })
    .finally(() => signal.removeEventListener('abort', abort));
}

async function readAgentError(response: IncomingMessage): Promise<AgentError> {
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) {
    text += chunk;
    if (text.length > MAX_SMALL_BYTES) return new AgentError('misbehaved', 'an answer that is too large');
  }
  const body = parse(text);
  if (!agentErrorBody.Check(body)) return new AgentError('misbehaved', 'an answer that does not fit its schema');
  return refusal(body.error, ERROR_KINDS);
}

const ERROR_KINDS: ErrorKinds = new Map([
  ['not_found', 'not_found'],
  ['port_closed', 'port_closed'],
  ['queue_full', 'busy'],
]);

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function toAgentError(error: Error, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  const kind = isConnectionError(error) ? 'gone' : 'misbehaved';
  return new AgentError(kind, error.message, { cause: error });
}
