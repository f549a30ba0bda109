import type { IncomingMessage, ServerResponse } from 'node:http';
import { Deadline, reportFailure } from '@cloche/node-support';
import { StillRunning } from '../base/agent-error.ts';
import type { Gate } from '../base/gate.ts';
import type { CommandRegistry } from '../commands/command-registry.ts';
import type { ContextRegistry } from '../contexts/context-registry.ts';
import { readJson, readPauseAgent, readResumeAgent } from '../wire/requests.ts';

/**
 * Longest wait for kernels and commands that are ended for a pause. A kernel that ignores its interrupts is killed
 * before, and the server waits for two seconds.
 */
const END_MS = 1500;

/** Requests that start no work and reach no file. All others are refused while the gate is closed. */
const PASSING = /^(GET \/(health|activity|contexts|commands\/[^/]+)|POST \/(pause|resume)|DELETE \/expected-kernel)$/;
/** Answers that last as long as their reader wants, with nothing that is lost when they are read again. */
const ENDLESS = /^(GET \/files\/watch\?|POST \/commands\/[^/]+\/follow$)/;

/** Requests that open a context. */
const OPENING = /^(PUT \/contexts\/[^/]+|POST \/contexts\/[^/]+\/restart)$/;

export interface PausesDeps {
  gate: Gate;
  contexts: Pick<ContextRegistry, 'running' | 'cancelRuns'>;
  commands: Pick<CommandRegistry, 'waited' | 'killWaited'>;
}

/** Answers `POST /pause` and `POST /resume`. */
export class Pauses {
  readonly #deps: PausesDeps;
  /** Resolves when what the last pause has ended is over. */
  #ended = Promise.resolve();
  /** Requests in progress that keep a sandbox from a pause by idleness. */
  #uses = 0;

  constructor(deps: PausesDeps) {
    this.#deps = deps;
  }

  /** Counts a request that opens a context, or reads or writes files, until its answer is over. */
  count(request: IncomingMessage, response: ServerResponse, isOfFiles: boolean): void {
    const isUse = isOfFiles ? !isEndless(request) : OPENING.test(`${request.method} ${request.url}`);
    if (!isUse) return;
    this.#uses += 1;
    response.once('close', () => {
      this.#uses -= 1;
    });
  }

  /**
   * Closes the gate. Idempotent by token. With `force`, ends runs and waited commands first; otherwise throws `running`
   * while there are some, or, if the pause is one by idleness, while another request uses the sandbox.
   */
  async pause(request: IncomingMessage): Promise<{ isPaused: true }> {
    const { token, force, isIdle } = readPauseAgent(await readJson(request));
    const { gate, contexts, commands } = this.#deps;
    if (!gate.isClosedBy(token)) {
      const running = contexts.running + commands.waited + (isIdle ? this.#uses : 0);
      if (running > 0 && !force) throw new StillRunning(running);
      gate.close(token);
      if (running > 0) this.#ended = this.#endWork();
    }
    await this.#ended;
    return { isPaused: true };
  }

  /**
   * Opens the gate that the pause with this token has closed. Idempotent. The entropy in the request is for memory that
   * was copied, where kernels have to mix it into their generators; frozen memory was not.
   */
  async resume(request: IncomingMessage): Promise<object> {
    this.#deps.gate.open(readResumeAgent(await readJson(request)).token);
    return {};
  }

  async #endWork(): Promise<void> {
    const { contexts, commands } = this.#deps;
    using limit = new Deadline(END_MS);
    const ended = Promise.all([contexts.cancelRuns('The sandbox was paused.'), commands.killWaited()]);
    ended.catch(reportFailure);
    // What does not end is frozen as it is.
    await limit.race(ended).catch(() => undefined);
  }
}

/** Returns whether a closed gate lets the request pass. */
export function passesClosedGate({ method, url }: IncomingMessage): boolean {
  return PASSING.test(`${method} ${url}`);
}

/** Returns whether the answer has no end of its own, so that it is ended when the gate closes. */
export function isEndless({ method, url }: IncomingMessage): boolean {
  return ENDLESS.test(`${method} ${url}`);
}
