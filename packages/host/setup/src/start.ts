import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { clientFilePath } from '@cloche/cli/client-file';
import { cacheRetentionOf, checkPort, refusals, roomOfCache } from '@cloche/host-checks';
import { clocheCommand, startCommand } from '@cloche/layout';
import { isGvisor } from '@cloche/protocol';
import { effectiveSettings, problemWith, settingsFor } from '@cloche/settings';
import { readClientConfig, writeClientConfig } from './client-config.ts';
import { requestFirstKey } from './first-key.ts';
import { prepareHost } from './host/prepare-host.ts';
import {
  databaseUrlOf,
  type Installation,
  requireSharedDatabase,
  startInstallation,
} from './installation/start-installation.ts';
import { type Progress, SetupError } from './progress.ts';
import { type Welcome, welcomeLines } from './welcome.ts';

const PORT_WAIT_MS = 3000;

export interface StartOptions {
  /** Takes precedence over `CLOCHE_SERVERS`. */
  readonly servers?: string | undefined;
}

/** Runs `npm start` and `cloche start`: prepares the host, serves until interrupted, and leaves the sandboxes running. */
export async function start(given: NodeJS.ProcessEnv, progress: Progress, options: StartOptions = {}): Promise<void> {
  const interrupted = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM'), once(process, 'SIGHUP')]);
  // Further signals change nothing: the parts stop in order, each within its grace period.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});

  const env = options.servers === undefined ? given : { ...given, CLOCHE_SERVERS: options.servers };
  const settings = effectiveSettings(env);
  const own = settingsFor('setup', settings);
  const { CLOCHE_CACHE_DIR: cacheDir = '', CLOCHE_DATA_DIR: dataDir = '', CLOCHE_HOST: host = '' } = own;
  const runDir = own.CLOCHE_RUN_DIR;
  const port = numberOf('CLOCHE_PORT', own.CLOCHE_PORT);
  const servers = numberOf('CLOCHE_SERVERS', own.CLOCHE_SERVERS);
  if (servers > 1) requireSharedDatabase(databaseUrlOf(settings));
  const gvisor = isGvisor(settingsFor('hostd', settings).CLOCHE_OCI_RUNTIME ?? '');
  refuseMachine(cacheDir);
  await requireFreePort(host, port);
  const prepared = await prepareHost({
    cacheDir,
    retentionMs: cacheRetentionOf(own),
    progress,
    gvisor,
    balancer: servers > 1,
  });
  const title = servers === 1 ? 'hostd, egress, server' : `hostd, egress, ${servers} servers, load balancer`;
  const installation = await progress.step(title, 'See the logs above.', () =>
    startInstallation({
      ...{ dataDir, cacheDir, host, port, servers, settings, prepared },
      ...(runDir !== undefined && { runDir }),
      report: progress.line,
    }),
  );
  for (const line of welcomeLines(await greet(installation))) progress.line(line);

  await interrupted;
  await farewell(installation, progress);
}

/** Refuses a machine that cannot run Cloche, before anything is downloaded, with the fix of each reason. */
function refuseMachine(cacheDir: string): void {
  const room = roomOfCache(cacheDir);
  const found = refusals({ command: startCommand(), needsRoot: true, room, downloads: room.length > 0 });
  if (found.length === 0) return;
  const lines = found.map(({ problem, remedy }) => `${problem} ${remedy}`);
  throw new SetupError(lines.join('\n'), `\`${clocheCommand('doctor')}\` shows all that is looked at.`);
}

async function greet(installation: Installation): Promise<Welcome> {
  const { url } = installation;
  const file = clientFilePath();
  const firstKey = await requestFirstKey(installation);
  const existing = await readClientConfig(file);
  // Do not overwrite the key of another installation.
  if (firstKey && (existing === undefined || existing.url === url)) {
    await writeClientConfig(file, { url, apiKey: firstKey });
  }
  const config = await readClientConfig(file);
  return { url, ...(firstKey && { firstKey }), ...(config && { client: { file, config } }) };
}

async function farewell(installation: Installation, progress: Progress): Promise<void> {
  const staying = await installation.instanceCount().catch(() => undefined);
  await progress.step('ending server, egress, hostd', 'See the logs.', () => installation.stop());
  if (staying === 0) return;
  progress.line(
    `${staying ?? 'Some'} sandbox${staying === 1 ? ' stays' : 'es stay'}. \`${clocheCommand('admin destroy-all')}\` ends them, once Cloche is started again.`,
  );
}

function numberOf(name: 'CLOCHE_PORT' | 'CLOCHE_SERVERS', text = ''): number {
  const problem = problemWith(name, text);
  if (problem === undefined) return Number(text);
  throw new SetupError(`${name} is ${JSON.stringify(text)}.`, `${problem}.`);
}

/** Waits for the port, because a process killed a moment ago may still hold it. */
async function requireFreePort(host: string, port: number): Promise<void> {
  const deadline = performance.now() + PORT_WAIT_MS;
  for (;;) {
    const { status, found } = await checkPort(host, port);
    if (status === 'ok') return;
    if (performance.now() > deadline) {
      throw new SetupError(
        `Port ${found}.`,
        'If Cloche is already running there, use it; otherwise set CLOCHE_PORT or CLOCHE_HOST to a free address.',
      );
    }
    await delay(50);
  }
}
