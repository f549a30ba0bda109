import type { ApiKeyId, OrgId, PreviewId, SandboxId } from '@cloche/contract';
import type { Clock } from '../../platform/base/clock.ts';
import type { Call } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import { Lookups } from '../../platform/db/lookups.ts';
import { prepareQuery } from '../../platform/db/prepared-query.ts';
import type { Transactions } from '../../platform/db/transactions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { SandboxNotes } from '../sandbox-records/sandbox-notes.ts';
import { sandboxThat } from '../sandbox-status/status-facts.ts';
import type { PreviewRecord } from './preview.ts';

const LAST_PORT = 65_535;
/** Name of the note that has the id of the key that made the ports of its sandbox public. */
const NOTE = 'public ports';

/** The fields of a preview that the proxy reads. */
export type Served = Pick<
  PreviewRecord,
  'id' | 'orgId' | 'sandboxId' | 'port' | 'tokenHash' | 'apiKeyId' | 'expiresAt'
>;

export interface PublicPortsDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly clock: Clock;
}

interface Published {
  readonly orgId: OrgId;
  readonly apiKeyId: ApiKeyId;
  readonly expiresAt: number;
}

/**
 * Sandboxes whose ports need no token at the hosts that name them. All ports of a sandbox count as one preview: they
 * share its limit of connections, and a stranger who tries ports opens nothing that counts.
 *
 * SECURITY: only the ports of a live sandbox whose maker said so, with a key that is still valid: held by "a port
 * without a token" in e2b-ports.test.ts.
 */
export class PublicPorts {
  readonly #deps: PublicPortsDeps;
  readonly #find;
  readonly #found: Lookups<Published>;

  constructor(deps: PublicPortsDeps) {
    const { db } = deps;
    this.#deps = deps;
    this.#found = new Lookups(db, ['sandbox_notes', 'sandboxes', 'api_keys']);
    this.#find = prepareQuery(db, ({ id, note }: { id: string; note: string }) =>
      db
        .selectFrom('sandbox_notes')
        .innerJoin('sandboxes', 'sandboxes.id', 'sandbox_notes.sandbox_id')
        .innerJoin('api_keys', 'api_keys.id', 'sandbox_notes.value')
        .where('sandbox_notes.sandbox_id', '=', id)
        .where('sandbox_notes.name', '=', note)
        .where(sandboxThat('acceptsWork'))
        .where('api_keys.revoked_at', 'is', null)
        .select(['sandboxes.org_id', 'sandboxes.expires_at', 'api_keys.id as key_id'])
        .select('api_keys.expires_at as key_expires_at'),
    );
  }

  /** Makes the ports of a sandbox public, as long as the key of the call is valid. Idempotent. */
  async publish({ audit, credential }: Pick<Call, 'audit' | 'credential'>, sandbox: SandboxRecord): Promise<void> {
    const { db, transactions } = this.#deps;
    const notes = new SandboxNotes(db);
    await transactions.run(async (tx) => {
      if ((await notes.all(sandbox.id, tx)).has(NOTE)) return;
      await notes.put(sandbox.id, NOTE, credential.apiKeyId, tx);
      await audit?.append(tx, sandbox);
    });
  }

  /** Returns a port that is served without a token; undefined if it is not public, or nothing is known of it. */
  async find(sandboxId: string, port: number): Promise<Served | undefined> {
    if (port < 1 || port > LAST_PORT) return undefined;
    const published = await this.#found.find(sandboxId, async () => {
      const [row] = (await this.#find({ id: sandboxId, note: NOTE })).rows;
      if (!row) return undefined;
      const expiresAt = Math.min(row.expires_at, row.key_expires_at ?? Number.POSITIVE_INFINITY);
      // Sound: these columns have the ids that their tables were given.
      return { orgId: row.org_id as OrgId, apiKeyId: row.key_id as ApiKeyId, expiresAt };
    });
    // A cached port may have expired since it was read.
    if (!published || published.expiresAt <= this.#deps.clock.now()) return undefined;
    const id = `prv_${sandboxId}` as PreviewId;
    return { ...published, id, sandboxId: sandboxId as SandboxId, port, tokenHash: undefined };
  }
}
