/**
 * Which warm imports of a version cannot be loaded ahead, as a program in its sandbox prints it: hostile input,
 * checked.
 */

/**
 * Imports modules in one process, as the zygote does. At the first failure, prints the module and the reason and ends,
 * because later imports would not be comparable.
 */
const PROGRAM = `
import importlib, os, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        why = "it starts a thread, which kernels would lack" if len(os.listdir("/proc/self/task")) > 1 else None
    except BaseException as error:
        why = f"{type(error).__name__}: {error}"
    if why:
        print("", name, why.split("\\n")[0], sep="\\t", flush=True)
        break
`;

export const IMPORTING_MS = 120_000;
export const IMPORTS_BYTES = 64 * 1024;
const LONGEST_REASON = 300;

export function importCommand(imports: readonly string[]): string[] {
  return ['python3', '-B', '-c', PROGRAM, ...imports];
}

/** Returns why the imports cannot be loaded; undefined if they can. */
export function importFailure(
  { status, exitCode, stdout }: { status: string; exitCode?: number | undefined; stdout: string },
  imports: readonly string[],
): string | undefined {
  for (const line of stdout.split('\n')) {
    const [start, name = '', ...why] = line.split('\t');
    if (start === '' && imports.includes(name))
      return `${name}: ${why.join(' ').slice(0, LONGEST_REASON).toWellFormed()}`;
  }
  if (status === 'exited' && exitCode === 0) return undefined;
  if (status === 'timed_out') return `they take more than ${IMPORTING_MS / 1000} seconds`;
  return status === 'exited'
    ? `Python ended with exit code ${exitCode}`
    : 'the version has no python3 that can be started';
}
