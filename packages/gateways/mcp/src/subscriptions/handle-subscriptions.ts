import { isClocheError } from '@cloche/sdk';
import { type McpServer, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import { protocolError } from '../resources/register-resources.ts';
import { resourceAt } from '../resources/uris.ts';
import type { McpSession } from '../sessions/session.ts';

/** Most resources to which one session is subscribed. */
const SUBSCRIPTIONS = 32;

/** Registers the requests that change the subscriptions of a session. The session's stream sends the notifications. */
export function handleSubscriptions(server: McpServer, session: McpSession): void {
  server.server.setRequestHandler('resources/subscribe', async ({ params }) => {
    requireResource(params.uri);
    if (!(await session.subscribe(params.uri, SUBSCRIPTIONS))) {
      const message = `A session has at most ${SUBSCRIPTIONS} subscriptions; end one with resources/unsubscribe.`;
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
    }
    return {};
  });
  server.server.setRequestHandler('resources/unsubscribe', async ({ params }) => {
    await session.unsubscribe(params.uri);
    return {};
  });
}

/** @throws ProtocolError for a URI that is no resource */
function requireResource(uri: string): void {
  try {
    resourceAt(uri);
  } catch (error) {
    throw isClocheError(error) ? protocolError(error, uri) : error;
  }
}
