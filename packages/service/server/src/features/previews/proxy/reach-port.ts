import type { Duplex } from 'node:stream';
import { Deadline } from '@cloche/node-support';
import type { AgentClient } from '@cloche/runtime';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import { AppError } from '../../../platform/base/app-error.ts';
import { tunnelError } from '../../sandbox-records/agent-failures.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import type { SandboxUse } from '../../sandboxes/use/sandbox-use.ts';
import type { Served } from '../public-ports.ts';
import { PreviewError } from './preview-error.ts';

export interface ReachPortDeps {
  readonly sandboxes: SandboxRepository;
  readonly sandboxUse: SandboxUse;
  /** Longest wait for a paused sandbox to wake. */
  readonly wakeTimeoutMs: number;
}

const BY_TRAFFIC = { by: 'traffic' } as const;

/** Connects to the ports of previews inside their sandboxes. */
export class ReachPort {
  readonly #deps: ReachPortDeps;

  constructor(deps: ReachPortDeps) {
    this.#deps = deps;
  }

  /** Opens a tunnel, which the caller destroys. @throws PreviewError, or the signal's reason. */
  async connect({ sandboxId, port }: Pick<Served, 'sandboxId' | 'port'>, signal: AbortSignal): Promise<Duplex> {
    const { sandboxes, sandboxUse } = this.#deps;
    const found = await sandboxes.find(sandboxId);
    if (!found) throw gone();
    const sandbox = await this.#awake(found, signal);
    const isWoken = sandbox.pause.wake === 'traffic';
    const { previewReadyMs: readyMs, previewConnectMs: actMs } = AGENT_LIMITS;
    const ready = await sandboxUse
      .ready(sandbox, { signal, readyMs })
      .catch(explained('The sandbox is not ready yet; try again in a moment.'));
    return (
      sandboxUse
        // A visitor of a preview wakes no sandbox whose policy does not say so.
        .act(ready, { signal, actMs, isOnce: !isWoken, waking: BY_TRAFFIC }, (agent, _, limit) =>
          openTunnel(agent, port, limit),
        )
        .catch(explained('The sandbox does not respond; try again in a moment.'))
    );
  }

  /** Wakes a paused sandbox, if its policy says so. */
  async #awake(found: SandboxRecord, signal: AbortSignal): Promise<SandboxRecord> {
    if (!factsOf(found).needsWake) return found;
    if (found.pause.wake !== 'traffic' || factsOf(found).hasLostMemory) throw paused();
    const { sandboxUse, wakeTimeoutMs } = this.#deps;
    using limit = new Deadline(wakeTimeoutMs, signal);
    try {
      return await sandboxUse.awake(found, limit.signal, BY_TRAFFIC);
    } catch (error) {
      if (limit.endedBy !== 'timeout' || error instanceof AppError) {
        return explained('The sandbox cannot be woken now; try again in a moment.')(error);
      }
      throw new PreviewError('preview_unavailable', 'The sandbox is still waking; try again in a moment.');
    }
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
