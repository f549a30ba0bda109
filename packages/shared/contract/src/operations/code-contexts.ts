import { Type } from 'typebox';
import { CodeContext, CreateContextBody } from '../code-context.ts';
import { ContextIdSchema, SandboxIdSchema } from '../ids.ts';
import { listOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { SandboxParams } from './sandboxes.ts';

export const ContextParams = Type.Object({ sandboxId: SandboxIdSchema, contextId: ContextIdSchema });
export const ContextResponse = Type.Object({ context: CodeContext });
const collection = '/v1/sandboxes/{sandboxId}/code/contexts';
const common = { tag: 'Code contexts', scope: 'code:run' } as const;

export const createContext = {
  ...common,
  id: 'createContext',
  method: 'POST',
  path: collection,
  summary: 'Create a code context',
  description: 'If the sandbox is still being created, the request waits for it.',
  idempotency: 'required',
  params: SandboxParams,
  body: CreateContextBody,
  response: { status: 201, schema: ContextResponse, description: 'The context. It is ready for runs.' },
  errors: ['conflict', 'sandbox_destroyed', 'sandbox_failed', 'sandbox_incompatible'],
} as const satisfies Operation;

export const listContexts = {
  ...common,
  id: 'listContexts',
  method: 'GET',
  path: collection,
  summary: 'List the contexts of a sandbox',
  description: 'Only active contexts, oldest first.',
  idempotency: 'none',
  params: SandboxParams,
  query: Type.Object(PAGE, { additionalProperties: false }),
  response: { status: 200, schema: listOf(CodeContext), description: 'All active contexts.' },
  errors: [],
} as const satisfies Operation;

export const getContext = {
  ...common,
  id: 'getContext',
  method: 'GET',
  path: `${collection}/{contextId}`,
  summary: 'Get a context',
  description: 'A deleted context is `not_found`.',
  idempotency: 'none',
  params: ContextParams,
  response: { status: 200, schema: ContextResponse, description: 'The context.' },
  errors: [],
} as const satisfies Operation;

export const deleteContext = {
  ...common,
  id: 'deleteContext',
  method: 'DELETE',
  path: `${collection}/{contextId}`,
  summary: 'Delete a context',
  description:
    'Ends the current run of the context and discards its variables. Deleting a deleted context returns it again; a ' +
    'context that ended with its sandbox is `not_found`.',
  idempotency: 'none',
  params: ContextParams,
  response: { status: 200, schema: ContextResponse, description: 'The context with `deletedAt`.' },
  errors: [],
} as const satisfies Operation;

export const interruptContext = {
  ...common,
  id: 'interruptContext',
  method: 'POST',
  path: `${collection}/{contextId}/interrupt`,
  summary: 'Interrupt the current run of a context',
  description:
    'The run ends with `CanceledError`; the variables are kept. Without a current run the request has no effect.',
  idempotency: 'optional',
  params: ContextParams,
  response: { status: 200, schema: ContextResponse, description: 'The context.' },
  errors: ['sandbox_destroyed', 'sandbox_failed', 'sandbox_incompatible'],
} as const satisfies Operation;

export const restartContext = {
  ...common,
  id: 'restartContext',
  method: 'POST',
  path: `${collection}/{contextId}/restart`,
  summary: 'Restart a context',
  description: 'Replaces the kernel of the context: its variables are lost. The current run ends with `CanceledError`.',
  idempotency: 'optional',
  params: ContextParams,
  response: { status: 200, schema: ContextResponse, description: 'The context.' },
  errors: ['conflict', 'sandbox_destroyed', 'sandbox_failed', 'sandbox_incompatible'],
} as const satisfies Operation;
