import { existsSync, readFileSync } from 'node:fs';
import { pino } from 'pino';
import { readConfig } from '../src/host/config.ts';
import { startHostd } from '../src/host/hostd.ts';

const config = readConfig(process.env);
/** Step after which this process is killed, as a test has written it. */
const killedAfter = (): string | undefined => {
  const file = process.env.CLOCHE_TEST_KILLED_AFTER;
  return file && existsSync(file) ? readFileSync(file, 'utf8') : undefined;
};
const hostd = await startHostd({
  config,
  log: pino({ level: config.logLevel }),
  command: process.argv.slice(2),
  onStep: (step) => {
    if (step === killedAfter()) process.kill(process.pid, 'SIGKILL');
  },
});
process.send?.('serving');

// hostd also ends when its test has died.
for (const event of ['SIGTERM', 'disconnect'] as const) {
  process.once(event, async () => {
    await hostd.close();
    process.exit(0);
  });
}
