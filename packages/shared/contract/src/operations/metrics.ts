import { Type } from 'typebox';
import { LIMITS } from '../limits.ts';
import { queryTime } from '../list.ts';
import { CurrentSandboxMetrics, SandboxMetrics } from '../metrics.ts';
import type { Operation } from '../operation.ts';
import { Text } from '../text.ts';
import { SandboxParams } from './sandboxes.ts';

export const getSandboxMetrics = {
  id: 'getSandboxMetrics',
  method: 'GET',
  path: '/v1/sandboxes/{sandboxId}/metrics',
  tag: 'Sandboxes',
  summary: 'Get the metrics of a sandbox',
  description:
    'Processor, memory, disk, processes and network traffic, now and at intervals of 10 seconds for the last hour. They ' +
    'are measured from outside: no process of the sandbox does anything for it, and its idle timeout is not affected. ' +
    'They end with the sandbox.',
  scope: 'sandbox:read',
  idempotency: 'none',
  params: SandboxParams,
  query: Type.Object(
    {
      from: Type.Optional(
        queryTime('Only samples at or after this time, in ISO 8601. Default: those of the last hour.'),
      ),
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: Type.Object({ metrics: SandboxMetrics }), description: 'The metrics.' },
  errors: ['sandbox_destroyed', 'sandbox_failed'],
} as const satisfies Operation;

export const listSandboxMetrics = {
  id: 'listSandboxMetrics',
  method: 'GET',
  path: '/v1/sandbox-metrics',
  tag: 'Sandboxes',
  summary: 'List the metrics of live sandboxes',
  description:
    'What each sandbox uses now, the newest sandboxes first. Leaves out sandboxes that are still being created or have ' +
    'ended. One request measures them all, so it replaces one request for each sandbox.',
  scope: 'sandbox:read',
  idempotency: 'none',
  query: Type.Object(
    {
      projectId: Type.Optional(Text({ description: 'Only sandboxes of this project.' })),
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: LIMITS.measuredSandboxes,
          default: 100,
          description: 'Maximum number of sandboxes.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  response: {
    status: 200,
    schema: Type.Object({
      data: Type.Array(CurrentSandboxMetrics),
      hasMore: Type.Boolean({ description: 'Whether there are more live sandboxes than `limit`.' }),
    }),
    description: 'The metrics of the sandboxes that the key can see.',
  },
  errors: [],
} as const satisfies Operation;
