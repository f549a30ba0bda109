import { type Language, SERVICE_ERROR_NAMES } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { type BoxSession, pathOf } from './box-session.ts';
import { UNCOUNTED_IN_PYTHON } from './uncounted.ts';

/** Most contexts that are remembered. A forgotten context is moved again, which does no harm. */
const REMEMBERED = 10_000;
/** Mark that a kernel has in its process once it was moved. A new kernel does not have it. */
const MARK = '_cloche_e2b_moved';
/** Errors of the service, which say nothing about the directory. */
const FAILURES: ReadonlySet<string> = new Set(SERVICE_ERROR_NAMES);
/** Begins the message of an error that a directory may not be entered, in Python and in JavaScript. */
const CLOSED = /^(\[Errno 13\]|EACCES)/;

/**
 * Moves contexts to the directory where E2B's clients expect their code: the home of the user. A context of `/v1`
 * begins in `/workspace`. A kernel that was replaced begins there again, unless its client restarted it.
 */
export class HomeDirectory {
  /**
   * Contexts that need no run to move them, by sandbox and language, in the order of their first use. Only saves runs:
   * the kernel decides, because another server, or this one before a restart, may have moved it.
   */
  readonly #moved = new Set<string>();

  /** Moves a default context at its first run. */
  async moveDefault(session: BoxSession, language: Language): Promise<void> {
    const name = `${session.sandboxId} ${language}`;
    if (this.#moved.has(name)) return;
    await moveOnce(session, { language }, pathOf('', 'user'));
    this.#moved.add(name);
    const [oldest] = this.#moved;
    if (this.#moved.size > REMEMBERED && oldest !== undefined) this.#moved.delete(oldest);
  }
}

/**
 * Moves a kernel to its first directory, or to the user's home if the user may not enter that. Has no effect on a kernel
 * that was moved before: its code may have entered another directory since.
 *
 * @throws GatewayError 400 if the directory cannot be entered; 503 if the kernel ended before it tried.
 */
export async function moveOnce(
  session: BoxSession,
  target: { readonly language: Language; readonly contextId?: string },
  directory: string,
): Promise<void> {
  const { cloche, sandboxId } = session;
  const { language, contextId } = target;
  const path = JSON.stringify(directory);
  const code = language === 'python' ? inPython(path) : inJavaScript(path);
  const body = { code, language, ...(contextId === undefined ? {} : { contextId }) };
  const { run } = await cloche.call('runCode', { params: { sandboxId }, body });
  const isClosed = run.error && CLOSED.test(run.error.message);
  // E2B's code runs as root, and enters what Cloche's may not.
  if (isClosed && directory !== pathOf('', 'user')) return moveOnce(session, target, pathOf('', 'user'));
  if (!run.error) return;
  const { name, message } = run.error;
  if (FAILURES.has(name)) throw new GatewayError(503, `${name}: ${message} Try again.`, { 'retry-after': '1' });
  throw new GatewayError(400, `The directory ${directory} cannot be entered: ${message}`);
}

/**
 * Returns an expression without a value, so that it is not shown and changes no variable of the context. The kernel of a
 * template that an earlier release has captured does not show images that are saved.
 */
function inPython(path: string): string {
  const show =
    'getattr(getattr(sys.modules.get("cloche_kernel.import_hook"), "SavedImages", None), "show", lambda: None)()';
  const move = `(os.chdir(${path}), setattr(sys, "${MARK}", True), ${show})`;
  const moved = `(hasattr(sys, "${MARK}") or ${move}, ${UNCOUNTED_IN_PYTHON})`;
  return `(lambda os, sys: ${moved} and None)(__import__("os"), __import__("sys"))`;
}

function inJavaScript(path: string): string {
  const mark = `Symbol.for("${MARK}")`;
  const move = `(process.chdir(${path}), Object.defineProperty(process, ${mark}, { value: true }))`;
  return `void (process[${mark}] || ${move})`;
}
