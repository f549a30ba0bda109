import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, globSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { cachePaths } from '@cloche/layout';
import { HttpClient } from '../http-client.ts';
import { CACHE_DIR, newestTemplate, PEERS_DIR } from './template-root.ts';

const execute = promisify(execFile);
const START_MS = 30_000;
/** The options with which Cloche runs gVisor. */
const GVISOR = {
  path: cachePaths(CACHE_DIR).runsc,
  runtimeArgs: ['--platform=systrap'],
};

/**
 * Debian's Docker, unpacked next to the host's programs instead of installed, and configured not to change the host's
 * network. Requests use its API over one keep-alive connection, which is faster than its command line. Its containers
 * have no network, which is faster than having one.
 */
export class DockerPeer implements AsyncDisposable {
  readonly version: string;
  readonly #http: HttpClient;
  readonly #daemon: ChildProcess;
  readonly #folder: string;
  readonly #image: string;

  private constructor(http: HttpClient, daemon: ChildProcess, folder: string, image: string, version: string) {
    this.#http = http;
    this.#daemon = daemon;
    this.#folder = folder;
    this.#image = image;
    this.version = version;
  }

  static async start(say: (line: string) => void): Promise<DockerPeer> {
    const programs = await unpackDocker(say);
    const folder = mkdtempSync(join(tmpdir(), 'cloche-bench-docker-'));
    const socketPath = join(folder, 'docker.sock');
    const log = openSync(join(folder, 'log'), 'w');
    const settings = join(folder, 'daemon.json');
    writeFileSync(settings, JSON.stringify(hasGvisor() ? { runtimes: { runsc: GVISOR } } : {}));
    const daemon = spawn(
      'setpriv',
      [
        // Ends Docker when the benchmark ends in any way.
        ...['--pdeathsig', 'TERM', '--', join(programs, 'usr/sbin/dockerd')],
        ...['--config-file', settings],
        ...['--data-root', join(PEERS_DIR, 'docker-data'), '--exec-root', join(folder, 'exec')],
        ...['--host', `unix://${socketPath}`, '--pidfile', join(folder, 'pid'), '--storage-driver', 'overlay2'],
        ...['--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false', '--bridge=none'],
      ],
      { stdio: ['ignore', log, log], env: { ...process.env, PATH: pathWith(programs) } },
    );
    const http = new HttpClient({ socketPath });
    try {
      const version = await untilServing(http, daemon);
      const image = await importTemplate(http, socketPath, programs, say);
      return new DockerPeer(http, daemon, folder, image, version);
    } catch (error) {
      daemon.kill();
      throw new Error(`docker: ${readFileSync(join(folder, 'log'), 'utf8').slice(-600)}`, { cause: error });
    }
  }

  /** Whether Docker can run a container with the runtime `runsc`. */
  get hasGvisor(): boolean {
    return hasGvisor();
  }

  /** Creates and starts a container, as `docker run -d` does. */
  async run(command: readonly string[] = ['sleep', 'infinity'], runtime?: 'runsc'): Promise<string> {
    const name = `bench-${randomBytes(6).toString('hex')}`;
    const body = {
      Image: this.#image,
      Cmd: command,
      HostConfig: {
        NetworkMode: 'none',
        Memory: 1 << 30,
        PidsLimit: 512,
        NanoCpus: 1e9,
        ...(runtime && { Runtime: runtime }),
      },
    };
    await this.#http.call('POST', `/containers/create?name=${name}`, body);
    await this.#http.call('POST', `/containers/${name}/start`);
    return name;
  }

  /** Resolves with the command's output when the command has ended. */
  async exec(name: string, command: readonly string[]): Promise<string> {
    const body = { AttachStdout: true, AttachStderr: true, Cmd: command };
    const { Id } = (await this.#http.call('POST', `/containers/${name}/exec`, body)).body;
    return (await this.#http.call('POST', `/exec/${Id}/start`, { Detach: false, Tty: false })).body;
  }

  /** Removes a container, as `docker rm -f` does. */
  async remove(name: string): Promise<void> {
    await this.#http.call('DELETE', `/containers/${name}?force=1`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      const { body } = await this.#http.call('GET', '/containers/json?all=1');
      for (const { Id } of body) await this.remove(Id);
    } finally {
      this.#http.close();
      const ended = once(this.#daemon, 'exit');
      this.#daemon.kill();
      await ended;
    }
    // Docker's daemon leaves a mount behind.
    for (const place of mountsBelow(this.#folder)) await execute('umount', ['--lazy', place]);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function mountsBelow(folder: string): string[] {
  const places = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '');
  return places.filter((place) => place.startsWith(`${folder}/`)).reverse();
}

function hasGvisor(): boolean {
  return existsSync(GVISOR.path);
}

async function untilServing(http: HttpClient, daemon: ChildProcess): Promise<string> {
  const deadline = performance.now() + START_MS;
  for (;;) {
    const version = await http.call('GET', '/version').catch(() => undefined);
    if (version) return `${version.body.Version}`;
    if (daemon.exitCode !== null || performance.now() > deadline) throw new Error('its daemon does not serve');
    await delay(50);
  }
}

/** Imports the root file system of the template as an image, as there is no registry to pull from. */
async function importTemplate(
  http: HttpClient,
  socketPath: string,
  programs: string,
  say: (line: string) => void,
): Promise<string> {
  const { manifest, rootfs } = newestTemplate();
  const image = `cloche-bench:${manifest.id.replace('tplv_', '')}`;
  if (await http.call('GET', `/images/${image}/json`).catch(() => undefined)) return image;
  say('docker: importing the template, once');
  const docker = existsSync(join(programs, 'usr/bin/docker')) ? join(programs, 'usr/bin/docker') : 'docker';
  await execute('sh', [
    '-c',
    `tar -C "$1" -c . | "$2" -H "unix://$3" import - "$4"`,
    'sh',
    rootfs,
    docker,
    socketPath,
    image,
  ]);
  return image;
}

async function unpackDocker(say: (line: string) => void): Promise<string> {
  const folder = join(PEERS_DIR, 'docker');
  if (existsSync(join(folder, 'usr/sbin/dockerd'))) return folder;
  say('docker: fetching docker.io and containerd of Debian, once');
  const packages = join(PEERS_DIR, 'packages');
  mkdirSync(packages, { recursive: true });
  await execute('apt-get', ['-o', 'APT::Sandbox::User=root', 'download', 'docker.io', 'containerd'], { cwd: packages });
  for (const archive of globSync(join(packages, '*.deb'))) await execute('dpkg-deb', ['-x', archive, folder]);
  rmSync(packages, { recursive: true });
  return folder;
}

function pathWith(programs: string): string {
  return [join(programs, 'usr/sbin'), join(programs, 'usr/bin'), process.env.PATH].join(':');
}
