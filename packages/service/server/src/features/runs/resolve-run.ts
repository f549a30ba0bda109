import { DEFAULT_CWD, LIMITS, type RunCodeBody, type SandboxId } from '@cloche/contract';
import { invalidRequest, notFound } from '../../platform/base/app-error.ts';
import type { Call } from '../../platform/call/call.ts';
import { type ContextRecord, normalizeCwd } from '../contexts/context.ts';
import type { ContextRepository } from '../contexts/context-repository.ts';
import type { CreateContext } from '../contexts/create-context.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxAccess } from '../sandbox-records/sandbox-access.ts';

/** The parameters of a run. */
export interface RunBody extends RunCodeBody {
  /** A client's message to the kernel. The kernel answers it instead of running the code. */
  readonly message?: string;
}

export interface RunRequest {
  readonly params: { readonly sandboxId: SandboxId };
  readonly body: RunBody;
  /** Result of `LookUpRun.lookUp`, if it was called when the request came in. */
  readonly lookedUp?: LookedUpRun | undefined;
}

/** The rows that a run needs, as reads that have already begun. */
export interface LookedUpRun {
  /** Rejects as `SandboxAccess.getLive` does. */
  readonly sandbox: Promise<SandboxRecord>;
  /** Undefined if there is no such context, or no default one yet. */
  readonly context: Promise<ContextRecord | undefined>;
}

/** A run with its sandbox and context. */
export interface ResolvedRun {
  readonly call: Call;
  readonly sandbox: SandboxRecord;
  readonly context: ContextRecord;
  readonly code: string;
  readonly message: string | undefined;
  /** Whether large and binary outputs become artifacts. */
  readonly isPromoting: boolean;
  readonly timeoutMs: number;
}

/** Checks rules that the schema cannot express, and finds or creates the context of a run. */
export class ResolveRun {
  readonly #access: SandboxAccess;
  readonly #contexts: ContextRepository;
  readonly #createContext: CreateContext;

  constructor(access: SandboxAccess, contexts: ContextRepository, createContext: CreateContext) {
    this.#access = access;
    this.#contexts = contexts;
    this.#createContext = createContext;
  }

  /** @throws AppError `invalid_request`, `not_found`, `forbidden`, `sandbox_destroyed` or `sandbox_failed`. */
  async resolve(call: Call, { params, body, lookedUp }: RunRequest): Promise<ResolvedRun> {
    checkCodeSize(body.code);
    const sandbox = await (lookedUp?.sandbox ?? this.#access.getLive(call.credential, params.sandboxId));
    const context =
      body.contextId === undefined
        ? await this.#getDefaultContext(sandbox, body, lookedUp)
        : await this.#getNamedContext(sandbox, body.contextId, body, lookedUp);
    const contextTimeoutMs = body.contextId === undefined ? undefined : context.timeoutMs;
    const timeoutMs = body.timeoutMs ?? contextTimeoutMs ?? LIMITS.runTimeoutDefaultMs;
    const isPromoting = body.artifactPolicy === 'promote';
    return { call, sandbox, context, code: body.code, message: body.message, isPromoting, timeoutMs };
  }

  async #getDefaultContext(
    sandbox: SandboxRecord,
    { cwd, language }: RunCodeBody,
    lookedUp: LookedUpRun | undefined,
  ): Promise<ContextRecord> {
    if (normalizeCwd(cwd) !== DEFAULT_CWD) {
      const message = `must be ${DEFAULT_CWD} for the default context; create a context with this cwd and name it in body.contextId`;
      throw invalidRequest({ path: 'body.cwd', message });
    }
    const known = lookedUp && (await lookedUp.context);
    return known ?? this.#createContext.getDefault(sandbox, language);
  }

  async #getNamedContext(
    sandbox: SandboxRecord,
    id: string,
    { cwd, language }: RunCodeBody,
    lookedUp: LookedUpRun | undefined,
  ): Promise<ContextRecord> {
    const context = await (lookedUp?.context ?? this.#contexts.find(sandbox.id, id));
    if (!context || context.deletedAt !== undefined) throw notFound('code context', id);
    if (context.language !== language) {
      const message = `is "${language}", but the context "${id}" is "${context.language}"`;
      throw invalidRequest({ path: 'body.language', message });
    }
    if (cwd !== undefined && normalizeCwd(cwd) !== context.cwd) {
      const message = `is not the cwd of the context, "${context.cwd}"; leave it out, or create another context`;
      throw invalidRequest({ path: 'body.cwd', message });
    }
    return context;
  }
}

function checkCodeSize(code: string): void {
  const bytes = Buffer.byteLength(code);
  if (bytes <= LIMITS.codeBytes) return;
  const message = `has ${bytes} bytes of UTF-8; at most ${LIMITS.codeBytes} are allowed`;
  throw invalidRequest({ path: 'body.code', message });
}
