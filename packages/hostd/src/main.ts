import { pino } from 'pino';
import { readConfig } from './config.ts';
import { startHostd } from './hostd.ts';

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
