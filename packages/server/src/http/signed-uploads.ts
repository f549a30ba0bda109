/** Uploads with signed links, which need no key. */
import type { FastifyInstance } from 'fastify';
import type { GivenLink } from '../base/signed-links.ts';
import { refuseEncoding, type TransferLimits } from './bytes.ts';
import { ClientGoneError } from './in-flight.ts';
import type { Upload } from './route.ts';
import { readLink } from './signed-link.ts';
import { uploadOf } from './uploads.ts';

export interface SignedUpload {
  readonly link: GivenLink;
  readonly upload: Upload;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

export interface SignedUploads {
  readonly path: string;
  /**
   * Resolves once the whole body is stored.
   *
   * @throws AppError `forbidden` for a link that is not signed by the service or has expired.
   */
  store(request: SignedUpload): Promise<void>;
}

/** Registers the route in the scope `app`, whose bodies are not parsed. */
export function addSignedUploads(app: FastifyInstance, uploads: SignedUploads, { stallMs }: TransferLimits): void {
  app.route({
    method: 'PUT',
    url: `${uploads.path}/:id`,
    handler: async (request, reply) => {
      refuseEncoding(request);
      const controller = new AbortController();
      reply.raw.once('close', () => {
        if (!reply.raw.writableFinished) controller.abort(new ClientGoneError());
      });
      using upload = uploadOf(request.raw, reply.raw, stallMs);
      try {
        await uploads.store({ link: readLink(request), upload, signal: controller.signal });
      } catch (error) {
        throw controller.signal.aborted ? controller.signal.reason : error;
      }
      return reply.code(204).send();
    },
  });
}
