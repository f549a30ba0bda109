import { LIMITS, type Secret } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import type { Cloche } from '@cloche/sdk';
import type { FastifyInstance } from 'fastify';
import { SECRET_METADATA, textUpTo } from '../bounded-schemas.ts';
import type { E2bDeps } from '../e2b-deps.ts';
import { clientOf } from './client-of.ts';

interface ById {
  Params: { secretID: string };
}
interface SecretBody {
  readonly name: string;
  readonly value: string;
  readonly metadata?: Readonly<Record<string, string>> | null;
}

const value = textUpTo(LIMITS.secretValueLength);
const CREATE_SCHEMA = {
  body: {
    type: 'object',
    required: ['name', 'value'],
    properties: { name: textUpTo(LIMITS.secretNameLength), value, metadata: SECRET_METADATA },
  },
};
const UPDATE_SCHEMA = {
  body: { type: 'object', required: ['value'], properties: { value, metadata: SECRET_METADATA } },
};

/** Registers secrets, which are those of `/v1`. Their hosts are in `metadata.hosts`, separated by commas. */
export async function secretRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  app.get('/secrets', async (request) => (await clientOf(request, deps).secrets.list()).map(secretOf));
  app.post<{ Body: SecretBody }>('/secrets', { schema: CREATE_SCHEMA }, async (request, reply) => {
    const { name, value, metadata } = request.body;
    const hosts = hostsOf(metadata);
    if (!hosts)
      throw new GatewayError(
        400,
        'Cloche sends a secret to named hosts only: give metadata.hosts, separated by commas.',
      );
    return reply.code(201).send(secretOf(await clientOf(request, deps).secrets.create(name, { value, hosts })));
  });
  app.get<ById>('/secrets/:secretID', async (request) =>
    secretOf(await find(clientOf(request, deps), request.params.secretID)),
  );
  app.post<ById & { Body: SecretBody }>('/secrets/:secretID', { schema: UPDATE_SCHEMA }, async (request) => {
    const { secrets } = clientOf(request, deps);
    const { id } = await find(clientOf(request, deps), request.params.secretID);
    return secretOf(await secrets.update(id, { value: request.body.value, hosts: hostsOf(request.body.metadata) }));
  });
  app.delete<ById>('/secrets/:secretID', async (request, reply) => {
    const { id } = await find(clientOf(request, deps), request.params.secretID);
    await clientOf(request, deps).secrets.delete(id);
    return reply.code(204).send();
  });
}

/** Finds a secret by its id or its name. Of several with one name, it is the newest. @throws GatewayError 404 */
async function find({ secrets }: Cloche, given: string): Promise<Secret> {
  const found = (await secrets.list()).find(({ id, name }) => id === given || name === given);
  if (found) return found;
  throw new GatewayError(404, `There is no secret ${given}.`);
}

function hostsOf(metadata: SecretBody['metadata']): string[] | undefined {
  return metadata?.hosts?.split(',').map((host) => host.trim());
}

function secretOf({ id, name, hosts, createdAt, updatedAt }: Secret) {
  return { secretID: id, name, currentVersion: 1, metadata: { hosts: hosts.join(',') }, createdAt, updatedAt };
}
