import type { OrgId } from '@cloche/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../base/app-error.ts';
import type { GivenLink } from '../base/signed-links.ts';
import type { TransferLimits } from './bytes.ts';
import { ClientGoneError, type InFlight } from './in-flight.ts';

export interface SignedLinkDeps {
  readonly transfers: TransferLimits;
  readonly inFlight: InFlight;
}

/** Reads the link of a request whose path ends with `/:id`. @throws AppError `forbidden` for an incomplete link */
export function readLink(request: FastifyRequest): GivenLink {
  const query = new URLSearchParams(request.raw.url?.split('?').slice(1).join('?'));
  const { id = '' } = request.params as { id?: string };
  const [expires, signature] = [query.get('expires'), query.get('signature')];
  if (expires === null || signature === null)
    throw new AppError('forbidden', 'The signed URL is incomplete: copy the whole URL.');
  return { id, expires, signature };
}

/**
 * Counts a request with a signed link among the active requests of its organization until its response has been sent.
 * The returned controller aborts when the client disconnects, or when the server stops.
 *
 * @throws AppError `rate_limited` or `unavailable` when too many requests are active
 */
export function enterSigned(
  inFlight: InFlight,
  orgId: OrgId,
  { raw }: FastifyReply,
  { isInterruptible }: { isInterruptible: boolean },
): AbortController {
  const controller = inFlight.enter({ orgId, apiKeyId: undefined }, isInterruptible);
  const end = () => {
    inFlight.leave({ orgId }, controller);
    if (!raw.writableFinished) controller.abort(new ClientGoneError());
  };
  if (raw.closed || raw.destroyed) end();
  else raw.once('close', end);
  return controller;
}
