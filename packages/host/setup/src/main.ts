import { parseArgs } from 'node:util';
import { cacheRetentionOf } from '@cloche/host-checks';
import { startCommand } from '@cloche/layout';
import { isGvisor } from '@cloche/protocol';
import { effectiveSettings, SettingsError, settingsFor } from '@cloche/settings';
import { endSandboxes } from './end-sandboxes.ts';
import { canBuildGoPrograms } from './host/build-go-program.ts';
import { ensureVersitygw } from './host/build-versitygw.ts';
import { prepareHost } from './host/prepare-host.ts';
import { databaseUrlOf, requireSharedDatabase } from './installation/start-installation.ts';
import { writeUnitEnvironments } from './installation/unit-environments.ts';
import { createProgress, describeFailure, type Progress, SetupError } from './progress.ts';
import { type StartOptions, start } from './start.ts';

const COMMANDS: Record<string, (progress: Progress, options: StartOptions) => Promise<unknown>> = {
  start: (progress, options) => start(process.env, progress, options),
  /** Prepares everything that tests need of the host, without serving. */
  prepare: async (progress) => {
    const { cacheDir, retentionMs } = cacheOf(process.env);
    const hasGo = await canBuildGoPrograms();
    await prepareHost({ cacheDir, retentionMs, progress, gvisor: hasGo });
    if (!hasGo) return;
    await progress.step('S3 server for tests', 'It takes Go and its module proxy once.', (note) =>
      ensureVersitygw(cacheDir, () => note('built once, which takes two minutes')),
    );
  },
  /** Prepares what the systemd units need before they start; see deploy/systemd. */
  units: async (progress) => {
    const settings = effectiveSettings(process.env);
    const gvisor = isGvisor(settingsFor('hostd', settings).CLOCHE_OCI_RUNTIME ?? '');
    const balancer = Number(settingsFor('setup', settings).CLOCHE_SERVERS) > 1;
    if (balancer) requireSharedDatabase(databaseUrlOf(settings));
    const prepared = await prepareHost({ ...cacheOf(process.env), progress, gvisor, balancer });
    await writeUnitEnvironments(prepared, settings);
  },
  /** Ends all sandboxes before a package of Cloche is removed. */
  'end-sandboxes': () => endSandboxes(process.env),
};

try {
  const { positionals, values } = parseArgs({ allowPositionals: true, options: { servers: { type: 'string' } } });
  const command = COMMANDS[positionals[0] ?? ''];
  if (positionals.length !== 1 || !command) {
    throw new SetupError(`There is no command \`${positionals.join(' ')}\`.`, `Run \`${startCommand()}\`.`);
  }
  await command(createProgress(process.stdout), values);
  process.exit(0);
} catch (error) {
  process.stderr.write(`\n${error instanceof SettingsError ? error.message : describeFailure(error)}\n`);
  process.exit(1);
}

function cacheOf(env: NodeJS.ProcessEnv): { cacheDir: string; retentionMs: number } {
  const settings = settingsFor('setup', effectiveSettings(env));
  return { cacheDir: settings.CLOCHE_CACHE_DIR ?? '', retentionMs: cacheRetentionOf(settings) };
}
