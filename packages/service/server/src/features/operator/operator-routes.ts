/** The routes of the operator's socket; see the table in the operator protocol. */
import { type ApiKeyId, type OrgId, ProjectQuotas } from '@cloche/contract';
import {
  CreateKey,
  CreateOrg,
  type KeyCreated,
  type KeyRevoked,
  type OrgCreated,
  type OrgList,
  type QuotaList,
  type ReconcileReport,
} from '@cloche/protocol';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { timestamp } from '../../platform/base/clock.ts';
import type { Transaction } from '../../platform/db/transactions.ts';
import { bodyValidator } from '../../platform/http/request-validator.ts';
import type { ApiKeyRecord } from '../../platform/keys/api-key.ts';
import type { Org, OrgRepository } from '../../platform/tenancy/org-repository.ts';
import type { ApiKeyService } from '../api-keys/api-key-service.ts';
import type { Quotas } from '../quotas/quotas.ts';
import { addAuditRoutes, type OperatorAuditDeps } from './audit-routes.ts';
import { getOrg } from './get-org.ts';

export interface OperatorDeps extends OperatorAuditDeps {
  readonly orgs: OrgRepository;
  readonly apiKeys: ApiKeyService;
  readonly quotas: Quotas;
  readonly reconcile: () => Promise<ReconcileReport>;
  /** Calls `announce` for each organization that has sandboxes, then destroys them. Returns their number. */
  readonly destroyAll: (announce: (orgId: OrgId) => Promise<void>) => Promise<number>;
  /** Calls `announce` for each organization that has secrets, then encrypts all anew. Returns their number. */
  readonly rotateSecrets: (announce: (orgId: OrgId) => Promise<void>) => Promise<number>;
}

export function addOperatorRoutes(app: FastifyInstance, deps: OperatorDeps): void {
  const { orgs, apiKeys, quotas, reconcile, destroyAll, rotateSecrets, auditLog } = deps;
  const record = ({ id: requestId }: FastifyRequest, orgId: OrgId, action: string, tx?: Transaction) => {
    const target = { type: 'organization', id: orgId };
    return auditLog.append({ orgId, actor: OPERATOR_ACTOR, action, target, outcome: 'allowed', requestId }, tx);
  };
  addAuditRoutes(app, deps);
  const readOrg = bodyValidator<CreateOrg>(CreateOrg);
  const readQuotas = bodyValidator<ProjectQuotas>(ProjectQuotas);
  const readKey = bodyValidator<CreateKey>(CreateKey);

  app.post('/orgs', async (request, reply): Promise<OrgCreated> => {
    const { name } = readOrg(request.body);
    const org = await orgs.create(name, (tx, { id }) => record(request, id, 'organization.created', tx));
    reply.code(201);
    return { org: describeOrg(org) };
  });

  app.get('/orgs', async (): Promise<OrgList> => ({ data: (await orgs.list()).map(describeOrg) }));

  const quotasOf = async (idOrName: string): Promise<QuotaList> => ({
    data: await quotas.list((await getOrg(orgs, idOrName)).id),
  });
  app.get<OrgParams>('/orgs/:org/quotas', ({ params }) => quotasOf(params.org));
  app.patch<OrgParams>('/orgs/:org/quotas', async (request) => {
    const { params, body } = request;
    const { id } = await getOrg(orgs, params.org);
    const appendEvent = (tx: Transaction) => record(request, id, 'organization.quotas_set', tx);
    await quotas.limits.setOrganization(id, readQuotas(body), appendEvent);
    return quotasOf(params.org);
  });

  app.post('/keys', async (request, reply): Promise<KeyCreated> => {
    const { org, name = 'unnamed', scopes, projectIds, expiresInMs } = readKey(request.body);
    const found = org === undefined ? await orgs.ensureFirst() : await getOrg(orgs, org);
    const made = await apiKeys.create({ orgId: found.id, name, scopes, projectIds, expiresInMs }, request.id);
    reply.code(201);
    return describeKey(made);
  });

  app.post<{ Params: { key: string } }>('/keys/:key/revoke', async (request): Promise<KeyRevoked> => {
    const id = request.params.key;
    await apiKeys.revoke(id as ApiKeyId, request.id);
    return { key: { id } };
  });

  app.post('/first-key', async (request, reply): Promise<KeyCreated> => {
    const made = await apiKeys.createFirst((await orgs.ensureFirst()).id, request.id);
    reply.code(201);
    return describeKey(made);
  });

  app.post('/reconcile', (): Promise<ReconcileReport> => reconcile());
  app.post('/destroy-all', async (request) => ({
    destroyed: await destroyAll((orgId) => record(request, orgId, 'sandboxes.destroyed')),
  }));
  app.post('/rotate-secrets', async (request) => ({
    rotated: await rotateSecrets((orgId) => record(request, orgId, 'secrets.rotated')),
  }));
}

const OPERATOR_ACTOR = { type: 'operator', id: 'operator' } as const;

interface OrgParams {
  Params: { org: string };
}

function describeOrg({ id, name, defaultProjectId, createdAt }: Org): OrgCreated['org'] {
  return { id, name, defaultProjectId, createdAt: timestamp(createdAt) };
}

function describeKey({ apiKey, secret }: { apiKey: ApiKeyRecord; secret: string }): KeyCreated {
  const { id, orgId, scopes, projectIds, expiresAt } = apiKey;
  return {
    key: {
      id,
      orgId,
      scopes: [...scopes],
      ...(projectIds && { projectIds: [...projectIds] }),
      ...(expiresAt !== undefined && { expiresAt: timestamp(expiresAt) }),
      secret,
    },
  };
}
