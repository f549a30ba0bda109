import { ERRORS } from '@cloche/contract';
import type { FastifyRequest } from 'fastify';
import type { Refusals } from '../audit-log/refusals.ts';
import { addressOf, type Callers } from './callers.ts';

/** Records a request that was refused, or that failed, in the audit log. */
export function auditRefusal(refusals: Refusals, request: FastifyRequest, callers: Callers | undefined): void {
  const { state, params, id } = request;
  const { operation, credential, errorCode, audit } = state;
  if (!operation || !credential || errorCode === undefined || errorCode === 'client_gone') return;
  const { status } = ERRORS[errorCode];
  const ip = addressOf(request, callers);
  refusals.record({ operation, credential, params, code: errorCode, status, audit, requestId: id, ip });
}
