import type { Duplex } from 'node:stream';
import type { AgentConnections } from '../../agent-client/agent-connections.ts';
import { Deadline } from '../../base/deadline.ts';
import { AgentFault } from '../../driver/runtime-driver.ts';
import { isLive, isPending } from '../../sandboxes/record/sandbox.ts';
import type { SandboxRepository } from '../../sandboxes/record/sandbox-repository.ts';
import type { AwaitSandbox } from '../../sandboxes/use/await-sandbox.ts';
import type { JudgeFault } from '../../sandboxes/use/judge-fault.ts';
import type { PreviewRecord } from '../preview.ts';
import { PreviewProblem } from './preview-problem.ts';

/** How long a sandbox may take to get ready, and its agent to connect, before a page says so. */
const READY_MS = 20_000;
const CONNECT_MS = 10_000;

export interface ReachPortDeps {
  readonly sandboxes: SandboxRepository;
  readonly waits: AwaitSandbox;
  readonly connections: AgentConnections;
  readonly faults: JudgeFault;
}

/** Connects to the ports of previews inside their sandboxes. */
export class ReachPort {
  readonly #deps: ReachPortDeps;

  constructor(deps: ReachPortDeps) {
    this.#deps = deps;
  }

  /** Whoever gets it destroys it. @throws PreviewProblem, or the signal's reason. */
  async connect({ sandboxId, port }: PreviewRecord, signal: AbortSignal): Promise<Duplex> {
    const { sandboxes, waits, connections, faults } = this.#deps;
    const sandbox = await sandboxes.find(sandboxId);
    if (!sandbox) throw gone();
    using readiness = new Deadline(READY_MS, signal);
    const ready = await waits.settled(sandbox, readiness.signal);
    signal.throwIfAborted();
    if (isPending(ready))
      throw new PreviewProblem('preview_unavailable', 'The sandbox is not ready yet; try again in a moment.');
    if (!isLive(ready) || !ready.instance) throw gone();
    using limit = new Deadline(CONNECT_MS, signal);
    try {
      const agent = await connections.get(ready.instance, limit.signal);
      return await agent.openTunnel(port, limit.signal);
    } catch (error) {
      signal.throwIfAborted();
      if (limit.expired) throw unreachable(error);
      if (error instanceof AgentFault && error.kind === 'port_closed') throw closed(port);
      if (error instanceof AgentFault && error.kind === 'busy') {
        throw new PreviewProblem('preview_busy', 'The sandbox has too many connections to its ports; close some.');
      }
      const { code } = await faults.judge(ready, error);
      throw code === 'sandbox_destroyed' || code === 'sandbox_failed' ? gone() : unreachable(error);
    }
  }
}

function closed(port: number): PreviewProblem {
  const message = `No program listens on port ${port} inside the sandbox. Start a server on this port.`;
  return new PreviewProblem('preview_port_closed', message);
}

function gone(): PreviewProblem {
  return new PreviewProblem('preview_not_found', 'The sandbox of the preview has ended.');
}

function unreachable(cause: unknown): PreviewProblem {
  return new PreviewProblem('preview_unavailable', 'The sandbox does not respond; try again in a moment.', { cause });
}
