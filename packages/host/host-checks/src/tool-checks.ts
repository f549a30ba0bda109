import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { cachePaths, firstPresent, INIT_PROGRAMS } from '@cloche/layout';
import { OCI_RUNTIMES } from '@cloche/protocol';
import { installHint } from '../starter/system-packages.mjs';
import { type Finding, missing, ok, warning } from './finding.ts';

const run = promisify(execFile);

type Tool = {
  name: string;
  command: readonly [file: string, ...args: string[]];
  /** Debian's package. */
  aptPackage?: string;
  /** Setting that needs this tool; Cloche itself needs a tool without this field. */
  optional?: string;
};

const TOOLS: readonly Tool[] = [
  ...OCI_RUNTIMES.map(({ program, title, aptPackage }, index) => ({
    name: program,
    command: [program, '--version'] as const,
    ...(aptPackage && { aptPackage }),
    // The first one is the default.
    ...(index > 0 && { optional: `CLOCHE_OCI_RUNTIME=${program}${title ? ` (${title})` : ''}` }),
  })),
  { name: 'nftables', command: ['nft', 'list', 'tables'], aptPackage: 'nftables' },
  { name: 'iproute2', command: ['ip', '-Version'], aptPackage: 'iproute2' },
  { name: 'tini', command: [firstPresent(INIT_PROGRAMS), '--version'], aptPackage: 'tini' },
  { name: 'mmdebstrap', command: ['mmdebstrap', '--version'], aptPackage: 'mmdebstrap' },
  { name: 'mke2fs', command: ['mke2fs', '-V'], aptPackage: 'e2fsprogs' },
  { name: 'unshare', command: ['unshare', '--version'], aptPackage: 'util-linux' },
];

/** Tools that every launch needs; fast enough to check at each start. */
export const REQUIRED_TOOLS: readonly Tool[] = TOOLS.filter(({ name }) =>
  ['crun', 'nftables', 'iproute2', 'mke2fs'].includes(name),
);

/** Returns all tools; runsc is the one in `cacheDir`, which was built for Cloche. */
export function toolsOf(cacheDir: string): readonly Tool[] {
  const { runsc } = cachePaths(cacheDir);
  return TOOLS.map((tool) =>
    tool.name === 'runsc' && existsSync(runsc) ? { ...tool, command: [runsc, '--version'] as const } : tool,
  );
}

export function checkTools(tools: readonly Tool[]): Promise<Finding[]> {
  return Promise.all(tools.map(checkTool));
}

async function checkTool({ name, command, aptPackage, optional }: Tool): Promise<Finding> {
  const [file, ...args] = command;
  try {
    const { stdout, stderr } = await run(file, args);
    return ok(name, versionIn(`${stdout}${stderr}`));
  } catch (error) {
    const absent = (error as NodeJS.ErrnoException).code === 'ENOENT';
    if (optional)
      return absent
        ? ok(name, `not installed; required only for ${optional}`)
        : warning(name, 'does not run', `Repair it to use ${optional}.`);
    if (!absent || !aptPackage)
      return missing(
        name,
        `does not work: ${reasonOf(error)}`,
        `Find out why \`${command.join(' ')}\` fails on this host.`,
      );
    return {
      ...missing(name, 'not installed', `Run \`${installHint(aptPackage)}\`; starting Cloche does.`),
      installable: true,
    };
  }
}

function versionIn(output: string): string {
  // A Go module without releases has versions that differ only in the part after the zeros.
  return /\d+\.\d+(\.\d+)*(-\d{14}-[0-9a-f]{12})?/.exec(output)?.[0] ?? 'works';
}

/** Returns the last line that a program wrote and that has a word, or how it ended. */
function reasonOf(error: unknown): string {
  const { stderr = '', stdout = '', code, signal } = error as Failure;
  const written = [stderr, stdout].flatMap((text) => text.split('\n').reverse()).map((line) => line.trim());
  return (
    written.find((line) => /\w/.test(line)) ?? signal ?? (typeof code === 'number' ? `exit code ${code}` : `${code}`)
  );
}

/** What the promise of `execFile` rejects with. */
interface Failure {
  readonly stderr?: string;
  readonly stdout?: string;
  readonly code?: number | string;
  readonly signal?: string | null;
}
