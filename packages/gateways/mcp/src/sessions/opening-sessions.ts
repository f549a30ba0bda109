import { bytesUpTo } from '@cloche/node-support';
import type { McpHttpHandler } from '@modelcontextprotocol/server';

/** Most bytes of a response to `initialize`. */
const RESPONSE_BYTES = 1024 * 1024;
export const SESSION_HEADER = 'mcp-session-id';

type Answering = Pick<McpHttpHandler, 'fetch'>;

/**
 * Opens a session for each `initialize` that succeeds, and adds its id to the response. An `initialize` that the
 * library refuses opens no session.
 *
 * @param open opens a session of an API key, and returns its id
 */
export function openingSessions(handler: Answering, open: (apiKey: string) => Promise<string>): Answering {
  return {
    async fetch(request, options) {
      const response = await handler.fetch(request, options);
      const { authInfo, parsedBody } = options ?? {};
      if (!authInfo || !isInitialize(parsedBody) || !response.ok) return response;
      const bytes = response.body && (await bytesUpTo(RESPONSE_BYTES, response.body));
      if (!bytes) throw new Error('the library answers an initialize with too much');
      const text = Buffer.from(bytes).toString();
      const headers = new Headers(response.headers);
      if (hasResult(text)) headers.set(SESSION_HEADER, await open(authInfo.token));
      return new Response(text, { status: response.status, headers });
    },
  };
}

/** Whether a message asks for a session. */
export function isInitialize(message: unknown): boolean {
  return typeof message === 'object' && message !== null && 'method' in message && message.method === 'initialize';
}

/** Whether a response of JSON, or of events with JSON, has the result of a request. */
function hasResult(text: string): boolean {
  const documents = text.startsWith('{')
    ? [text]
    : text.split('\n').flatMap((line) => line.match(/^data: (.+)$/)?.[1] ?? []);
  return documents.some((document) => {
    const message: unknown = JSON.parse(document);
    return typeof message === 'object' && message !== null && 'result' in message;
  });
}
