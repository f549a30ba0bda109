import type { IncomingMessage } from 'node:http';
import type { TokenSeal } from '@cloche/e2b';
import type { JupyterDeps } from '@cloche/jupyter';
import type { RunApi } from '@cloche/run-apis';
import type { Logger } from 'pino';
import type { Authenticator } from '../api-keys/authenticator.ts';
import type { IdSource } from '../base/id-source.ts';
import { networkOf } from '../base/network-of.ts';
import { openText, sealText } from '../base/sealed-text.ts';
import type { Database } from '../db/database.ts';
import { serverSecret } from '../db/server-secret.ts';
import type { Callers } from '../http/callers.ts';
import { FrontGate, type FrontGateDeps, type ProtocolRouter as Gated } from '../http/front-gate.ts';
import type { HostRouter } from '../http/host-router.ts';
import type { InFlight } from '../http/in-flight.ts';
import { isLive } from '../sandboxes/record/sandbox.ts';
import type { SandboxRepository } from '../sandboxes/record/sandbox-repository.ts';
import type { Previews } from './compose-previews.ts';
import { FRONTS, type FrontName } from './fronts.ts';

/** Form of ids of sandboxes, for those that a stranger sends. */
const SANDBOX_ID = /^sbx_[0-9a-z]{1,40}$/;
const E2B_SECRET_NAME = 'e2b-access-tokens';

export interface ProtocolsDeps {
  readonly db: Database;
  readonly log: Logger;
  readonly version: string;
  /** URL at which clients reach the service, if it is configured. */
  readonly publicUrl: string | undefined;
  readonly previews: Pick<Previews, 'domain' | 'hostRouter'>;
  readonly sandboxes: Pick<SandboxRepository, 'find'>;
  readonly authenticator: Pick<Authenticator, 'orgOf' | 'authenticate'>;
  readonly inFlight: InFlight;
  readonly callers: Callers;
  readonly ids: IdSource;
  readonly outcomes: FrontGateDeps['outcomes'];
  readonly checkKey: FrontGateDeps['checkKey'];
  readonly stallMs: number;
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
    add(new McpRouter({ apiUrl, publicUrl, version, log }));
  }
  if (answersJupyter) {
    const { JupyterRouter } = await import('@cloche/jupyter');
    add(await JupyterRouter.open({ apiUrl, version, log, holdConnection: holder(deps) }));
  }
  if (runApis.length > 0) {
    const { RunApisRouter } = await import('@cloche/run-apis');
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

async function openE2b(deps: ProtocolsDeps, apiUrl: () => string) {
  const { E2bRouter } = await import('@cloche/e2b');
  const { db, log, publicUrl, previews, sandboxes, authenticator, callers } = deps;
  const { domain, hostRouter } = previews;
  return E2bRouter.open({
    apiUrl,
    publicUrl,
    seal: await e2bTokenSeal(db),
    previews: { domain, handle: hostRouter.handle.bind(hostRouter), upgrade: hostRouter.upgrade.bind(hostRouter) },
    addressOf: (request) => networkOf(callers.addressOf(request)),
    ownerOf: (apiKey) => authenticator.orgOf(apiKey) ?? '',
    async isLive(sandboxId) {
      const found = SANDBOX_ID.test(sandboxId) ? await sandboxes.find(sandboxId) : undefined;
      return found !== undefined && isLive(found);
    },
    log,
  });
}

/** Returns what counts a WebSocket of a key as a request under way, and ends it with its key or with the server. */
function holder({ authenticator, inFlight }: ProtocolsDeps): JupyterDeps['holdConnection'] {
  return async (apiKey) => {
    const credential = await authenticator.authenticate(apiKey);
    const controller = inFlight.enter(credential, true);
    return { signal: controller.signal, [Symbol.dispose]: () => inFlight.leave(credential, controller) };
  };
}

/** Seals access tokens with a key that all servers of the database share. */
async function e2bTokenSeal(db: Database): Promise<TokenSeal> {
  const key = await serverSecret(db, E2B_SECRET_NAME);
  return {
    seal: (text) => sealText(text, key, E2B_SECRET_NAME),
    open: (sealed) => openText(sealed, key, E2B_SECRET_NAME),
  };
}
