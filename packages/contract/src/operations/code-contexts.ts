import { Type } from 'typebox';
import { CodeContext, CreateContextBody } from '../code-context.ts';
import { ContextIdSchema, SandboxIdSchema } from '../ids.ts';
import { listOf } from '../list.ts';
import type { Operation } from '../operation.ts';
import { SandboxParams } from './sandboxes.ts';

const ContextParams = Type.Object({ sandboxId: SandboxIdSchema, contextId: ContextIdSchema });
const ContextResponse = Type.Object({ context: CodeContext });
const collection = '/v1/sandboxes/{sandboxId}/code/contexts';
const common = { tag: 'Code contexts', scope: 'code:run' } as const;

export const createContext = {
  ...common,
  id: 'createContext',
  method: 'POST',
  path: collection,
  summary: 'Create a code context',
  description: 'Waits for a sandbox that is still `creating`.',
  idempotency: 'required',
  params: SandboxParams,
  body: CreateContextBody,
  response: { status: 201, schema: ContextResponse, description: 'The context, ready for runs.' },
  errors: ['sandbox_destroyed', 'sandbox_failed'],
} as const satisfies Operation;

export const listContexts = {
  ...common,
  id: 'listContexts',
  method: 'GET',
  path: collection,
  summary: 'List the active contexts',
  idempotency: 'none',
  params: SandboxParams,
  response: { status: 200, schema: listOf(CodeContext), description: 'The whole collection, oldest first.' },
  errors: [],
} as const satisfies Operation;

export const getContext = {
  ...common,
  id: 'getContext',
  method: 'GET',
  path: `${collection}/{contextId}`,
  summary: 'Get an active context',
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
  summary: 'Delete a context and end its execution',
  description: 'Idempotent: a deleted one is returned again. Those that ended with their sandbox are `not_found`.',
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
  summary: 'Stop the current execution and keep the state',
  description: 'The run answers with `CanceledError`. Without a current execution nothing happens.',
  idempotency: 'optional',
  params: ContextParams,
  response: { status: 200, schema: ContextResponse, description: 'The context.' },
  errors: ['sandbox_destroyed', 'sandbox_failed'],
} as const satisfies Operation;

export const restartContext = {
  ...common,
  id: 'restartContext',
  method: 'POST',
  path: `${collection}/{contextId}/restart`,
  summary: 'Give the context a fresh kernel',
  description: 'The current run answers with `CanceledError`; variables are gone.',
  idempotency: 'optional',
  params: ContextParams,
  response: { status: 200, schema: ContextResponse, description: 'The context.' },
  errors: ['sandbox_destroyed', 'sandbox_failed'],
} as const satisfies Operation;
