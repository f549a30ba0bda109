import type { Clock } from '../../platform/base/clock.ts';
import { SignedLinks } from '../../platform/base/signed-links.ts';
import type { Database } from '../../platform/db/database.ts';
import { serverSecret } from '../../platform/db/server-secret.ts';

const SECRET_NAME = 'artifact-downloads';
export const DOWNLOAD_PATH = '/downloads/artifacts';

/** Returns the links that download artifacts. All servers of the database share their key. */
export async function openDownloadLinks(db: Database, clock: Clock): Promise<SignedLinks> {
  return new SignedLinks(
    { key: await serverSecret(db, SECRET_NAME), purpose: SECRET_NAME, path: DOWNLOAD_PATH },
    clock,
  );
}
