import { posix } from 'node:path';
import { type CodeContext, type ContextId, DEFAULT_CWD, type Language, LIMITS, type SandboxId } from '@cloche/contract';
import { timestamp } from '../../platform/base/clock.ts';

/** The service's record of a context, which is authoritative. The agent only has the kernel. */
export interface ContextRecord {
  readonly id: ContextId;
  readonly sandboxId: SandboxId;
  readonly generation: number;
  readonly language: Language;
  /** Absolute, without `.` and `..`. The agent resolves symbolic links. */
  readonly cwd: string;
  readonly isDefault: boolean;
  /** As given by the client. If set, it is also the default timeout of the context's runs. */
  readonly timeoutMs: number | undefined;
  readonly createdAt: number;
  readonly deletedAt: number | undefined;
  readonly idempotencyRecordId: string | undefined;
}

/** Returns the absolute form of a `cwd`, which is relative to the workspace. */
export function normalizeCwd(cwd: string | undefined): string {
  return cwd === undefined ? DEFAULT_CWD : posix.resolve(DEFAULT_CWD, cwd);
}

/** Returns the time limit for the start of the context's kernel. */
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
