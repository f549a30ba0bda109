import type { TokenSeal } from '@cloche/e2b';
import type { RunApi } from '@cloche/run-apis';
import type { Logger } from 'pino';
import { openText, sealText } from '../base/sealed-text.ts';
import type { Database } from '../db/database.ts';
import { serverSecret } from '../db/server-secret.ts';
import type { HostRouter } from '../http/host-router.ts';
import type { Previews } from './compose-previews.ts';

const E2B_SECRET_NAME = 'e2b-access-tokens';

export interface ProtocolsDeps {
  readonly db: Database;
  readonly log: Logger;
  readonly version: string;
  /** URL at which clients reach the service, if it is configured. */
  readonly publicUrl: string | undefined;
  readonly previews: Pick<Previews, 'domain' | 'hostRouter'>;
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

/** The protocols beside `/v1`. Each translates its requests to requests of `/v1`. */
export interface Protocols {
  readonly routers: readonly HostRouter[];
  /** Sets the URL of `/v1`. Call it before the first request. */
  servedAt(url: string): void;
  close(): Promise<void>;
}

/** Loads only the modules of the protocols that are switched on: all of them are a third of the modules of a server. */
export async function composeProtocols({
  db,
  log,
  version,
  publicUrl,
  previews,
  answersE2b,
  answersMcp,
  answersJupyter,
  runApis,
}: ProtocolsDeps): Promise<Protocols> {
  let servedAt = '';
  const apiUrl = () => servedAt;
  const routers: ProtocolRouter[] = [];
  if (answersE2b) {
    const { E2bRouter } = await import('@cloche/e2b');
    const { domain, hostRouter } = previews;
    const server = {
      domain,
      handle: hostRouter.handle.bind(hostRouter),
      upgrade: hostRouter.upgrade.bind(hostRouter),
    };
    routers.push(await E2bRouter.open({ apiUrl, publicUrl, seal: await e2bTokenSeal(db), previews: server, log }));
  }
  if (answersMcp) {
    const { McpRouter } = await import('@cloche/mcp');
    routers.push(new McpRouter({ apiUrl, publicUrl, version, log }));
  }
  if (answersJupyter) {
    const { JupyterRouter } = await import('@cloche/jupyter');
    routers.push(await JupyterRouter.open({ apiUrl, version, log }));
  }
  if (runApis.length > 0) {
    const { RunApisRouter } = await import('@cloche/run-apis');
    routers.push(await RunApisRouter.open({ apiUrl, log }, runApis));
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

/** Seals access tokens with a key that all servers of the database share. */
async function e2bTokenSeal(db: Database): Promise<TokenSeal> {
  const key = await serverSecret(db, E2B_SECRET_NAME);
  return {
    seal: (text) => sealText(text, key, E2B_SECRET_NAME),
    open: (sealed) => openText(sealed, key, E2B_SECRET_NAME),
  };
}
