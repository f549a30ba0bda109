import { GatewayError } from '@cloche/kit';
import type { FastifyInstance } from 'fastify';
import { readKernelName } from '../kernels/kernel-name.ts';
import { LOGO, listKernelSpecs } from '../kernels/kernel-specs.ts';
import { JUPYTER_LANGUAGES } from '../kernels/languages.ts';
import type { JupyterState } from './jupyter-state.ts';

interface ByName {
  Params: { name: string; file: string };
}

/** Registers the version, kernel specs with their logos, and a list of contents that is empty. */
export function specRoutes(app: FastifyInstance, state: JupyterState): void {
  app.get('/api', () => ({ version: state.version }));
  app.get('/api/kernelspecs', ({ raw }) => listKernelSpecs(state.clientOf(raw), state.prefix));
  app.get<ByName>('/api/kernelspecs/:name', async ({ raw, params: { name } }) => {
    const { kernelspecs } = await listKernelSpecs(state.clientOf(raw), state.prefix);
    const spec = kernelspecs[name];
    if (!spec || !Object.hasOwn(kernelspecs, name)) throw new GatewayError(404, `There is no kernel spec "${name}".`);
    return spec;
  });
  // Without a key: browsers send none with a request for a picture.
  app.get<ByName>('/kernelspecs/:name/:file', async ({ params: { name, file } }, reply) => {
    if (file !== LOGO) throw new GatewayError(404, `A kernel spec has no file "${file}".`);
    return reply.type('image/svg+xml').send(logoOf(name));
  });
  app.get('/api/contents', (request) => {
    state.clientOf(request.raw);
    const epoch = new Date(0).toISOString();
    const dates = { created: epoch, last_modified: epoch };
    return {
      name: '',
      path: '',
      type: 'directory',
      format: 'json',
      mimetype: null,
      content: [],
      writable: false,
      ...dates,
    };
  });
}

function logoOf(name: string): string {
  const { text, color } = JUPYTER_LANGUAGES[readKernelName(name).language].logo;
  const label = `<text x="32" y="43" font-family="sans-serif" font-size="32" fill="#fff" text-anchor="middle">${text}</text>`;
  const box = `<rect width="64" height="64" rx="10" fill="${color}"/>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">${box}${label}</svg>`;
}
