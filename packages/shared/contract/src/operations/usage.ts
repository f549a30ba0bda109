import { Type } from 'typebox';
import { LIMITS } from '../limits.ts';
import { oneOf, queryTime, wholeListOf } from '../list.ts';
import type { Operation } from '../operation.ts';
import { Text } from '../text.ts';
import { SandboxUsage, UsageRow } from '../usage.ts';
import { SandboxParams } from './sandboxes.ts';

const common = { tag: 'Usage', method: 'GET', idempotency: 'none' } as const;

export const listUsage = {
  ...common,
  id: 'listUsage',
  path: '/v1/usage',
  summary: 'List usage',
  description:
    'One row for each project and each day or hour (UTC) in which the project used something, oldest first. The range is ' +
    `widened to whole days or hours; it has at most ${LIMITS.usageDays} days or ${LIMITS.usageHours} hours, and the answer ` +
    `at most ${LIMITS.usageRows} rows. A longer range is an \`invalid_request\`. A key that is bound to projects sees ` +
    'these only; deleted projects stay readable. Live sandboxes are counted every 10 seconds, ended ones at their end.',
  scope: 'usage:read',
  query: Type.Object(
    {
      from: Type.Optional(
        queryTime('Beginning of the range, in ISO 8601. Default: the beginning of the month (UTC) that `to` ends in.'),
      ),
      to: Type.Optional(queryTime('End of the range, in ISO 8601. Default: now.')),
      groupBy: Type.Optional(oneOf(['day', 'hour'], 'Length of the time that a row stands for. Default: `day`.')),
      projectId: Type.Optional(Text({ description: 'Only the usage of this project.' })),
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: wholeListOf(UsageRow), description: 'The usage.' },
  errors: [],
} as const satisfies Operation;

export const getSandboxUsage = {
  ...common,
  id: 'getSandboxUsage',
  path: '/v1/sandboxes/{sandboxId}/usage',
  summary: 'Get the usage of a sandbox',
  description: 'What a sandbox has used, also after its end, for as long as its record is kept.',
  scope: 'sandbox:read',
  params: SandboxParams,
  response: { status: 200, schema: Type.Object({ usage: SandboxUsage }), description: 'The usage of the sandbox.' },
  errors: [],
} as const satisfies Operation;
