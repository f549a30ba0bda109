import { operations, PORTS_PUBLISHED, type SandboxId } from '@cloche/contract';
import type { E2bDeps } from '@cloche/e2b';
import { Deadline } from '@cloche/node-support';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import type { CatchUp } from '../features/pauses/freeze-moves.ts';
import type { PublicPorts } from '../features/previews/public-ports.ts';
import type { SandboxAccess } from '../features/sandbox-records/sandbox-access.ts';
import type { SandboxNotes } from '../features/sandbox-records/sandbox-notes.ts';
import type { Act, SandboxUse } from '../features/sandboxes/use/sandbox-use.ts';
import type { AuditLog } from '../platform/audit-log/audit-log.ts';
import { RequestAudit } from '../platform/audit-log/request-audit.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import type { Callers } from '../platform/http/callers.ts';
import { REQUEST_ID_HEADER, requestIdOf } from '../platform/http/request-id.ts';
import type { Authenticator } from '../platform/keys/authenticator.ts';
import type { E2bSettings } from './config.ts';

/** Name of the note of a sandbox that has `sudo`. */
const SUDO_NOTE = 'sudo';

export interface EquipmentDeps {
  readonly e2b: E2bSettings;
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly access: SandboxAccess;
  readonly publicPorts: PublicPorts;
  readonly sandboxUse: Pick<SandboxUse, 'with'>;
  readonly notes: Pick<SandboxNotes, 'put' | 'all'>;
  readonly auditLog: AuditLog;
  readonly callers: Callers;
  readonly ids: IdSource;
}

/**
 * Returns what gives a sandbox of an E2B client `sudo` and public ports, as far as the operator and its key permit them.
 */
export function equipping(deps: EquipmentDeps): E2bDeps['equip'] {
  const { e2b, authenticator, access, publicPorts, sandboxUse, notes, auditLog, callers, ids } = deps;
  const { readyMs, actMs } = AGENT_LIMITS;
  return async (request, apiKey, sandboxId, wanted) => {
    const credential = await authenticator.authenticate(apiKey);
    const sandbox = await access.getLive(credential, sandboxId as SandboxId);
    const sudo = async () => {
      using limit = new Deadline(readyMs);
      await notes.put(sandbox.id, SUDO_NOTE, 'permitted');
      await sandboxUse.with(sandbox, { signal: limit.signal, actMs }, permitSudo);
    };
    const publish = () => {
      const requestId = requestIdOf(request.headers[REQUEST_ID_HEADER], ids);
      const origin = { credential, requestId, ip: callers.addressOf(request) };
      const audit = new RequestAudit(auditLog, origin, PORTS_PUBLISHED);
      return publicPorts.publish({ credential, audit }, sandbox);
    };
    const { scope } = operations.openPreview;
    const mayPublish = e2b.publicPorts && wanted.publicPorts && (scope === null || credential.scopes.has(scope));
    // The caller ends the sandbox after a failure, and neither must go on after that.
    const results = await Promise.allSettled([e2b.sudo && sudo(), mayPublish && publish()]);
    const failed = results.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
  };
}

/** Returns what gives `sudo` again to a sandbox whose agent was lost, if it had it. */
export function permittingSudoAgain({ e2b, notes }: Pick<EquipmentDeps, 'e2b' | 'notes'>): CatchUp {
  return async (sandbox, agent, signal) => {
    if (e2b.sudo && (await notes.all(sandbox.id)).has(SUDO_NOTE)) await agent.permitSudo(signal);
  };
}

const permitSudo: Act<void> = (agent, _, signal) => agent.permitSudo(signal);
