import { type Logger, pino } from 'pino';
import { startServer } from './compose/compose.ts';
import { type Config, ConfigError, readConfig } from './compose/config.ts';
import { LogLines } from './platform/base/log-lines.ts';
import { lockSqliteFile } from './platform/db/sqlite-file-lock.ts';

const config = configuredOrExit();
const lines = new LogLines();
process.once('exit', () => lines.flushSync());
const log = pino({ name: 'server', level: config.logLevel }, lines);
endOnFaults(log);
await serve(config, log);

async function serve(config: Config, log: Logger): Promise<void> {
  const reason = lockSqliteFile(config.databaseUrl);
  if (reason !== undefined) refuse(reason);
  const server = await startServer(config, log);
  log.info({ url: server.url }, 'serving');
  const signal = await new Promise<NodeJS.Signals>((resolve) => {
    process.once('SIGTERM', resolve).once('SIGINT', resolve);
  });
  // The same signal again ends the process at once.
  log.info({ signal }, 'stopping');
  await server.stop();
  log.info('stopped');
  // Connections kept for later requests would keep the process.
  process.exit();
}

function configuredOrExit(): Config {
  try {
    return readConfig();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    refuse(error.message);
  }
}

/** Ends the process with a code after which supervisors do not start it again. */
function refuse(reason: string): never {
  process.stderr.write(`${reason}\n`);
  process.exit(78);
}

/** Ends the process after an unexpected error, because its state may be wrong. The supervisor starts it again. */
function endOnFaults(log: Logger): void {
  const end = (error: unknown) => {
    log.fatal({ err: error }, 'fault');
    process.exit(1);
  };
  process.on('uncaughtException', end).on('unhandledRejection', end);
}
