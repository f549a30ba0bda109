import { GatewayError } from '@cloche/kit';
import type { FastifyInstance } from 'fastify';
import { TAGS } from './template-name.ts';

const SNAPSHOTS = 'Cloche has no snapshots of sandboxes yet; build a template with `cloche template build`.';
const VOLUMES = 'Cloche has no volumes yet; write files, or build them into a template with `cloche template build`.';
const TEMPLATES =
  'Cloche builds templates of clients from 2.0 on; build one with `cloche template build`, and name it.';

/** Features of E2B that Cloche lacks, each with a sentence that says what to use. */
const ROUTES: readonly [method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, message: string][] = [
  ['POST', '/sandboxes/:sandboxID/fork', 'Cloche does not fork sandboxes yet; create another one.'],
  ['POST', '/sandboxes/:sandboxID/snapshots', SNAPSHOTS],
  ['GET', '/snapshots', SNAPSHOTS],
  ['PUT', '/sandboxes/:sandboxID/network', 'Cloche does not change the network of a sandbox yet; create another one.'],
  ['POST', '/volumes', VOLUMES],
  ['GET', '/volumes', VOLUMES],
  ['GET', '/volumes/:volumeID', VOLUMES],
  ['DELETE', '/volumes/:volumeID', VOLUMES],
  ['POST', '/templates', TEMPLATES],
  ['POST', '/v2/templates', TEMPLATES],
  ['POST', '/templates/tags', TAGS],
  ['DELETE', '/templates/tags', TAGS],
  ['GET', '/templates/:templateID/tags', TAGS],
];

/** Registers refusals. */
export async function notYetRoutes(app: FastifyInstance): Promise<void> {
  for (const [method, url, message] of ROUTES) {
    app.route({
      method,
      url,
      handler() {
        throw new GatewayError(501, message);
      },
    });
  }
}
