import type { Cloche, WorkspaceRun, WorkspaceRunEvent } from '@cloche/sdk';
import type { Session } from '../session.ts';
import { counted } from '../terminal/counted.ts';
import { formatBytes } from '../terminal/transfer-bar.ts';

/** A job that has not started after this time is reported as queued. */
const WAIT_MS = 500;
/** Largest position in the queue that is reported. */
const COUNTED = 100;
/** Timeout of a request whose answer is only printed. */
const ANSWER_MS = 5_000;

/** Prints on a terminal the steps before the command of a job runs: packed, queued with its position, running. */
export class JobPhases implements Disposable {
  readonly #session: Pick<Session, 'terminal' | 'note'>;
  readonly #cloche: Cloche;
  #waiting: NodeJS.Timeout | undefined;
  #isRunning = false;

  constructor(session: Pick<Session, 'terminal' | 'note'>, cloche: Cloche) {
    this.#session = session;
    this.#cloche = cloche;
  }

  async note(run: WorkspaceRun, event: WorkspaceRunEvent): Promise<void> {
    if (!this.#session.terminal.err.isTerminal || event.type !== 'state') return;
    if (event.data.status === 'queued') await this.#noteQueued(run);
    else this[Symbol.dispose]();
    if (event.data.status !== 'running') return;
    this.#isRunning = true;
    const { info } = await run.refresh({ timeoutMs: ANSWER_MS, maxRetries: 0 }).catch(() => run);
    await this.#session.note(info.sandboxId === undefined ? 'running' : `running in ${info.sandboxId}`);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#waiting);
  }

  async #noteQueued(run: WorkspaceRun): Promise<void> {
    const { archive } = run.info;
    if (archive)
      await this.#session.note(
        `↑ packed ${counted(archive.entries, 'entry', 'entries')}, ${formatBytes(archive.sizeBytes)}`,
      );
    this.#waiting = setTimeout(() => {
      this.#noteWait(run).catch(() => undefined);
    }, WAIT_MS).unref();
  }

  async #noteWait({ id }: WorkspaceRun): Promise<void> {
    const calls = { timeoutMs: ANSWER_MS, maxRetries: 0 };
    const queued = await this.#cloche.workspaceRuns.list({ status: 'queued', limit: COUNTED, ...calls });
    const own = queued.find((each) => each.id === id)?.info;
    if (own === undefined || this.#isRunning) return;
    const since = (queuedAt = '') => Date.parse(queuedAt);
    const place = queued.filter(({ info }) => since(info.queuedAt) <= since(own.queuedAt)).length;
    const why = own.waitsFor === 'capacity' ? ', no host has room yet' : '';
    await this.#session.note(`queued (${ordinal(place)}${why})`);
  }
}

const ENDINGS: Readonly<Record<string, string>> = { one: 'st', two: 'nd', few: 'rd' };
const RULES = new Intl.PluralRules('en', { type: 'ordinal' });

function ordinal(place: number): string {
  return `${place}${ENDINGS[RULES.select(place)] ?? 'th'}`;
}
