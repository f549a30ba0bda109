import { GatewayError } from '@cloche/kit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isKernelGone } from '../jupyter-error.ts';
import type { KernelModel } from '../kernels/kernels.ts';
import { BODY_SCHEMAS } from './body-schemas.ts';
import type { JupyterState } from './jupyter-state.ts';
import type { Session, SessionName } from './sessions.ts';

interface ById {
  Params: { id: string };
}
interface SessionBody {
  Body: Partial<SessionName> & {
    /** Where clients of earlier releases put the path and the name. */
    notebook?: { path?: string; name?: string | null };
    kernel?: { id?: string | null; name?: string | null } | null;
  };
}

const SCHEMA = { body: BODY_SCHEMAS.session };

/** Registers `/api/sessions`. */
export function sessionRoutes(app: FastifyInstance, state: JupyterState): void {
  const { sessions, sharedKernels } = state;
  const kernelsOf = ({ raw }: FastifyRequest) => state.kernelsOf(raw);
  /** Throws 404 for a session whose kernel the API key may not use, as for one that does not exist. */
  const find = async (request: FastifyRequest<ById>): Promise<{ session: Session; kernel: KernelModel }> => {
    const { id } = request.params;
    const kernels = kernelsOf(request);
    const session = sessions.find(id);
    const present = session && (await kernels.get(session.kernelId).catch(unlessGone));
    // Another server, or this one before its start, may have changed the kernel.
    const kernel = present ?? (await kernels.findOfSession(id));
    if (!kernel) throw new GatewayError(404, `Session does not exist: ${id}`);
    return { session: { ...(session ?? sessions.ofKernel(kernel.id)[0]), id, kernelId: kernel.id }, kernel };
  };
  const endKernel = async (request: FastifyRequest, kernelId: string) => {
    await kernelsOf(request).shutDown(kernelId);
    await sharedKernels.remove(kernelId);
  };
  app.get('/api/sessions', async (request) =>
    (await kernelsOf(request).list()).flatMap((kernel) => sessions.ofKernel(kernel.id).map(modelOf.bind(null, kernel))),
  );
  app.post<SessionBody>('/api/sessions', { schema: SCHEMA }, async (request, reply) => {
    const { kernel } = request.body;
    const name = nameOf(request.body);
    const { path } = name;
    if (path === undefined) throw new GatewayError(400, 'Missing field in JSON data: path');
    const kernels = kernelsOf(request);
    for (const present of await kernels.list()) {
      const open = sessions.ofKernel(present.id).find((session) => session.path === path);
      if (open) return reply.code(201).send(modelOf(present, open));
    }
    const model = kernel?.id ? await kernels.get(kernel.id) : await kernels.start(kernel?.name || undefined);
    return reply.code(201).send(modelOf(model, sessions.open(model.id, name)));
  });
  app.get<ById>('/api/sessions/:id', async (request) => {
    const { session, kernel } = await find(request);
    return modelOf(kernel, session);
  });
  app.patch<ById & SessionBody>('/api/sessions/:id', { schema: SCHEMA }, async (request) => {
    const { session: before, kernel: present } = await find(request);
    const kernels = kernelsOf(request);
    const { id, name } = request.body.kernel ?? {};
    const wanted = id ? await kernels.get(id) : name ? await kernels.start(name, {}, before.id) : present;
    const session = sessions.set({ ...before, ...nameOf(request.body), kernelId: wanted.id });
    if (wanted.id !== present.id) await endKernel(request, present.id).catch(unlessGone);
    return modelOf(wanted, session);
  });
  app.delete<ById>('/api/sessions/:id', async (request, reply) => {
    const { session } = await find(request);
    await endKernel(request, session.kernelId);
    sessions.forget(session.id);
    return reply.code(204).send();
  });
}

function modelOf(kernel: KernelModel, { id, path, name, type }: Session) {
  return { id, path, name, type, kernel, notebook: { path, name } };
}

/** Returns what the body names, and nothing else. */
function nameOf({ notebook, path = notebook?.path, name = notebook?.name, type }: SessionBody['Body']) {
  return {
    ...(path === undefined ? {} : { path }),
    ...(name === undefined ? {} : { name }),
    ...(type === undefined ? {} : { type }),
  } satisfies Partial<SessionName>;
}

function unlessGone(error: unknown): undefined {
  if (!isKernelGone(error)) throw error;
}
