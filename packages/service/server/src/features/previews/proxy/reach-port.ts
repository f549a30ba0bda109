import type { Duplex } from 'node:stream';
import type { AgentClient } from '@cloche/runtime';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import { AppError } from '../../../platform/base/app-error.ts';
import { tunnelError } from '../../sandbox-records/agent-failures.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import type { SandboxUse } from '../../sandboxes/use/sandbox-use.ts';
import type { Served } from '../public-ports.ts';
import { PreviewError } from './preview-error.ts';

export interface ReachPortDeps {
  readonly sandboxes: SandboxRepository;
  readonly sandboxUse: SandboxUse;
}

/** Connects to the ports of previews inside their sandboxes. */
export class ReachPort {
  readonly #deps: ReachPortDeps;

  constructor(deps: ReachPortDeps) {
    this.#deps = deps;
  }

  /** Opens a tunnel, which the caller destroys. @throws PreviewError, or the signal's reason. */
  async connect({ sandboxId, port }: Pick<Served, 'sandboxId' | 'port'>, signal: AbortSignal): Promise<Duplex> {
    const { sandboxes, sandboxUse } = this.#deps;
    const sandbox = await sandboxes.find(sandboxId);
    if (!sandbox) throw gone();
    if (factsOf(sandbox).needsWake) throw paused();
    const { previewReadyMs: readyMs, previewConnectMs: actMs } = AGENT_LIMITS;
    const ready = await sandboxUse
      .ready(sandbox, { signal, readyMs })
      .catch(explained('The sandbox is not ready yet; try again in a moment.'));
    return (
      sandboxUse
        // A visitor of a preview wakes no sandbox.
        .act(ready, { signal, actMs, isOnce: true }, (agent, _, limit) => openTunnel(agent, port, limit))
        .catch(explained('The sandbox does not respond; try again in a moment.'))
    );
  }
}

async function openTunnel(agent: AgentClient, port: number, signal: AbortSignal): Promise<Duplex> {
  try {
    return await agent.openTunnel(port, signal);
  } catch (error) {
    const own = tunnelError(error, port);
    throw own ? new PreviewError(...own) : error;
  }
}

/** Translates an API error into an error for visitors of a preview. */
function explained(whenUnavailable: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof AppError)) throw error;
    if (error.code === 'sandbox_destroyed' || error.code === 'sandbox_failed') throw gone();
    throw new PreviewError('preview_unavailable', whenUnavailable, { cause: error });
  };
}

function paused(): PreviewError {
  return new PreviewError('sandbox_paused', 'The sandbox of the preview is paused. Its owner can resume it.');
}

function gone(): PreviewError {
  return new PreviewError('preview_not_found', 'The sandbox of the preview has ended.');
}
