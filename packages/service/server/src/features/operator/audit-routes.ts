/** Verifies and exports audit events on the operator's socket. */
import { Readable } from 'node:stream';
import type { OrgId } from '@cloche/contract';
import type { AuditVerification, AuditVerifications } from '@cloche/protocol';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { AuditFeed, AuditFilter } from '../../platform/audit-log/audit-feed.ts';
import type { AuditLog } from '../../platform/audit-log/audit-log.ts';
import type { VerifyChain } from '../../platform/audit-log/verify-chain.ts';
import { invalidRequest } from '../../platform/base/app-error.ts';
import type { OrgRepository } from '../../platform/tenancy/org-repository.ts';
import { getOrg } from './get-org.ts';

const PAGE_EVENTS = 500;

export interface OperatorAuditDeps {
  readonly orgs: OrgRepository;
  readonly auditLog: AuditLog;
  readonly auditFeed: AuditFeed;
  readonly verifyChain: VerifyChain;
}

export function addAuditRoutes(app: FastifyInstance, { orgs, auditFeed, verifyChain }: OperatorAuditDeps): void {
  app.get('/audit/verify', async (request): Promise<AuditVerification | AuditVerifications> => {
    const wanted = queryOf(request).get('org');
    return wanted === null
      ? { data: await verifyChain.verifyAll() }
      : verifyChain.verify((await getOrg(orgs, wanted)).id);
  });

  app.get('/audit/export', async (request, reply) => {
    const query = queryOf(request);
    const wanted = query.get('org');
    const { id: orgId } = wanted === null ? await orgs.ensureFirst() : await getOrg(orgs, wanted);
    const filter = { orgId: orgId as OrgId, from: timeOf(query, 'from'), to: timeOf(query, 'to') };
    return reply.type('application/x-ndjson').send(Readable.from(linesOf(auditFeed, filter), { objectMode: false }));
  });
}

/** Yields the events as JSON lines, a page at a time. */
async function* linesOf(feed: AuditFeed, filter: AuditFilter): AsyncGenerator<string, void> {
  for (let afterSeq = 0, hasMore = true; hasMore; ) {
    const page = await feed.read(filter, afterSeq, PAGE_EVENTS);
    if (page.data.length > 0) yield page.data.map((event) => `${JSON.stringify(event)}\n`).join('');
    ({ nextSeq: afterSeq, hasMore } = page);
  }
}

function queryOf({ url }: FastifyRequest): URLSearchParams {
  return new URL(url, 'http://operator').searchParams;
}

function timeOf(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const at = Date.parse(text);
  if (Number.isFinite(at)) return at;
  throw invalidRequest({ path: `query.${name}`, message: 'must be a time such as 2026-01-31T09:00:00Z' });
}
