/** Shows whether a change and its audit event are in one transaction. */
import { mock } from 'node:test';
import type { AuditEvent } from '@cloche/contract';
import { AuditLog } from '../src/platform/audit-log/audit-log.ts';
import type { Tenants } from './tenants.ts';

/** Tables of what the API shows, and their columns that background jobs write. */
const TABLES: Record<string, readonly string[]> = {
  orgs: [],
  projects: [],
  api_keys: ['last_used_at'],
  // A pause or a wake that failed was announced to the other servers, and was given up.
  sandboxes: ['last_active_at', 'used', 'pause_epoch', 'pause_owner', 'pause_token'],
  code_contexts: [],
  commands: [],
  artifacts: [],
  previews: [],
  custom_templates: [],
  template_builds: ['claimed_by', 'claimed_until'],
  webhooks: [
    'attempts',
    'claimed_by',
    'claimed_until',
    'cursor_seq',
    'delivery_seq',
    'failing_since',
    'next_attempt_at',
  ],
  events: [],
};

/** Returns what the API shows of a server's database, as another connection sees it. */
export async function readContents({ stored }: Pick<Tenants, 'stored'>): Promise<unknown> {
  const contents = await stored.read(Object.keys(TABLES));
  return Object.values(TABLES).map((ignored, index) =>
    contents[index]?.map((row) => Object.entries(row).filter(([column]) => !ignored.includes(column))),
  );
}

/** Returns every audit event of an action. */
export async function listAuditEvents({ call }: Tenants, key: string, action: string): Promise<AuditEvent[]> {
  const all: AuditEvent[] = [];
  for (let afterSeq = 0, hasMore = true; hasMore; ) {
    const { body } = await call(key, 'GET', `/v1/audit-events?action=${action}&limit=500&afterSeq=${afterSeq}`);
    all.push(...body.data);
    ({ nextSeq: afterSeq, hasMore } = body);
  }
  return all;
}

/**
 * Fails changes of an action as a killed server would: rolls back a transaction after its event was appended, and fails
 * before an event that is written by itself. Restore the mock in the end.
 */
export function breakAppend(action: string) {
  const { append } = AuditLog.prototype;
  return mock.method(AuditLog.prototype, 'append', async function (this: AuditLog, ...[event, tx]: Appended) {
    const breaks = event.action === action && event.outcome === 'allowed';
    if (tx || !breaks) await append.call(this, event, tx);
    if (breaks) throw new Error('the server was killed');
  });
}

type Appended = Parameters<AuditLog['append']>;
