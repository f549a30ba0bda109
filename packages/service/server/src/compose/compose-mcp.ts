import type { ApiKeyId } from '@cloche/contract';
import { GatewayError } from '@cloche/kit/gateway-error';
import type { McpSessions } from '@cloche/mcp';
import type { Logger } from 'pino';
import type { SqlMcpSessions } from '../features/mcp-sessions/sql-mcp-sessions.ts';
import type { DestroySandbox } from '../features/sandboxes/lifecycle/destroy-sandbox.ts';
import { AppError } from '../platform/base/app-error.ts';
import { UNAUDITED } from '../platform/call/call.ts';
import { errorResponse } from '../platform/http/error-response.ts';
import type { Authenticator } from '../platform/keys/authenticator.ts';
import type { OpenWork } from '../platform/keys/end-key-work.ts';

/** Returns the sessions as the protocol uses them: by keys, which are checked again. */
export function sessionsOfKeys(
  sessions: SqlMcpSessions,
  authenticator: Pick<Authenticator, 'authenticate'>,
): McpSessions {
  const idOf = async (apiKey: string): Promise<ApiKeyId> => {
    try {
      return (await authenticator.authenticate(apiKey)).apiKeyId;
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      const { status, headers } = errorResponse(error, '');
      throw new GatewayError(status, `${error.code}: ${error.message}`, headers);
    }
  };
  return {
    open: async (apiKey) => sessions.open(await idOf(apiKey)),
    find: async (apiKey, sessionId) => sessions.find(await idOf(apiKey), sessionId),
    end: async (apiKey, sessionId) => sessions.end(await idOf(apiKey), sessionId),
  };
}

/**
 * Ends the sessions of a key that is revoked, with their sandboxes, at the server that answers the revocation. Where it
 * cannot, the sandboxes end because no one can use them.
 */
export function endingSessions(
  sessions: Pick<SqlMcpSessions, 'endOfKey'>,
  destroySandbox: Pick<DestroySandbox, 'destroy'>,
  log: Logger,
): OpenWork {
  const end = async (id: ApiKeyId) => {
    for (const sandboxId of await sessions.endOfKey(id)) {
      await destroySandbox.destroy(UNAUDITED, sandboxId, 'user_killed').catch((error) => {
        log.warn({ err: error, sandboxId }, 'the sandbox of an MCP session was not destroyed');
      });
    }
  };
  return {
    keyIds: () => [],
    endKey(id) {
      end(id).catch((error) => log.warn({ err: error, apiKeyId: id }, 'sessions of a key were not ended'));
    },
  };
}
