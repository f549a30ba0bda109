import type { AuditAction, Operation, ProjectId } from '@cloche/contract';
import { AUDIT_ACTIONS, type OperationId } from '@cloche/contract';
import type { Transaction } from '../db/transactions.ts';
import type { Credential } from '../keys/credential.ts';
import type { AuditChanges, AuditLog, NewAuditEvent } from './audit-log.ts';

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

/** A changed resource. */
export interface Subject {
  readonly id: string;
  readonly projectId?: ProjectId | undefined;
}

/**
 * The audit event of one request. Code that changes the database appends the event in the transaction of the change.
 * Code that changes something else announces the event before the change. A request that changes nothing has no event.
 */
export class RequestAudit {
  readonly #log: AuditLog;
  readonly #origin: AuditOrigin;
  readonly #action: AuditAction;
  #written: Pick<NewAuditEvent, 'target' | 'projectId'> | undefined;

  constructor(log: AuditLog, origin: AuditOrigin, action: AuditAction) {
    this.#log = log;
    this.#origin = origin;
    this.#action = action;
  }

  /** The target of the event, once the event is committed. */
  get written(): Pick<NewAuditEvent, 'target' | 'projectId'> | undefined {
    return this.#written;
  }

  /** Appends the event in the transaction of the change that it reports. Call it last in the transaction. */
  async append(tx: Transaction, subject: Subject, changes?: AuditChanges): Promise<void> {
    const written = this.#targetOf(subject);
    await this.#write(this.#action.action, { ...written, changes }, tx);
    tx.afterCommit(() => {
      this.#written = written;
    });
  }

  /** Appends the event of a further change that the request makes to a resource of the same kind. */
  appendFurther(tx: Transaction, action: string, subject: Subject): Promise<void> {
    return this.#write(action, this.#targetOf(subject), tx);
  }

  /** Appends the event of a change outside of the database. Call it right before the change. */
  async announce(subject: Subject): Promise<void> {
    const written = this.#targetOf(subject);
    await this.#write(this.#action.action, written);
    this.#written = written;
  }

  #targetOf({ id, projectId }: Subject): Pick<NewAuditEvent, 'target' | 'projectId'> {
    return { target: { type: snakeCase(this.#action.target), id }, projectId };
  }

  #write(
    action: string,
    written: Pick<NewAuditEvent, 'target' | 'projectId' | 'changes'>,
    tx?: Transaction,
  ): Promise<void> {
    return this.#log.append({ ...originFields(this.#origin), action, ...written, outcome: 'allowed' }, tx);
  }
}

/** Returns the resource that the path of a request names, or else its sandbox. */
export function targetOf({ target: name }: AuditAction, params: unknown): Target {
  const named = (params ?? {}) as Record<string, string | undefined>;
  const id = named[`${name}Id`] ?? named[name];
  if (id === undefined && named.sandboxId !== undefined) return { type: 'sandbox', id: named.sandboxId };
  return { type: snakeCase(name), id: id ?? '' };
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
