/** The routes of the operator's socket; see the table in the operator protocol. */
import { ProjectQuotas } from '@cloche/contract';
import {
  CreateKey,
  CreateOrg,
  type KeyCreated,
  type OrgCreated,
  type OrgList,
  type QuotaList,
  type ReconcileReport,
} from '@cloche/protocol';
import type { FastifyInstance } from 'fastify';
import type { ApiKeyRecord } from '../api-keys/api-key.ts';
import type { ApiKeyService } from '../api-keys/api-key-service.ts';
import { AppError } from '../base/app-error.ts';
import { timestamp } from '../base/clock.ts';
import { bodyValidator } from '../http/request-validator.ts';
import type { Org, OrgRepository } from '../projects/org-repository.ts';
import type { Quotas } from '../quotas/quotas.ts';

export interface OperatorDeps {
  readonly orgs: OrgRepository;
  readonly apiKeys: ApiKeyService;
  readonly quotas: Quotas;
  readonly reconcile: () => Promise<ReconcileReport>;
  readonly destroyAll: () => Promise<number>;
}

export function addOperatorRoutes(
  app: FastifyInstance,
  { orgs, apiKeys, quotas, reconcile, destroyAll }: OperatorDeps,
): void {
  const readOrg = bodyValidator<CreateOrg>(CreateOrg);
  const readQuotas = bodyValidator<ProjectQuotas>(ProjectQuotas);
  const readKey = bodyValidator<CreateKey>(CreateKey);

  app.post('/orgs', async (request, reply): Promise<OrgCreated> => {
    const org = await orgs.create(readOrg(request.body).name);
    reply.code(201);
    return { org: describeOrg(org) };
  });

  app.get('/orgs', async (): Promise<OrgList> => ({ data: (await orgs.list()).map(describeOrg) }));

  const quotasOf = async (idOrName: string): Promise<QuotaList> => ({
    data: await quotas.list({ orgId: (await getOrg(orgs, idOrName)).id }),
  });
  app.get<OrgParams>('/orgs/:org/quotas', ({ params }) => quotasOf(params.org));
  app.patch<OrgParams>('/orgs/:org/quotas', async ({ params, body }) => {
    await quotas.limits.setOrganization((await getOrg(orgs, params.org)).id, readQuotas(body));
    return quotasOf(params.org);
  });

  app.post('/keys', async (request, reply): Promise<KeyCreated> => {
    const { org, name = 'unnamed', scopes, projectIds, expiresInMs } = readKey(request.body);
    const found = org === undefined ? await orgs.ensureFirst() : await getOrg(orgs, org);
    const made = await apiKeys.create({ orgId: found.id, name, scopes, projectIds, expiresInMs });
    reply.code(201);
    return describeKey(made);
  });

  app.post('/first-key', async (_request, reply): Promise<KeyCreated> => {
    const made = await apiKeys.createFirst((await orgs.ensureFirst()).id);
    reply.code(201);
    return describeKey(made);
  });

  app.post('/reconcile', (): Promise<ReconcileReport> => reconcile());
  app.post('/destroy-all', async () => ({ destroyed: await destroyAll() }));
}

interface OrgParams {
  Params: { org: string };
}

async function getOrg(orgs: OrgRepository, idOrName: string): Promise<Org> {
  const org = await orgs.find(idOrName);
  if (org) return org;
  const message = `There is no organization "${idOrName.slice(0, 80)}"; \`cloche admin org list\` lists the existing ones.`;
  throw new AppError('not_found', message);
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
