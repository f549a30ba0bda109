import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installPackages } from '@cloche/setup';
import { type Browser, chromium } from 'playwright-core';
import { relay } from './relay.ts';

const PROGRAM = '/usr/bin/chromium';
const IN_NAMESPACE = join(import.meta.dirname, 'chromium-in-namespace.ts');

/**
 * Launches Debian's Chromium, and installs it if it is missing. It resolves every name below `localhost` to the
 * loopback address, and reaches only the port of `url`: it has a network namespace of its own, because it aborts
 * requests when an interface comes or goes, as with each sandbox on the host.
 *
 * @param hosts addresses of further names, such as `{ '*.a.localhost': '127.0.0.1:4680' }`
 */
export async function launchChromium(url: string, hosts: Readonly<Record<string, string>> = {}): Promise<Browser> {
  const folder = await mkdtemp(join(tmpdir(), 'cloche-chromium-'));
  const port = new URL(url).port;
  const server = createServer((socket) => relay(socket, connect(Number(port), '127.0.0.1')));
  const close = async () => {
    server.close();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    if (!existsSync(PROGRAM)) await installPackages(['chromium'], join(folder, 'apt.log'));
    const path = join(folder, 'socket');
    await once(server.listen(path), 'listening');
    const launcher = join(folder, 'chromium');
    const command = ['unshare', '--net', process.execPath, IN_NAMESPACE, path, port, PROGRAM];
    await writeFile(launcher, `#!/bin/sh\nexec ${command.map((word) => `'${word}'`).join(' ')} "$@"\n`);
    await chmod(launcher, 0o755);
    const browser = await launch(launcher, hosts);
    // Cannot reject: nothing else removes what is in the folder.
    browser.once('disconnected', () => void close());
    return browser;
  } catch (error) {
    await close();
    throw error;
  }
}

function launch(executablePath: string, hosts: Readonly<Record<string, string>>): Promise<Browser> {
  const rules = Object.entries(hosts).map(([name, address]) => `MAP ${name} ${address}`);
  // Root cannot use Chromium's sandbox; it shows only pages of these tests.
  return chromium.launch({
    executablePath,
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
      ...(rules.length > 0 ? [`--host-resolver-rules=${rules.join(',')}`] : []),
    ],
  });
}
