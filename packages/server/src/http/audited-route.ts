import { ERRORS } from '@cloche/contract';
import type { FastifyRequest } from 'fastify';
import type { Refusals } from '../audit/refusals.ts';

/** Records a request that was refused, or that failed, in the audit log. */
export function auditRefusal(refusals: Refusals, { state, params, id, ip }: FastifyRequest): void {
  const { operation, credential, errorCode, audit } = state;
  if (!operation || !credential || errorCode === undefined || errorCode === 'client_gone') return;
  const { status } = ERRORS[errorCode];
  refusals.record({ operation, credential, params, code: errorCode, status, audit, requestId: id, ip });
}
