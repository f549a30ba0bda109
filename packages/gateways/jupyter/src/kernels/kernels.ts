import { type CodeContext, LIMITS, type Sandbox as SandboxInfo } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { type Cloche, type Context, Contexts, isClocheError, type Sandbox } from '@cloche/sdk';
import { kernelIdOf, readKernelId } from './kernel-id.ts';
import { readKernelName } from './kernel-name.ts';
import { JUPYTER_LANGUAGES } from './languages.ts';

/** The kernel of a request that names none. */
const DEFAULT_KERNEL = 'python3';
/** Label of a sandbox that was created for a kernel. Its value is the name of the kernel. */
const LABEL = 'jupyter-kernel';
/** Label of a sandbox whose kernel has replaced the one of a session. Its value is the id of the session. */
const SESSION_LABEL = 'jupyter-session';
/** A kernel whose client went away without shutting it down ends after this time without a run. */
const IDLE_MS = 2 * 3_600_000;
/** Contexts that are listed at the same time for a list of kernels. */
const LISTED_AT_ONCE = 8;
/** Kernels whose context is remembered. */
const REMEMBERED = 10_000;

/** A kernel as Jupyter's API describes it. */
export interface KernelModel {
  readonly id: string;
  readonly name: string;
  readonly last_activity: string;
  readonly execution_state: string;
  readonly connections: number;
}

/** The kernels that this server knows. Its knowledge never decides who may use one. */
export interface KernelMemory {
  useOf(kernelId: string): { connections: number; lastActivity?: string | undefined; isBusy: boolean };
  /** Ids of kernels by sandbox. A lost entry costs one request. */
  readonly known: Map<string, string>;
}

/** The kernels that one key can see. A kernel is a context: of a sandbox of its own, or of one that existed before. */
export class Kernels {
  readonly #cloche: Cloche;
  readonly #memory: KernelMemory;

  constructor(cloche: Cloche, memory: KernelMemory) {
    this.#cloche = cloche;
    this.#memory = memory;
  }

  /**
   * @param sessionId session whose kernel it replaces
   * @throws GatewayError, ClocheError
   */
  async start(name = DEFAULT_KERNEL, env: Record<string, string> = {}, sessionId?: string): Promise<KernelModel> {
    const { language, place } = readKernelName(name);
    if ('sandboxId' in place) {
      const sandbox = await this.#cloche.sandboxes.get(place.sandboxId);
      const context = await sandbox.contexts.create({ language });
      return this.#modelOf(sandbox.info, context.info);
    }
    const metadata = { [LABEL]: name, ...(sessionId !== undefined && { [SESSION_LABEL]: sessionId }) };
    const body = { template: place.template, idleTimeoutMs: IDLE_MS, metadata, env };
    const sandbox = await this.#cloche.sandboxes.create(body);
    try {
      const [context] = await Promise.all([sandbox.contexts.create({ language }), prolong(sandbox)]);
      return this.#modelOf(sandbox.info, context.info);
    } catch (error) {
      // Ends by its idle timeout otherwise.
      await sandbox.kill().catch(() => undefined);
      throw error;
    }
  }

  /** Lists the kernels that have sandboxes of their own, newest first. */
  async list(): Promise<KernelModel[]> {
    const own: Sandbox[] = [];
    for await (const sandbox of this.#cloche.sandboxes.list({ limit: LIMITS.listPage })) {
      if (sandbox.info.metadata[LABEL] !== undefined) own.push(sandbox);
    }
    const models: KernelModel[] = [];
    for (let from = 0; from < own.length; from += LISTED_AT_ONCE) {
      const found = await Promise.all(
        own.slice(from, from + LISTED_AT_ONCE).map((sandbox) => this.#ofSandbox(sandbox)),
      );
      models.push(...found.filter((model) => model !== undefined));
    }
    return models;
  }

  /** Finds the kernel that a session has got instead of its first one, at whichever server. */
  async findOfSession(sessionId: string): Promise<KernelModel | undefined> {
    const [newest] = await this.#cloche.sandboxes.list({ metadata: { [SESSION_LABEL]: sessionId }, limit: 1 });
    return newest && this.#ofSandbox(newest);
  }

  async get(kernelId: string): Promise<KernelModel> {
    const context = await this.context(kernelId);
    const sandbox = await this.#cloche.sandboxes.get(context.info.sandboxId);
    return this.#modelOf(sandbox.info, context.info);
  }

  /** @throws GatewayError 404, ClocheError */
  context(kernelId: string): Promise<Context> {
    const { sandboxId, contextId } = requireKernelId(kernelId);
    return new Contexts(this.#cloche, sandboxId).get(contextId);
  }

  /** Ends a kernel, with its sandbox if that was created for it. */
  async shutDown(kernelId: string): Promise<void> {
    const context = await this.context(kernelId);
    const sandbox = await this.#cloche.sandboxes.get(context.info.sandboxId);
    if (sandbox.info.metadata[LABEL] === undefined) await context.delete();
    else await sandbox.kill();
  }

  async #ofSandbox(sandbox: Sandbox): Promise<KernelModel | undefined> {
    const id = this.#memory.known.get(sandbox.id) ?? (await this.#findKernel(sandbox));
    return id === undefined ? undefined : this.#model(id, sandbox.info, sandbox.info.metadata[LABEL] ?? '');
  }

  /** Finds the first context, which was created with the sandbox. */
  async #findKernel(sandbox: Sandbox): Promise<string | undefined> {
    const [context] = await sandbox.contexts.list();
    return (
      context && remember(this.#memory.known, sandbox.id, kernelIdOf({ sandboxId: sandbox.id, contextId: context.id }))
    );
  }

  #modelOf(sandbox: SandboxInfo, context: CodeContext): KernelModel {
    const { kernel } = JUPYTER_LANGUAGES[context.language];
    const name = sandbox.metadata[LABEL] ?? `${kernel}@${sandbox.id}`;
    return this.#model(kernelIdOf({ sandboxId: sandbox.id, contextId: context.id }), sandbox, name);
  }

  #model(id: string, { status, createdAt }: SandboxInfo, name: string): KernelModel {
    const { connections, lastActivity = createdAt, isBusy } = this.#memory.useOf(id);
    const execution_state = isBusy || status === 'running' ? 'busy' : 'idle';
    return { id, name, last_activity: lastActivity, execution_state, connections };
  }
}

/** Gives a new sandbox the longest lifetime, which a creation cannot ask for. */
async function prolong(sandbox: Sandbox): Promise<void> {
  try {
    // Not all of it: the sandbox is older than this request.
    await sandbox.setTtl(LIMITS.updateTtlMaxMs - 60_000);
  } catch (error) {
    // The kernel keeps the lifetime of its creation if the key may not prolong it.
    if (!isClocheError(error, 'forbidden', 'sandbox_ttl_exceeded')) throw error;
  }
}

function requireKernelId(id: string) {
  const kernel = readKernelId(id);
  if (!kernel) throw new GatewayError(404, `Kernel does not exist: ${id}`);
  return kernel;
}

function remember(known: Map<string, string>, sandboxId: string, kernelId: string): string {
  if (known.size >= REMEMBERED) known.clear();
  known.set(sandboxId, kernelId);
  return kernelId;
}
