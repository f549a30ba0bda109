/** Downloads with signed links, which need no key. */
import type { OrgId } from '@cloche/contract';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { GivenLink } from '../base/signed-links.ts';
import { sendDownload } from './bytes.ts';
import type { Download } from './route.ts';
import { enterSigned, readLink, type SignedLinkDeps } from './signed-link.ts';

const ACCEPTED_HEADERS = ['range', 'if-range', 'if-none-match'] as const;

export interface SignedDownload {
  readonly link: GivenLink;
  readonly headers: Readonly<Record<string, string>>;
  readonly headOnly: boolean;
}

/** The download that a link stands for. */
export interface FoundDownload {
  /** The organization that the download counts for. */
  readonly orgId: OrgId;
  /** Opens the download. The signal aborts when the client disconnects. */
  open(signal: AbortSignal): Promise<Download>;
}

export interface SignedDownloads {
  readonly path: string;
  /** @throws AppError `forbidden` for a link that is not signed by the service or has expired. */
  find(request: SignedDownload): Promise<FoundDownload>;
}

export function addSignedDownloads(
  app: FastifyInstance,
  downloads: SignedDownloads,
  { transfers: { stallMs }, inFlight }: SignedLinkDeps,
): void {
  app.route({
    method: ['GET', 'HEAD'],
    url: `${downloads.path}/:id`,
    handler: async (request, reply) => {
      const found = await downloads.find(readDownload(request));
      const { signal } = enterSigned(inFlight, found.orgId, reply, { isInterruptible: true });
      return sendDownload(request, reply, await found.open(signal), { signal, stallMs });
    },
  });
}

function readDownload(request: FastifyRequest): SignedDownload {
  const headers = ACCEPTED_HEADERS.flatMap((name): [string, string][] => {
    const value = request.headers[name];
    return typeof value === 'string' ? [[name, value]] : [];
  });
  return {
    link: readLink(request),
    headers: Object.fromEntries(headers),
    headOnly: request.method === 'HEAD',
  };
}
