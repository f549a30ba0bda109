import { Type } from 'typebox';
import { CodeRun, CodeRunEvent, RunCodeBody } from '../code-run.ts';
import type { Operation } from '../operation.ts';
import { SandboxParams } from './sandboxes.ts';

const common = {
  method: 'POST',
  tag: 'Code runs',
  scope: 'code:run',
  extraScope: { scope: 'artifact:create', when: '`artifactPolicy` is `promote`' },
  idempotency: 'required',
  params: SandboxParams,
  body: RunCodeBody,
  errors: ['sandbox_destroyed', 'sandbox_failed'],
} as const;

export const runCode = {
  ...common,
  id: 'runCode',
  path: '/v1/sandboxes/{sandboxId}/code/runs',
  summary: 'Run code and wait for the result',
  description: 'Code that fails or times out answers 200 with `run.error`.',
  response: { status: 200, schema: Type.Object({ run: CodeRun }), description: 'The result.' },
} as const satisfies Operation;

export const streamCode = {
  ...common,
  id: 'streamCode',
  path: '/v1/sandboxes/{sandboxId}/code/runs/stream',
  summary: 'Run code and stream what it prints',
  description:
    'Server-sent events of `{ type, data }`. The last is `complete` with the result, or `error` whose `data.name` is an ' +
    'error code of the service. Disconnecting cancels. A replay is the `complete` event alone; there are no event ids.',
  response: { status: 200, schema: Type.String(), description: 'The event stream.' },
  events: CodeRunEvent,
} as const satisfies Operation;
