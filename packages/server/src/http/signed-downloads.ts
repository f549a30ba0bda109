/** Downloads with signed links, which need no key. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { GivenLink } from '../base/signed-links.ts';
import { sendDownload, type TransferLimits } from './bytes.ts';
import { ClientGoneError } from './in-flight.ts';
import type { Download } from './route.ts';
import { readLink } from './signed-link.ts';

const ACCEPTED_HEADERS = ['range', 'if-range', 'if-none-match'] as const;

export interface SignedDownload {
  readonly link: GivenLink;
  readonly headers: Readonly<Record<string, string>>;
  readonly headOnly: boolean;
  readonly signal: AbortSignal;
}

export interface SignedDownloads {
  readonly path: string;
  /** @throws AppError `forbidden` for a link that is not signed by the service or has expired. */
  open(request: SignedDownload): Promise<Download>;
}

export function addSignedDownloads(
  app: FastifyInstance,
  downloads: SignedDownloads,
  { stallMs }: TransferLimits,
): void {
  app.route({
    method: ['GET', 'HEAD'],
    url: `${downloads.path}/:id`,
    handler: async (request, reply) => {
      const controller = new AbortController();
      reply.raw.once('close', () => controller.abort(new ClientGoneError()));
      const download = await downloads.open(readDownload(request, controller.signal));
      return sendDownload(request, reply, download, { signal: controller.signal, stallMs });
    },
  });
}

function readDownload(request: FastifyRequest, signal: AbortSignal): SignedDownload {
  const headers = ACCEPTED_HEADERS.flatMap((name): [string, string][] => {
    const value = request.headers[name];
    return typeof value === 'string' ? [[name, value]] : [];
  });
  return {
    link: readLink(request),
    headers: Object.fromEntries(headers),
    headOnly: request.method === 'HEAD',
    signal,
  };
}
