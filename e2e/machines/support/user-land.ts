import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, globSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readAptConfiguration, withLock } from '@cloche/setup';
import { execa } from 'execa';

const ENTER = join(import.meta.dirname, 'enter.sh');
const CACHE = process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche';
/** Certificates that an operator has added to this machine, such as those of a proxy. */
const OWN_CERTIFICATES = '/usr/local/share/ca-certificates/*.crt';

export type Release = 'bookworm' | 'trixie';

/**
 * The user land of a fresh installation of Debian, with a writable layer of its own. Commands run in it as on a machine
 * of its own, as root, with this machine's kernel and network.
 */
export class UserLand {
  readonly #folder: string;
  readonly #shared: Readonly<Record<string, string>>;

  private constructor(folder: string, shared: Readonly<Record<string, string>>) {
    this.#folder = folder;
    this.#shared = shared;
  }

  /**
   * @param packages Debian's packages in it, beside those that every installation has
   * @param shared folders of this machine, each with its path in the user land
   */
  static async open(
    release: Release,
    packages: readonly string[],
    shared: Readonly<Record<string, string>> = {},
  ): Promise<UserLand> {
    const lower = await installed(release, packages);
    await removeAbandoned();
    const folder = mkdtempSync(join(CACHE, 'machines', `running-${process.pid}-`));
    for (const name of ['upper', 'work', 'root', 'data']) mkdirSync(join(folder, name));
    const layers = `lowerdir=${lower},upperdir=${join(folder, 'upper')},workdir=${join(folder, 'work')}`;
    await execa('mount', ['-t', 'overlay', 'overlay', '-o', layers, join(folder, 'root')]);
    // The root is an overlay, which has no idmapped mounts. The data folder of an ordinary machine is on a disk.
    return new UserLand(folder, { ...shared, [join(folder, 'data')]: '/var/lib/cloche' });
  }

  /** Path on this machine of a file of the user land. */
  path(file: string): string {
    return join(this.#folder, 'root', file);
  }

  /** Runs a command of bash. Everything that it started ends with it. */
  run(command: string, env: Readonly<Record<string, string>> = {}) {
    const inside = ['sh', ENTER, this.path(''), 'bash', '-c', command];
    return execa('unshare', ['--mount', '--pid', '--fork', '--kill-child', ...inside], {
      env: {
        PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
        HOME: '/root',
        LANG: 'C.UTF-8',
        SHARED_FOLDERS: Object.entries(this.#shared)
          .map((place) => place.join(':'))
          .join(' '),
        ...(existsFor(OWN_CERTIFICATES) && { NODE_EXTRA_CA_CERTS: '/etc/ssl/certs/ca-certificates.crt' }),
        ...env,
      },
      extendEnv: false,
      reject: false as const,
      all: true as const,
      forceKillAfterDelay: 20_000,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await remove(this.#folder);
  }
}

/** Removes user lands whose test was killed. */
async function removeAbandoned(): Promise<void> {
  for (const folder of globSync(join(CACHE, 'machines', 'running-*'))) {
    const owner = /^running-(\d+)-/.exec(basename(folder))?.[1];
    if (owner !== undefined && !existsSync(`/proc/${owner}`)) await remove(folder);
  }
}

async function remove(folder: string): Promise<void> {
  await execa('umount', ['--recursive', '--lazy', join(folder, 'root')], { reject: false });
  // What is still mounted below is not the user land's.
  await execa('rm', ['--recursive', '--force', '--one-file-system', folder]);
}

/** Returns the folder of a user land, which is installed once. */
async function installed(release: Release, packages: readonly string[]): Promise<string> {
  const digest = createHash('sha256').update(packages.join(' ')).digest('hex').slice(0, 12);
  const machines = join(CACHE, 'machines');
  const folder = join(machines, `${release}-${digest}`);
  mkdirSync(machines, { recursive: true });
  return withLock(join(machines, `${release}.lock`), async () => {
    if (existsSync(folder)) return folder;
    const building = mkdtempSync(join(machines, 'building-'));
    try {
      await install(join(building, 'root'), release, packages);
      renameSync(join(building, 'root'), folder);
    } finally {
      rmSync(building, { recursive: true, force: true });
    }
    return folder;
  });
}

async function install(root: string, release: Release, packages: readonly string[]): Promise<void> {
  const { sources, options } = await readAptConfiguration(release);
  const include = `--include=${['ca-certificates', ...packages].join(',')}`;
  const aptOptions = options.map((option) => `--aptopt=${option}`);
  await execa('mmdebstrap', ['--mode=root', '--variant=minbase', include, ...aptOptions, release, root, ...sources]);
  for (const file of globSync(OWN_CERTIFICATES)) {
    copyFileSync(file, join(root, 'usr/local/share/ca-certificates', basename(file)));
  }
  await execa('chroot', [root, 'update-ca-certificates']);
  writeFileSync(join(root, 'etc/hostname'), `${release}\n`);
}

function existsFor(pattern: string): boolean {
  return globSync(pattern).length > 0;
}
