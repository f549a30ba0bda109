import { operations, PORTS_PUBLISHED, type SandboxId } from '@cloche/contract';
import type { E2bDeps } from '@cloche/e2b';
import type { Authenticator } from '../api-keys/authenticator.ts';
import type { AuditLog } from '../audit/audit-log.ts';
import { RequestAudit } from '../audit/request-audit.ts';
import type { IdSource } from '../base/id-source.ts';
import type { Callers } from '../http/callers.ts';
import { REQUEST_ID_HEADER, requestIdOf } from '../http/request-id.ts';
import type { PublicPorts } from '../previews/public-ports.ts';
import type { SandboxAccess } from '../sandboxes/record/sandbox-access.ts';
import type { E2bSettings } from './config.ts';

export interface EquipmentDeps {
  readonly e2b: E2bSettings;
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly access: SandboxAccess;
  readonly publicPorts: PublicPorts;
  readonly auditLog: AuditLog;
  readonly callers: Callers;
  readonly ids: IdSource;
}

/** Returns what gives a sandbox of an E2B client its public ports, as far as the operator and its key permit them. */
export function equipping(deps: EquipmentDeps): E2bDeps['equip'] {
  const { e2b, authenticator, access, publicPorts, auditLog, callers, ids } = deps;
  return async (request, apiKey, sandboxId, wanted) => {
    if (!(e2b.publicPorts && wanted.publicPorts)) return;
    const credential = await authenticator.authenticate(apiKey);
    const { scope } = operations.openPreview;
    if (scope !== null && !credential.scopes.has(scope)) return;
    const sandbox = await access.getLive(credential, sandboxId as SandboxId);
    const requestId = requestIdOf(request.headers[REQUEST_ID_HEADER], ids);
    const origin = { credential, requestId, ip: callers.addressOf(request) };
    await publicPorts.publish(sandbox, credential.apiKeyId, new RequestAudit(auditLog, origin, PORTS_PUBLISHED));
  };
}
