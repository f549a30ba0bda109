import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { installPackages, withoutOwnService } from '@cloche/setup';
import { digestOf, type TestImage, writeLayout } from '../../packages/shared/image-archive/testing/make-image.ts';

const PROGRAM = '/usr/bin/docker-registry';
const OCI = 'application/vnd.oci.image';
const STARTING_MS = 30_000;

export interface DockerRegistryOptions {
  readonly address: string;
  readonly port: number;
  /** Address to listen at. Default: `address`. */
  readonly listenAddress?: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Certificate of the authority. */
  readonly root: string;
  /** Network namespace. */
  readonly namespace?: string;
  /** Account that every request needs. */
  readonly account?: { readonly username: string; readonly password: string };
}

/** The registry of Debian's package `docker-registry`, with TLS. */
export class DockerRegistry implements AsyncDisposable {
  readonly #options: DockerRegistryOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), 'cloche-registry-'));
  #process: ChildProcess | undefined;

  private constructor(options: DockerRegistryOptions) {
    this.#options = options;
  }

  static async start(options: DockerRegistryOptions): Promise<DockerRegistry> {
    const registry = new DockerRegistry(options);
    try {
      await registry.#start();
      return registry;
    } catch (error) {
      await registry[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Stores an image under a tag. Several platforms make an index. Returns the digest of what the tag names. */
  async push(
    repository: string,
    tag: string,
    image: TestImage,
    platforms?: readonly string[],
    change: (files: Record<string, Buffer>) => void = () => {},
  ): Promise<string> {
    const files: Record<string, Buffer> = {};
    writeLayout('/dev/null', image, (made) => void Object.assign(files, made), platforms);
    change(files);
    const { manifests } = JSON.parse(String(files['index.json']));
    const ofManifests = new Set(manifests.map(({ digest }: { digest: string }) => digest));
    for (const [name, bytes] of Object.entries(files)) {
      const digest = digestOf(bytes);
      if (name.startsWith('blobs/') && !ofManifests.has(digest)) await this.#pushBlob(repository, bytes, digest);
    }
    for (const digest of ofManifests)
      await this.#pushManifest(
        repository,
        String(digest),
        `${OCI}.manifest.v1+json`,
        files[`blobs/sha256/${String(digest).slice(7)}`],
      );
    const [first] = manifests;
    const isIndex = manifests.length > 1;
    const top = isIndex ? files['index.json'] : files[`blobs/sha256/${first.digest.slice(7)}`];
    await this.#pushManifest(repository, tag, `${OCI}.${isIndex ? 'index' : 'manifest'}.v1+json`, top);
    return digestOf(top ?? '');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.#process && new Promise((resolve) => this.#process?.once('close', resolve));
    if (this.#process?.kill('SIGKILL')) await ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #start(): Promise<void> {
    const { address, port, listenAddress = address, certFile, keyFile, namespace, account } = this.#options;
    const accounts = join(this.#folder, 'htpasswd');
    if (account) writeFileSync(accounts, `${account.username}:${bcrypt(account.password)}\n`);
    const config = {
      version: '0.1',
      log: { level: 'error', accesslog: { disabled: true } },
      storage: { filesystem: { rootdirectory: join(this.#folder, 'storage') } },
      http: { addr: `${listenAddress}:${port}`, tls: { certificate: certFile, key: keyFile } },
      ...(account && { auth: { htpasswd: { realm: 'test', path: accounts } } }),
    };
    const log = join(this.#folder, 'log');
    const file = join(this.#folder, 'config.yml');
    // JSON is YAML.
    writeFileSync(file, JSON.stringify(config));
    if (!existsSync(PROGRAM)) {
      await withoutOwnService('docker-registry');
      await installPackages(['docker-registry'], join(this.#folder, 'apt.log'));
    }
    const [program = '', ...args] = [...(namespace ? ['ip', 'netns', 'exec', namespace] : []), PROGRAM];
    this.#process = spawn(program, [...args, 'serve', file], { stdio: ['ignore', 'ignore', openSync(log, 'w')] });
    this.#process.on('error', () => undefined);
    for (const end = Date.now() + STARTING_MS; ; await pause(50)) {
      const isUp = await this.#send('GET', '/v2/').then(
        () => true,
        () => false,
      );
      if (isUp) return;
      const { exitCode } = this.#process;
      if (exitCode !== null || this.#process.pid === undefined || Date.now() > end)
        throw new Error(`docker-registry did not start: ${readFileSync(log)}`);
    }
  }

  async #pushBlob(repository: string, bytes: Buffer, digest: string): Promise<void> {
    const { headers } = await this.#send('POST', `/v2/${repository}/blobs/uploads/`);
    const url = new URL(headers.location ?? '');
    url.searchParams.set('digest', digest);
    await this.#send('PUT', url.pathname + url.search, bytes, 'application/octet-stream');
  }

  async #pushManifest(repository: string, reference: string, type: string, bytes: Buffer | undefined): Promise<void> {
    await this.#send('PUT', `/v2/${repository}/manifests/${reference}`, bytes, type);
  }

  #send(method: string, path: string, body?: Buffer, type?: string) {
    const { address, port, root, account } = this.#options;
    const auth = account && `${account.username}:${account.password}`;
    const headers = { ...(type && { 'content-type': type }), 'content-length': body?.length ?? 0 };
    const { promise, resolve, reject } = Promise.withResolvers<{ headers: { location?: string | undefined } }>();
    const sent = request({ host: address, port, path, method, ca: root, auth, headers }, async (response) => {
      const text = await buffer(response);
      if ((response.statusCode ?? 0) < 300) resolve({ headers: response.headers });
      else reject(new Error(`${method} ${path}: ${response.statusCode} ${text}`));
    });
    sent.on('error', reject).end(body);
    return promise;
  }
}

/** Returns a hash as `htpasswd -B` makes it. */
function bcrypt(password: string): string {
  const script = 'print crypt($ARGV[0], q($2y$05$) . (q(a) x 21) . q(u))';
  return execFileSync('perl', ['-e', script, password], { encoding: 'utf8' });
}
