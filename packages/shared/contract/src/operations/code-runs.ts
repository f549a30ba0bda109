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
  errors: ['conflict', 'sandbox_destroyed', 'sandbox_failed', 'sandbox_incompatible'],
} as const;

export const runCode = {
  ...common,
  id: 'runCode',
  path: '/v1/sandboxes/{sandboxId}/code/runs',
  summary: 'Run code and wait for the result',
  description: 'Code that fails or times out is not an error of the request: the response is 200 and has `run.error`.',
  response: { status: 200, schema: Type.Object({ run: CodeRun }), description: 'The result of the run.' },
} as const satisfies Operation;

export const streamCode = {
  ...common,
  id: 'streamCode',
  path: '/v1/sandboxes/{sandboxId}/code/runs/stream',
  summary: 'Run code and stream its output',
  description:
    'The output arrives as server-sent events while the code runs. The last event is `complete` with the whole result, or ' +
    '`error` if the service failed. The run is canceled if the client disconnects. A replay of an `Idempotency-Key` has ' +
    'only the `complete` event. Events have no ids: this stream cannot be resumed.',
  response: { status: 200, schema: Type.String(), description: 'A stream of events.' },
  events: CodeRunEvent,
} as const satisfies Operation;
