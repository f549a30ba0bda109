import type { Language } from '@cloche/contract';
import { E2bError } from '../e2b-error.ts';
import { type BoxSession, pathOf } from './box-session.ts';

/** Most contexts that are remembered. A forgotten context is moved again, which does no harm. */
const REMEMBERED = 10_000;

/**
 * Moves contexts to the directory where E2B's clients expect their code: the home of the user. A context of `/v1`
 * begins in `/workspace`. A kernel that was replaced begins there again, unless its client restarted it.
 */
export class HomeDirectory {
  /** By sandbox and context, or language for the default context. In the order of their first use. */
  readonly #moved = new Set<string>();

  /** Moves a default context at its first run. */
  async moveDefault(session: BoxSession, language: Language): Promise<void> {
    const name = `${session.sandboxId} ${language}`;
    if (this.#moved.has(name)) return;
    await changeDirectory(session, { language }, pathOf('', 'user'));
    this.#moved.add(name);
    const [oldest] = this.#moved;
    if (this.#moved.size > REMEMBERED && oldest !== undefined) this.#moved.delete(oldest);
  }
}

/** @throws E2bError 400 if the directory cannot be entered. */
export async function changeDirectory(
  { cloche, sandboxId }: BoxSession,
  { language, contextId }: { readonly language: Language; readonly contextId?: string },
  directory: string,
): Promise<void> {
  const path = JSON.stringify(directory);
  const code = language === 'python' ? `__import__("os").chdir(${path})` : `void process.chdir(${path})`;
  const body = { code, language, ...(contextId === undefined ? {} : { contextId }) };
  const { run } = await cloche.call('runCode', { params: { sandboxId }, body });
  if (run.error) throw new E2bError(400, `The directory ${directory} cannot be entered: ${run.error.message}`);
}
