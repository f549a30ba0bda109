import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installAptPackages } from '@cloche/setup';
import { type Browser, chromium } from 'playwright-core';

const PROGRAM = '/usr/bin/chromium';

/**
 * Launches Debian's Chromium, and installs it if it is missing. It resolves every name below `localhost` to the
 * loopback address.
 *
 * @param hosts addresses of further names, such as `{ '*.a.localhost': '127.0.0.1:4680' }`
 */
export async function launchChromium(hosts: Readonly<Record<string, string>> = {}): Promise<Browser> {
  if (!existsSync(PROGRAM)) await install();
  const rules = Object.entries(hosts).map(([name, address]) => `MAP ${name} ${address}`);
  // Root cannot use Chromium's sandbox; it shows only pages of these tests.
  return chromium.launch({
    executablePath: PROGRAM,
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
      ...(rules.length > 0 ? [`--host-resolver-rules=${rules.join(',')}`] : []),
    ],
  });
}

async function install(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'cloche-chromium-'));
  try {
    await installAptPackages(['chromium'], join(folder, 'apt.log'));
  } finally {
    await rm(folder, { recursive: true });
  }
}
