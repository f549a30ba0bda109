import { ERRORS } from '@cloche/contract';
import type { FastifyRequest } from 'fastify';
import type { Refusals } from '../audit/refusals.ts';
import type { RequestAudit } from '../audit/request-audit.ts';
import type { RequestContext, Route } from './route.ts';

/** Returns `route` with its audit event: a request that succeeds has it before the response is sent. */
export function audited(route: Route, audit: RequestAudit | undefined): Route {
  if (!audit) return route;
  const handle = async (request: RequestContext) => {
    // Sound: a handler gets the request of its own kind of route.
    const result: unknown = await (route.handle as (request: RequestContext) => Promise<unknown>)(request);
    await audit.ensure(request.params, result);
    return result;
  };
  return { ...route, handle } as Route;
}

/** Records a request that was refused, or that failed, in the audit log. */
export function auditRefusal(refusals: Refusals, { state, params, id, ip }: FastifyRequest): void {
  const { operation, credential, errorCode } = state;
  if (!operation || !credential || errorCode === undefined || errorCode === 'client_gone') return;
  const { status } = ERRORS[errorCode];
  refusals.record({ operation, credential, params, code: errorCode, status, requestId: id, ip });
}
