import type { Language } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { parsePlainJson } from '@cloche/node-support';
import type { BoxSession } from './box-session.ts';
import { UNCOUNTED_IN_PYTHON } from './uncounted.ts';

export type Variables = Readonly<Record<string, string>>;
/** Values of variables before a run; null for a variable that was not set. */
type Earlier = Readonly<Record<string, string | null>>;

/** Most variables that one run sets. */
const MOST_VALUES = 10_000;

interface Target {
  readonly language: Language;
  readonly contextId?: string;
}

/**
 * Sets environment variables of a context. Returns a function that restores their earlier values. A context runs one
 * piece of code after another, but runs of other clients may come in between.
 *
 * @throws GatewayError 400 for a name or a value that the language refuses.
 */
export async function setVariables(
  session: BoxSession,
  target: Target,
  variables: Variables,
): Promise<() => Promise<void>> {
  const printed = await run(session, target, assigning(target.language, variables, true));
  const earlier = readEarlier(printed);
  return async () => {
    await run(session, target, assigning(target.language, earlier, false));
  };
}

/** Reads what the sandbox has printed, which may be anything. @throws GatewayError 400 */
function readEarlier(printed: string): Earlier {
  try {
    const values = Object.entries(parsePlainJson(printed, MOST_VALUES) as Earlier);
    if (values.every(([, value]) => value === null || typeof value === 'string')) return Object.fromEntries(values);
  } catch {
    // It is no JSON.
  }
  throw new GatewayError(400, 'The variables of the run cannot be set: the context does not say which ones it had.');
}

async function run({ cloche, sandboxId }: BoxSession, target: Target, code: string): Promise<string> {
  const { run } = await cloche.call('runCode', { params: { sandboxId }, body: { code, ...target } });
  if (run.error) throw new GatewayError(400, `The variables of the run cannot be set: ${run.error.message}`);
  return run.stdout;
}

/**
 * Returns code that sets or removes variables without defining a name in the context. With `tells`, it also prints the
 * earlier values.
 */
function assigning(language: Language, variables: Earlier, tells: boolean): string {
  const values = JSON.stringify(JSON.stringify(variables));
  return language === 'python' ? inPython(values, tells) : inJavaScript(values, tells);
}

function inPython(values: string, tells: boolean): string {
  const earlier = '{name: os.environ.get(name) for name in new}';
  const set =
    '[os.environ.pop(name, None) if value is None else os.environ.update({name: value}) for name, value in new.items()]';
  const shown = tells ? 'print(json.dumps(old))' : 'None';
  const modules = '__import__("os"), __import__("json"), __import__("sys")';
  const act = `(lambda old: (${set}, ${UNCOUNTED_IN_PYTHON}, ${shown})[2])(${earlier})`;
  return `(lambda os, json, sys, new: ${act})(${modules}, __import__("json").loads(${values}))`;
}

function inJavaScript(values: string, tells: boolean): string {
  const each =
    'old[name] = process.env[name] ?? null; if (value === null) delete process.env[name]; else process.env[name] = value;';
  const shown = tells ? 'console.log(JSON.stringify(old));' : '';
  return `void (() => { const old = {}; for (const [name, value] of Object.entries(JSON.parse(${values}))) { ${each} } ${shown} })()`;
}
