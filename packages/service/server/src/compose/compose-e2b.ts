import { operations, type SandboxId } from '@cloche/contract';
import type { E2bDeps, PreviewServer, TokenSeal } from '@cloche/e2b';
import { GatewayError } from '@cloche/kit/gateway-error';
import type { Logger } from 'pino';
import type { CatchUp } from '../features/pauses/freeze-moves.ts';
import type { SandboxAccess } from '../features/sandbox-records/sandbox-access.ts';
import { SandboxNotes } from '../features/sandbox-records/sandbox-notes.ts';
import type { SandboxRepository } from '../features/sandbox-records/sandbox-repository.ts';
import { factsOf } from '../features/sandbox-status/status-facts.ts';
import type { SetSandboxTtl } from '../features/sandboxes/lifecycle/set-sandbox-ttl.ts';
import type { SandboxUse } from '../features/sandboxes/use/sandbox-use.ts';
import type { AuditLog } from '../platform/audit-log/audit-log.ts';
import { auditActionOf, RequestAudit } from '../platform/audit-log/request-audit.ts';
import { AppError } from '../platform/base/app-error.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import { networkOf } from '../platform/base/network-of.ts';
import { openText, sealText } from '../platform/base/sealed-text.ts';
import type { Database } from '../platform/db/database.ts';
import { serverSecret } from '../platform/db/server-secret.ts';
import { requireOperationScope } from '../platform/http/authorize.ts';
import type { Callers } from '../platform/http/callers.ts';
import { errorResponse } from '../platform/http/error-response.ts';
import { REQUEST_ID_HEADER, requestIdOf } from '../platform/http/request-id.ts';
import type { LimitRequests } from '../platform/http/request-limit.ts';
import type { Authenticator } from '../platform/keys/authenticator.ts';
import type { Previews } from './compose-previews.ts';
import type { E2bSettings } from './config.ts';
import { equipping, permittingSudoAgain } from './equip-e2b-sandbox.ts';

/** Form of ids of sandboxes, for those that a stranger sends. */
const SANDBOX_ID = /^sbx_[0-9a-z]{1,40}$/;
const SECRET_NAME = 'e2b-access-tokens';
/** Status by which E2B's clients know that a sandbox does not run. */
const pausedStatus = 502;

export interface E2bServicesDeps {
  readonly db: Database;
  readonly log: Logger;
  /** URL at which clients reach the service, if it is configured. */
  readonly publicUrl: string | undefined;
  readonly previews: Pick<Previews, 'domain' | 'hostRouter' | 'publicPorts'>;
  readonly e2b: E2bSettings;
  readonly access: SandboxAccess;
  readonly sandboxUse: SandboxUse;
  readonly sandboxes: Pick<SandboxRepository, 'find'>;
  readonly setSandboxTtl: SetSandboxTtl;
  readonly onBoot: (prepare: CatchUp) => void;
  readonly authenticator: Pick<Authenticator, 'orgOf' | 'authenticate'>;
  readonly limitRequests: LimitRequests;
  readonly auditLog: AuditLog;
  readonly callers: Callers;
  readonly ids: IdSource;
}

/** Opens E2B's protocol, with what it needs of this server beside `/v1`. */
export async function openE2b(deps: E2bServicesDeps, apiUrl: () => string) {
  const { E2bRouter } = await import('@cloche/e2b');
  const { db, log, publicUrl, previews, sandboxes, authenticator, callers } = deps;
  const notes = new SandboxNotes(db);
  deps.onBoot(permittingSudoAgain({ ...deps, notes }));
  return E2bRouter.open({
    apiUrl,
    publicUrl,
    seal: await tokenSeal(db),
    previews: previewServer(deps),
    addressOf: (request) => networkOf(callers.addressOf(request)),
    ownerOf: (apiKey) => authenticator.orgOf(apiKey) ?? '',
    async stateOf(sandboxId) {
      const found = SANDBOX_ID.test(sandboxId) ? await sandboxes.find(sandboxId) : undefined;
      if (!found || factsOf(found).isOver) return undefined;
      return { isPaused: factsOf(found).needsWake, wake: found.pause.wake };
    },
    overwriteTtl: refusing(ttlOverwriting(deps)),
    equip: refusing(equipping({ ...deps, ...previews, notes })),
    notes,
    log,
  });
}

function previewServer({ e2b, previews }: E2bServicesDeps): PreviewServer {
  const { domain, hostRouter, publicPorts } = previews;
  const find = async (sandboxId: string, port: number) =>
    e2b.publicPorts ? publicPorts.find(sandboxId, port) : undefined;
  return {
    domain,
    handle: (request, response) => hostRouter.handle(request, response, { pausedStatus }),
    upgrade: (connection) => hostRouter.upgrade(connection, { pausedStatus }),
    isPublic: async (sandboxId) => (await find(sandboxId, 1)) !== undefined,
    async findPublic(sandboxId, port) {
      const served = await find(sandboxId, port);
      if (!served) return undefined;
      return {
        handle: (request, response) => hostRouter.handle(request, response, { served, pausedStatus }),
        upgrade: (connection) => hostRouter.upgrade(connection, { served, pausedStatus }),
      };
    },
  };
}

/** Seals access tokens with a key that all servers of the database share. */
async function tokenSeal(db: Database): Promise<TokenSeal> {
  const key = await serverSecret(db, SECRET_NAME);
  return {
    seal: (text) => sealText(text, key, SECRET_NAME),
    open: (sealed) => openText(sealed, key, SECRET_NAME),
  };
}

/**
 * Returns what sets a lifetime, which may end earlier than before. It has the scope, the request limit and the audit
 * event of `setSandboxTtl`.
 *
 * SECURITY: held by "is set with the scope and the organization of the key alone" in e2b-control.test.ts.
 */
function ttlOverwriting(deps: E2bServicesDeps): E2bDeps['overwriteTtl'] {
  const { authenticator, limitRequests, setSandboxTtl, auditLog, callers, ids } = deps;
  const operation = operations.setSandboxTtl;
  return async (request, apiKey, sandboxId, ttlMs) => {
    const credential = await authenticator.authenticate(apiKey);
    const rate = await limitRequests(credential);
    if (rate?.refusal) throw rate.refusal;
    requireOperationScope(credential, operation, { sandboxId });
    const requestId = requestIdOf(request.headers[REQUEST_ID_HEADER], ids);
    const action = auditActionOf(operation);
    const origin = { credential, requestId, ip: callers.addressOf(request) };
    const audit = action && new RequestAudit(auditLog, origin, action);
    await setSandboxTtl.overwrite({ credential, audit }, sandboxId as SandboxId, ttlMs);
  };
}

/** Returns `act` with its errors as E2B's clients read them. */
function refusing<Parameters extends unknown[]>(act: (...parameters: Parameters) => Promise<void>): typeof act {
  return (...parameters) =>
    act(...parameters).catch((error: unknown) => {
      throw error instanceof AppError ? refusalOf(error) : error;
    });
}

function refusalOf(error: AppError): GatewayError {
  const { status, headers } = errorResponse(error, '');
  // E2B does not remember a sandbox that has ended.
  const isGone = error.is('sandbox_destroyed') || error.is('sandbox_failed');
  return new GatewayError(isGone ? 404 : status, `${error.code}: ${error.message}`, headers);
}
