import type { FastifyInstance, FastifyRequest } from 'fastify';
import { JupyterError } from '../jupyter-error.ts';
import type { JupyterState } from '../jupyter-state.ts';
import type { KernelModel } from '../kernels/kernels.ts';
import { BODY_SCHEMAS } from './body-schemas.ts';
import type { SessionName } from './session-names.ts';

interface ById {
  Params: { id: string };
}
interface SessionBody {
  Body: Partial<SessionName> & { kernel?: { id?: string | null; name?: string | null } | null };
}

const PREFIX = 'session-of-';
const SCHEMA = { body: BODY_SCHEMAS.session };

/** Registers `/api/sessions`. A session is a kernel with the path of a notebook, which only this server remembers. */
export function sessionRoutes(app: FastifyInstance, state: JupyterState): void {
  const { sessionNames, rooms } = state;
  const kernelsOf = ({ raw }: FastifyRequest) => state.kernelsOf(raw);
  const sessionOf = (kernel: KernelModel) => {
    const { path, name, type } = sessionNames.get(kernel.id);
    return { id: `${PREFIX}${kernel.id}`, path, name, type, kernel, notebook: { path, name } };
  };
  const find = async (request: FastifyRequest<ById>) => {
    const { id } = request.params;
    if (!id.startsWith(PREFIX)) throw new JupyterError(404, `Session does not exist: ${id}`);
    return kernelsOf(request).get(id.slice(PREFIX.length));
  };
  const named = (kernel: KernelModel, body: SessionBody['Body']) => {
    const { path, name, type } = sessionNames.get(kernel.id);
    sessionNames.set(kernel.id, { path: body.path ?? path, name: body.name ?? name, type: body.type ?? type });
    return sessionOf(kernel);
  };
  app.get('/api/sessions', async (request) => (await kernelsOf(request).list()).map(sessionOf));
  app.post<SessionBody>('/api/sessions', { schema: SCHEMA }, async (request, reply) => {
    const { kernel, path } = request.body;
    const kernels = kernelsOf(request);
    const present = path === undefined ? [] : await kernels.list();
    const open = present.find(({ id }) => sessionNames.get(id).path === path);
    if (open) return reply.code(201).send(sessionOf(open));
    const model = kernel?.id ? await kernels.get(kernel.id) : await kernels.start(kernel?.name ?? 'python3', {});
    return reply.code(201).send(named(model, request.body));
  });
  app.get<ById>('/api/sessions/:id', async (request) => sessionOf(await find(request)));
  app.patch<ById & SessionBody>('/api/sessions/:id', { schema: SCHEMA }, async (request) => {
    const present = await find(request);
    const { kernel } = request.body;
    if (!kernel?.id && !kernel?.name) return named(present, request.body);
    const kernels = kernelsOf(request);
    const next = kernel.id ? await kernels.get(kernel.id) : await kernels.start(kernel.name ?? '', {});
    const { path, name, type } = sessionNames.get(present.id);
    return named(next, { path, name, type, ...request.body });
  });
  app.delete<ById>('/api/sessions/:id', async (request, reply) => {
    const { id } = await find(request);
    await kernelsOf(request).shutDown(id);
    await rooms.remove(id);
    return reply.code(204).send();
  });
}
