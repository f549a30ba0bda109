import { Type } from 'typebox';
import { wholeListOf } from '../list.ts';
import type { Operation } from '../operation.ts';
import { QuotaUse } from '../quota.ts';
import { Text } from '../text.ts';

export const listQuotas = {
  id: 'listQuotas',
  method: 'GET',
  path: '/v1/quotas',
  tag: 'Quotas',
  summary: 'List quotas',
  description:
    'Every quota with its limit and its use. A key of the whole organization gets those of the organization; a key that is ' +
    'bound to projects gets those of its projects. `projectId` requests those of one project. A request must be within the ' +
    'limits of both, the organization and the project.',
  scope: 'usage:read',
  idempotency: 'none',
  query: Type.Object(
    { projectId: Type.Optional(Text({ description: 'Only the quotas of this project.' })) },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: wholeListOf(QuotaUse), description: 'The quotas.' },
  errors: [],
} as const satisfies Operation;
