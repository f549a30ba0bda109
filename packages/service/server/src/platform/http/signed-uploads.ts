/** Uploads with signed links, which need no key. */
import type { OrgId } from '@cloche/contract';
import type { FastifyInstance } from 'fastify';
import type { GivenLink } from '../base/signed-links.ts';
import { refuseEncoding } from './bytes.ts';
import type { Upload } from './route.ts';
import { enterSigned, readLink, type SignedLinkDeps } from './signed-link.ts';
import { uploadOf } from './uploads.ts';

/** The upload that a link stands for. */
export interface SignedUpload {
  /** The organization that the upload counts for. */
  readonly orgId: OrgId;
  /** Resolves once the whole body is stored. The signal aborts when the client disconnects. */
  receive(upload: Upload, signal: AbortSignal): Promise<void>;
}

export interface SignedUploads {
  readonly path: string;
  /** @throws AppError `forbidden` for a link that is not signed by the service or has expired. */
  find(link: GivenLink): Promise<SignedUpload>;
}

/** Registers the route in the scope `app`, whose bodies are not parsed. */
export function addSignedUploads(
  app: FastifyInstance,
  uploads: SignedUploads,
  { transfers: { stallMs }, inFlight }: SignedLinkDeps,
): void {
  app.route({
    method: 'PUT',
    url: `${uploads.path}/:id`,
    handler: async (request, reply) => {
      refuseEncoding(request);
      const found = await uploads.find(readLink(request));
      const { signal } = enterSigned(inFlight, found.orgId, reply, { isInterruptible: false });
      using upload = uploadOf(request.raw, reply.raw, stallMs);
      try {
        await found.receive(upload, signal);
      } catch (error) {
        throw signal.aborted ? signal.reason : (upload.failure ?? error);
      }
      return reply.code(204).send();
    },
  });
}
