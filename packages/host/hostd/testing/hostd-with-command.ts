import { pino } from 'pino';
import { readConfig } from '../src/host/config.ts';
import { startHostd } from '../src/host/hostd.ts';

const config = readConfig(process.env);
const hostd = await startHostd({ config, log: pino({ level: config.logLevel }), command: process.argv.slice(2) });
process.send?.('serving');

// hostd also ends when its test has died.
for (const event of ['SIGTERM', 'disconnect'] as const) {
  process.once(event, async () => {
    await hostd.close();
    process.exit(0);
  });
}
