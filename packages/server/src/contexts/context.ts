import { posix } from 'node:path';
import { type CodeContext, type ContextId, DEFAULT_CWD, type Language, LIMITS, type SandboxId } from '@cloche/contract';
import { timestamp } from '../base/clock.ts';

/** The service's own record of a context; what the agent knows is only its means. */
export interface ContextRecord {
  readonly id: ContextId;
  readonly sandboxId: SandboxId;
  readonly generation: number;
  readonly language: Language;
  /** Absolute, without `.` and `..`; links are the agent's matter. */
  readonly cwd: string;
  readonly isDefault: boolean;
  /** As the client gave it: then it is also the default of the context's runs. */
  readonly timeoutMs: number | undefined;
  readonly createdAt: number;
  readonly deletedAt: number | undefined;
  readonly idempotencyRecordId: string | undefined;
}

/** What a `cwd` means: relative to the workspace, and the same however it is spelled. */
export function normalizeCwd(cwd: string | undefined): string {
  return cwd === undefined ? DEFAULT_CWD : posix.resolve(DEFAULT_CWD, cwd);
}

/** How long its kernel may take to start. */
export function openingMs(context: ContextRecord): number {
  return context.timeoutMs ?? LIMITS.contextTimeoutDefaultMs;
}

export function toCodeContext(record: ContextRecord): CodeContext {
  return {
    id: record.id,
    sandboxId: record.sandboxId,
    language: record.language,
    cwd: record.cwd,
    isDefault: record.isDefault,
    createdAt: timestamp(record.createdAt),
    ...(record.deletedAt === undefined ? {} : { deletedAt: timestamp(record.deletedAt) }),
  };
}
