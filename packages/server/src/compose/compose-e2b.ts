import { E2bRouter } from '@cloche/e2b';
import type { Logger } from 'pino';
import { openText, sealText } from '../base/sealed-text.ts';
import type { Database } from '../db/database.ts';
import { serverSecret } from '../db/server-secret.ts';
import type { HostRouter } from '../http/host-router.ts';

const SECRET_NAME = 'e2b-access-tokens';

export interface E2bDeps {
  readonly db: Database;
  readonly log: Logger;
}

/** The part that answers E2B's clients. */
export interface E2b {
  readonly router: HostRouter;
  /** Sets the URL of the service. Call it before the first request. */
  servedAt(url: string): void;
  close(): Promise<void>;
}

/** All servers of the database share the key of the tokens. */
export async function composeE2b({ db, log }: E2bDeps): Promise<E2b> {
  const key = await serverSecret(db, SECRET_NAME);
  let apiUrl = '';
  const router = await E2bRouter.open({
    apiUrl: () => apiUrl,
    seal: {
      seal: (text) => sealText(text, key, SECRET_NAME),
      open: (sealed) => openText(sealed, key, SECRET_NAME),
    },
    log,
  });
  return {
    router,
    servedAt(url) {
      apiUrl = url;
    },
    close: () => router.close(),
  };
}
