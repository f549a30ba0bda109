import { pino } from 'pino';
import { readConfig } from './host/config.ts';
import { startHostd } from './host/hostd.ts';

// Fix the umask: a sandbox's root is an unprivileged host user and must be able to traverse the folders made here.
process.umask(0o022);

const config = readConfig(process.env);
const log = pino({ name: 'hostd', level: config.logLevel });
const starting = startHostd({ config, log });

// From the start: hostd answers requests, and may have begun to remove an instance, before its start is over.
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    stop().catch((err: unknown) => {
      log.error({ operation: 'stop', outcome: 'failed', err });
      process.exit(1);
    });
  });
}

await starting;
log.info({ operation: 'start', outcome: 'serving', installationId: config.installationId });

async function stop(): Promise<void> {
  const hostd = await starting;
  await hostd.close();
  log.info({ operation: 'stop', outcome: 'closed' });
  process.exit(0);
}
