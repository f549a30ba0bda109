/**
 * `node scripts/static-programs.ts`: builds the programs in C for both processors, and writes their digests with the
 * versions of compiler and linker, which decide the bytes. Needs Debian's gcc, gcc-aarch64-linux-gnu and
 * linux-libc-dev-arm64-cross.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const FOLDER = resolve('packages/shared/layout/static-programs');
export const DIGESTS = join(FOLDER, 'digests.json');

/** Sources of each program. All have `system.c` too. */
export const PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  'enter-root': ['enter-root.c', 'shifted-tree.c'],
  'release-shared': ['release-shared.c'],
  sudo: ['sudo.c', 'sudo-options.c', 'sudo-request.c', 'sudo-terminal.c'],
  supervise: ['supervise.c', 'command.c'],
  'try-idmapped-mount': ['try-idmapped-mount.c', 'shifted-tree.c'],
};

/** Prefix of the programs of binutils and gcc, by Node's name of the processor. */
export const PREFIXES = { x64: 'x86_64-linux-gnu-', arm64: 'aarch64-linux-gnu-' } as const;
export type Arch = keyof typeof PREFIXES;

const FLAGS = [
  ...['-std=c17', '-Os', '-ffreestanding', '-nostdlib', '-nostdinc', '-fpie', '-static-pie'],
  ...[
    '-Wall',
    '-Wextra',
    '-Wconversion',
    '-Wshadow',
    '-Wvla',
    '-Wmissing-prototypes',
    '-Wstack-usage=16384',
    '-Werror',
  ],
  ...['-fstack-protector-strong', '-mstack-protector-guard=global', '-ftrivial-auto-var-init=zero'],
  ...['-fno-strict-aliasing', '-fno-strict-overflow', '-fno-tree-loop-distribute-patterns'],
  ...[
    '-fno-asynchronous-unwind-tables',
    '-fno-unwind-tables',
    '-fno-ident',
    '-fvisibility=hidden',
    '-ffunction-sections',
    '-fdata-sections',
  ],
  '-Wl,--gc-sections,--build-id=none,--fatal-warnings,-z,noexecstack,-z,norelro,-s',
];

export interface Digests {
  /** Versions of compiler and linker. */
  readonly tools: Readonly<Record<Arch, string>>;
  readonly sha256: Readonly<Record<string, string>>;
}

/** Returns the versions of compiler and linker, or undefined if one is missing. */
export function toolsOf(arch: Arch): string | undefined {
  const versions = ['gcc', 'ld'].map((name) => {
    const { status, stdout } = spawnSync(`${PREFIXES[arch]}${name}`, ['--version'], { encoding: 'utf8' });
    return status === 0 ? stdout.split('\n')[0] : undefined;
  });
  return versions.includes(undefined) ? undefined : versions.join('; ');
}

/** Builds a program and returns its bytes. Throws with what the compiler says. */
export function build(name: string, arch: Arch, folder: string): Buffer {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, name);
  const gcc = `${PREFIXES[arch]}gcc`;
  const query = (what: string) => execFileSync(gcc, [`-print-file-name=${what}`], { encoding: 'utf8' }).trim();
  // The compiler's own headers, and those of the kernel.
  const kernel =
    arch === 'arm64' ? ['/usr/aarch64-linux-gnu/include'] : ['/usr/include', '/usr/include/x86_64-linux-gnu'];
  const headers = [query('include'), ...kernel].flatMap((each) => ['-isystem', each]);
  const sources = [...(PROGRAMS[name] ?? []), 'system.c'];
  execFileSync(gcc, [...FLAGS, ...headers, '-o', file, ...sources], { cwd: FOLDER, env: { PATH: process.env.PATH } });
  return readFileSync(file);
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function readDigests(): Digests {
  return JSON.parse(readFileSync(DIGESTS, 'utf8'));
}

function main(): void {
  const tools: Record<string, string> = {};
  const digests: Record<string, string> = {};
  for (const arch of Object.keys(PREFIXES) as Arch[]) {
    tools[arch] = toolsOf(arch) ?? '';
    for (const name of Object.keys(PROGRAMS)) {
      digests[`${arch}/${name}`] = sha256(build(name, arch, join(FOLDER, arch)));
    }
  }
  writeFileSync(DIGESTS, `${JSON.stringify({ tools, sha256: digests }, undefined, 2)}\n`);
}

if (import.meta.main) main();
