import type { AuditAction, Operation, ProjectId } from '@cloche/contract';
import { AUDIT_ACTIONS, type OperationId } from '@cloche/contract';
import type { Credential } from '../api-keys/credential.ts';
import type { Transaction } from '../db/transactions.ts';
import type { AuditLog, NewAuditEvent } from './audit-log.ts';

/** The request that an audit event comes from. */
export interface AuditOrigin {
  readonly credential: Credential;
  readonly requestId: string;
  readonly ip: string;
}

type Target = NewAuditEvent['target'];

/** Returns the audit event that the contract has for an operation; undefined if it has none. */
export function auditActionOf({ id }: Pick<Operation, 'id'>): AuditAction | undefined {
  const action = AUDIT_ACTIONS[id as OperationId];
  return action === 'none' ? undefined : action;
}

/** Returns the fields of an event that follow from its request. */
export function originFields({ credential, requestId, ip }: AuditOrigin) {
  const actor = { type: 'api_key', id: credential.apiKeyId } as const;
  return { orgId: credential.orgId, actor, requestId, ip };
}

/**
 * The audit event of one request. Code that makes the change in a transaction appends the event there; otherwise it is
 * appended right after the change.
 */
export class RequestAudit {
  readonly #log: AuditLog;
  readonly #origin: AuditOrigin;
  readonly #action: AuditAction;
  #isWritten = false;

  constructor(log: AuditLog, origin: AuditOrigin, action: AuditAction) {
    this.#log = log;
    this.#origin = origin;
    this.#action = action;
  }

  /** Appends the event in the transaction of the change that it reports. Call it last in the transaction. */
  async append(tx: Transaction, { id, projectId }: { id: string; projectId?: ProjectId | undefined }): Promise<void> {
    await this.#write({ type: snakeCase(this.#action.target), id }, projectId, tx);
    tx.afterCommit(() => {
      this.#isWritten = true;
    });
  }

  /** Says that an interrupted attempt of the same request made the change, and appended the event in its transaction. */
  wroteEarlier(): void {
    this.#isWritten = true;
  }

  /** Appends the event of a request that succeeded, unless the transaction of its change had it. */
  async ensure(params: unknown, response: unknown): Promise<void> {
    if (this.#isWritten) return;
    const { target, projectId } = targetOf(this.#action, params, response);
    await this.#write(target, projectId);
    this.#isWritten = true;
  }

  #write(target: Target, projectId: ProjectId | undefined, tx?: Transaction): Promise<void> {
    const { action } = this.#action;
    return this.#log.append({ ...originFields(this.#origin), action, target, projectId, outcome: 'allowed' }, tx);
  }
}

/** Returns the resource that a request names in its path, or else that its response has, or else its sandbox. */
export function targetOf(
  { target: name }: AuditAction,
  params: unknown,
  response: unknown,
): { target: Target; projectId: ProjectId | undefined } {
  const named = fieldsOf(params);
  const resource = fieldsOf(fieldsOf(response)[name]);
  const id = textOf(named[`${name}Id`]) ?? textOf(resource.id);
  const target = id === undefined ? sandboxOr(name, textOf(named.sandboxId)) : { type: snakeCase(name), id };
  const projectId = name === 'project' ? target.id : textOf(resource.projectId);
  return { target, projectId: (projectId || undefined) as ProjectId | undefined };
}

function sandboxOr(name: string, sandboxId: string | undefined): Target {
  return sandboxId === undefined ? { type: snakeCase(name), id: '' } : { type: 'sandbox', id: sandboxId };
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
