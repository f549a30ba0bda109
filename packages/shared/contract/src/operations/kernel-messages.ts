import { type Static, Type } from 'typebox';
import { LANGUAGES } from '../code-context.ts';
import { CodeRunEvent } from '../code-run.ts';
import { LIMITS } from '../limits.ts';
import { oneOf } from '../list.ts';
import type { Operation } from '../operation.ts';
import { ContextParams, ContextResponse } from './code-contexts.ts';

/**
 * An event of a run, or a message of its kernel to the client. Only the kernel and the client interpret the message.
 */
export const KernelMessageEvent = Type.Union([
  CodeRunEvent,
  Type.Object({ type: Type.Literal('message'), data: Type.String() }),
]);
export type KernelMessageEvent = Static<typeof KernelMessageEvent>;

/** A client of Jupyter sends frames of at most 1 MiB, whose buffers become base64. */
const Message = Type.String({ minLength: 1, maxLength: 2 * 1024 * 1024 });
const path = '/internal/sandboxes/{sandboxId}/contexts/{contextId}/messages';
const common = { method: 'POST', path, tag: 'Code runs', scope: 'code:run', idempotency: 'none' } as const;
const errors = ['sandbox_destroyed', 'sandbox_failed', 'sandbox_incompatible'] as const;

/*
 * Operations for the protocols that the service speaks beside `/v1`. They are served as every other operation, and are in
 * neither its document nor its clients, because what the messages mean depends on the release.
 */

export const sendKernelMessage = {
  ...common,
  id: 'sendKernelMessage',
  summary: 'Send a message to the kernel of a context, and stream what it tells',
  description: 'Is a run of the context: it waits for its turn, and has the limits of a run.',
  params: ContextParams,
  body: Type.Object({
    language: oneOf(LANGUAGES),
    message: Message,
    timeoutMs: Type.Integer({ minimum: 1, maximum: LIMITS.runTimeoutMaxMs }),
  }),
  response: { status: 200, schema: Type.String(), description: 'A stream of events.' },
  events: KernelMessageEvent,
  errors,
} as const satisfies Operation;

export const answerKernelMessage = {
  ...common,
  id: 'answerKernelMessage',
  path: `${path}/answers`,
  summary: 'Answer a message of the run that a context executes',
  params: ContextParams,
  body: Type.Object({ message: Message }),
  response: { status: 200, schema: ContextResponse, description: 'The context.' },
  errors,
} as const satisfies Operation;
