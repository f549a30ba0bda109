import type { Clock } from '../base/clock.ts';
import { SignedLinks } from '../base/signed-links.ts';
import type { Database } from '../db/database.ts';
import { serverSecret } from '../db/server-secret.ts';

const SECRET_NAME = 'artifact-downloads';
export const DOWNLOAD_PATH = '/downloads/artifacts';

/** Returns the links that download artifacts. All servers of the database share their key. */
export async function openDownloadLinks(db: Database, clock: Clock): Promise<SignedLinks> {
  return new SignedLinks(
    { key: await serverSecret(db, SECRET_NAME), purpose: SECRET_NAME, path: DOWNLOAD_PATH },
    clock,
  );
}
