import type { Logger } from 'pino';
import { ChangeCommand } from '../features/commands/change-command.ts';
import { SqlCommandRepository } from '../features/commands/command-repository.ts';
import { commandRoutes } from '../features/commands/command-routes.ts';
import { CommandWatches } from '../features/commands/command-watches.ts';
import { CreateCommand } from '../features/commands/create-command.ts';
import { OpenPty } from '../features/commands/open-pty.ts';
import { ReadCommands } from '../features/commands/read-commands.ts';
import { StartCommands } from '../features/commands/start-commands.ts';
import { StartingCommands } from '../features/commands/starting-commands.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import type { Database } from '../platform/db/database.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';
import type { SandboxCore } from './compose-sandboxes.ts';
import type { Coordination } from './coordination.ts';

export interface CommandsDeps extends Pick<Coordination, 'servers' | 'clock' | 'watchOthers' | 'stillOwns'> {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly sandboxes: SandboxCore;
  /** Milliseconds that a terminal's shell lives without a client. */
  readonly terminalIdleMs: number;
  readonly ids: IdSource;
  readonly log: Logger;
}

/** The composed parts of commands. */
export interface Commands {
  readonly routes: Route[];
  readonly createCommand: CreateCommand;
  readonly startCommands: StartCommands;
  /** Resumes watching the running commands. */
  start(): Promise<void>;
  /** Stops watching commands, which continue to run. */
  stop(): Promise<void>;
}

export function composeCommands({ db, sandboxes: parts, ...deps }: CommandsDeps): Commands {
  const commands = new SqlCommandRepository(db);
  const startingCommands = new StartingCommands(deps.stillOwns);
  const shared = { ...parts, ...deps, commands, startingCommands };
  const commandWatches = new CommandWatches(shared);
  const readCommands = new ReadCommands(shared);
  const createCommand = new CreateCommand({ ...shared, commandWatches });
  const changeCommand = new ChangeCommand({ ...shared, readCommands });
  const startCommands = new StartCommands({ ...shared, db, createCommand });
  parts.onReady((sandbox) => startCommands.begin(sandbox));
  parts.onMemoryLost((sandbox, at, tx) => commands.killOf(sandbox.id, at, tx));
  parts.onWake((sandbox, agent, signal) => changeCommand.sendSignals(sandbox, agent, signal));
  return {
    createCommand,
    routes: commandRoutes(createCommand, readCommands, changeCommand, new OpenPty(shared)),
    startCommands,
    async start() {
      await commandWatches.start();
      await startCommands.start();
    },
    async stop() {
      await startCommands.stop();
      await commandWatches.stop();
    },
  };
}
