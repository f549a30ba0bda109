import type { FastifyRequest } from 'fastify';
import { AppError } from '../base/app-error.ts';
import type { GivenLink } from '../base/signed-links.ts';

/** Reads the link of a request whose path ends with `/:id`. @throws AppError `forbidden` for an incomplete link */
export function readLink(request: FastifyRequest): GivenLink {
  const query = new URLSearchParams(request.raw.url?.split('?').slice(1).join('?'));
  const { id = '' } = request.params as { id?: string };
  const [expires, signature] = [query.get('expires'), query.get('signature')];
  if (expires === null || signature === null)
    throw new AppError('forbidden', 'The signed URL is incomplete: copy the whole URL.');
  return { id, expires, signature };
}
