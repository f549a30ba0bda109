import type { IncomingMessage } from 'node:http';
import type { HoldConnection } from '@cloche/kit';
import type { RunApi } from '@cloche/run-once-apis';
import type { SqlMcpSessions } from '../features/mcp-sessions/sql-mcp-sessions.ts';
import { FrontGate, type FrontGateDeps, type ProtocolRouter as Gated } from '../platform/http/front-gate.ts';
import type { HostRouter } from '../platform/http/host-router.ts';
import type { InFlight } from '../platform/http/in-flight.ts';
import { type E2bServicesDeps, openE2b } from './compose-e2b.ts';
import { sessionsOfKeys } from './compose-mcp.ts';
import { FRONTS, type FrontName } from './fronts.ts';

export interface ProtocolsDeps extends E2bServicesDeps {
  readonly version: string;
  readonly inFlight: InFlight;
  readonly outcomes: FrontGateDeps['outcomes'];
  readonly checkKey: FrontGateDeps['checkKey'];
  readonly stallMs: number;
  readonly mcpSessions: SqlMcpSessions;
  readonly answersE2b: boolean;
  readonly answersMcp: boolean;
  readonly answersJupyter: boolean;
  /** The single-route APIs that the server answers. */
  readonly runApis: readonly RunApi[];
}

/** Answers the requests of one protocol. */
interface ProtocolRouter extends HostRouter {
  close(): Promise<void>;
}

/** A router all of whose fronts have a row: without one, it does not compile. */
interface OfTable extends Gated {
  frontOf(request: IncomingMessage): FrontName;
}

/** The protocols beside `/v1`. Each translates its requests to requests of `/v1`. */
export interface Protocols {
  readonly routers: readonly HostRouter[];
  /** Sets the URL of `/v1`. Call it before the first request. */
  servedAt(url: string): void;
  close(): Promise<void>;
}

/** Loads only the modules of the protocols that are switched on: all of them are a third of the modules of a server. */
export async function composeProtocols(deps: ProtocolsDeps): Promise<Protocols> {
  const { log, version, publicUrl, answersE2b, answersMcp, answersJupyter, runApis } = deps;
  let servedAt = '';
  const apiUrl = () => servedAt;
  const routers: ProtocolRouter[] = [];
  const gate = new FrontGate({ ...deps, fronts: FRONTS });
  const add = (router: OfTable) => routers.push(gate.before(router));
  if (answersE2b) {
    add(await openE2b(deps, apiUrl));
  }
  if (answersMcp) {
    const { McpRouter } = await import('@cloche/mcp');
    const sessions = sessionsOfKeys(deps.mcpSessions, deps.authenticator);
    add(new McpRouter({ apiUrl, publicUrl, version, sessions, holdConnection: holder(deps), log }));
  }
  if (answersJupyter) {
    const { JupyterRouter } = await import('@cloche/jupyter');
    add(await JupyterRouter.open({ apiUrl, version, log, holdConnection: holder(deps) }));
  }
  if (runApis.length > 0) {
    const { RunApisRouter } = await import('@cloche/run-once-apis');
    add(await RunApisRouter.open({ apiUrl, log }, runApis));
  }
  return {
    routers,
    servedAt(url) {
      servedAt = url;
    },
    async close() {
      await Promise.all(routers.map((router) => router.close()));
    },
  };
}

/**
 * Makes the function that counts a long connection as a request under way. The connection ends with its key or the
 * server.
 */
function holder({ authenticator, inFlight }: ProtocolsDeps): HoldConnection {
  return async (apiKey) => {
    const credential = await authenticator.authenticate(apiKey);
    const controller = inFlight.enter(credential, true);
    return { signal: controller.signal, [Symbol.dispose]: () => inFlight.leave(credential, controller) };
  };
}
