import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const NAMESPACE = `clbench${process.pid}`;
const LINK = `ibn${process.pid}`.slice(0, 15);
/** Ends the server when the benchmark ends in any way. */
const WITH_US = ['--pdeathsig', 'TERM', '--'];
const OURS = '203.0.113.249';
/** Address in a documentation range: sandboxes may reach it, and no real host uses it. */
export const UPSTREAM_ADDRESS = '203.0.113.250';

/**
 * Server on the internet as a sandbox sees it: HTTP on port 80, HTTPS on 443 with a certificate of its own authority.
 */
export class Upstream implements AsyncDisposable {
  /** The authority's certificate, which the gateway has to trust. */
  readonly rootFile: string;
  readonly #folder: string;
  readonly #server: ChildProcess;

  private constructor(folder: string, server: ChildProcess) {
    this.#folder = folder;
    this.rootFile = join(folder, 'cert.pem');
    this.#server = server;
  }

  static async start(): Promise<Upstream> {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-bench-upstream-'));
    chmodSync(folder, 0o755);
    const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    await execute('openssl', [
      ...['req', '-x509', '-days', '2', '-subj', '/CN=bench', '-nodes', '-newkey', 'ec'],
      ...['-pkeyopt', 'ec_paramgen_curve:prime256v1', '-keyout', key, '-out', cert],
      ...['-addext', `subjectAltName=IP:${UPSTREAM_ADDRESS}`],
    ]);
    chmodSync(cert, 0o644);
    await ip('netns', 'add', NAMESPACE);
    await ip('link', 'add', LINK, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', NAMESPACE);
    await ip('addr', 'add', `${OURS}/32`, 'peer', `${UPSTREAM_ADDRESS}/32`, 'dev', LINK);
    await ip('link', 'set', LINK, 'up');
    const inside = ['addr', 'add', `${UPSTREAM_ADDRESS}/32`, 'peer', `${OURS}/32`, 'dev', 'eth0'];
    await ip('-n', NAMESPACE, ...inside);
    for (const name of ['lo', 'eth0']) await ip('-n', NAMESPACE, 'link', 'set', name, 'up');
    const program = new URL('./upstream-server.ts', import.meta.url).pathname;
    const server = spawn(
      'setpriv',
      [...WITH_US, 'ip', 'netns', 'exec', NAMESPACE, process.execPath, program, cert, key],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    if (server.stdout) await once(server.stdout, 'data');
    return new Upstream(folder, server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#server, 'exit');
    this.#server.kill();
    await ended;
    await ip('netns', 'delete', NAMESPACE);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function ip(...args: string[]): Promise<void> {
  await execute('ip', args);
}
