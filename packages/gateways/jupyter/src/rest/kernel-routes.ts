import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { KernelModel, Kernels } from '../kernels/kernels.ts';
import { BODY_SCHEMAS } from './body-schemas.ts';
import type { JupyterState } from './jupyter-state.ts';

interface ById {
  Params: { id: string };
}
interface StartKernel {
  Body: { name?: string | null; env?: Record<string, string> | null } | null;
}

/** Registers `/api/kernels`. */
export function kernelRoutes(app: FastifyInstance, state: JupyterState): void {
  const { sharedKernels } = state;
  const kernelsOf = ({ raw }: FastifyRequest): Kernels => state.kernelsOf(raw);
  app.get('/api/kernels', (request): Promise<KernelModel[]> => kernelsOf(request).list());
  app.post<StartKernel>('/api/kernels', { schema: { body: BODY_SCHEMAS.kernel } }, async (request, reply) => {
    const { name, env } = request.body ?? {};
    const kernel = await kernelsOf(request).start(name ?? undefined, env ?? {});
    return reply.code(201).header('location', `/api/kernels/${kernel.id}`).send(kernel);
  });
  app.get<ById>('/api/kernels/:id', (request) => kernelsOf(request).get(request.params.id));
  app.delete<ById>('/api/kernels/:id', async (request, reply) => {
    await kernelsOf(request).shutDown(request.params.id);
    await sharedKernels.remove(request.params.id);
    return reply.code(204).send();
  });
  app.post<ById>('/api/kernels/:id/interrupt', async (request, reply) => {
    const context = await kernelsOf(request).context(request.params.id);
    await context.interrupt();
    return reply.code(204).send();
  });
  app.post<ById>('/api/kernels/:id/restart', async (request) => {
    const kernels = kernelsOf(request);
    const context = await kernels.context(request.params.id);
    await context.restart();
    sharedKernels.find(request.params.id)?.forget();
    return kernels.get(request.params.id);
  });
}
