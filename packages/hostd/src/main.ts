import { pino } from 'pino';
import { readConfig } from './host/config.ts';
import { startHostd } from './host/hostd.ts';

// Fix the umask: a sandbox's root is an unprivileged host user and must be able to traverse the folders made here.
process.umask(0o022);

const config = readConfig(process.env);
const log = pino({ name: 'hostd', level: config.logLevel });
const hostd = await startHostd({ config, log });
log.info({ operation: 'start', outcome: 'serving', installationId: config.installationId });

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, async () => {
    await hostd.close();
    log.info({ operation: 'stop', outcome: 'closed' });
    process.exit(0);
  });
}
