/** Clients that create keys, use them with every server and revoke them. */
import { operations } from '@cloche/contract';
import { composeApiKeys } from '../../../src/compose/compose-api-keys.ts';
import type { AuditLog } from '../../../src/platform/audit-log/audit-log.ts';
import { hashApiKey, makeApiKey } from '../../../src/platform/keys/api-key-format.ts';
import { OrgRepository } from '../../../src/platform/tenancy/org-repository.ts';
import { SqlProjectRepository } from '../../../src/platform/tenancy/project-repository.ts';
import { ORG } from '../../seeded-organizations.ts';
import type { Clients } from '../clients.ts';
import type { Workload, WorkloadWorld } from '../workload.ts';

/** Requests with a key that begin after its revocation was answered. */
const USES_AFTER = 4;

export function openApiKeys(world: WorkloadWorld): Workload {
  const { key: operatorKey, publicPart } = makeApiKey();
  world.database.execute(
    'insert into api_keys (id, org_id, name, public_part, secret_hash, scopes, created_at) values (?, ?, ?, ?, ?, ?, 0)',
    ['key_operator', ORG, 'operator', publicPart, hashApiKey(operatorKey), JSON.stringify(['*'])],
  );

  return {
    async compose(parts) {
      const { db, clock, ids, inFlight, settings } = parts;
      const keys = await composeApiKeys({
        ...parts,
        orgs: new OrgRepository(db, clock, ids),
        projects: new SqlProjectRepository(db),
        // Only operators' operations use it.
        auditLog: {} as AuditLog,
        bootstrapKey: undefined,
        recordRetentionMs: settings.recordRetentionMs,
      });
      const { routes, start } = keys.over([inFlight]);
      return { routes, authenticator: keys.authenticator, start: async () => start() };
    },
    async work(clients) {
      await clients.begin();
      const body = { name: 'client', scopes: ['*'] };
      const create = { operation: operations.createApiKey, body, key: clients.nextKey(), secret: operatorKey };
      const created = await clients.insist(create);
      if (created.code !== undefined) return world.violate(`no key was created: ${created.code}`);
      const { apiKey, secret } = JSON.parse(created.body);
      const revocation = { begins: false, isAnswered: false };
      const using = [1, 2].map(() => useKey(clients, secret, revocation));
      await clients.think();
      revocation.begins = true;
      const params = { apiKeyId: apiKey.id };
      await clients.insist({ operation: operations.revokeApiKey, params, key: clients.nextKey(), secret: operatorKey });
      revocation.isAnswered = true;
      await Promise.all(using);
    },
  };

  async function useKey(clients: Clients, secret: string, revocation: { begins: boolean; isAnswered: boolean }) {
    for (let left = USES_AFTER; left > 0; ) {
      const wasRevoked = revocation.isAnswered;
      const { status, code } = await clients.attempt({ operation: operations.listSandboxes, secret });
      if (wasRevoked && status === 200) world.violate('a key is accepted after the answer to its revocation');
      if (!revocation.begins && code === 'unauthorized') world.violate('a valid key is refused');
      if (wasRevoked) left -= 1;
      if (clients.random.chance(0.4)) await clients.think();
    }
  }
}
