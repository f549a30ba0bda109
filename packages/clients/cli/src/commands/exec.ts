import type { CommandUser } from '@cloche/contract';
import { LIMITS } from '@cloche/contract/client';
import { type Command as CommandHandle, Commands, type SandboxInfo } from '@cloche/sdk';
import type { Command } from 'commander';
import { leaf, perform } from '../command.ts';
import { madeDespite, TAKING_BACK, watchForInterruption } from '../interruption.ts';
import { durationUpTo, keyValue, userOption, withRaw } from '../option-values.ts';
import type { Session } from '../session.ts';
import { standardInput } from '../standard-input.ts';
import { followToEnd } from './command.ts';

interface ExecFlags {
  cwd?: string;
  env?: Record<string, string>;
  user?: CommandUser;
  timeout?: number;
  interactive?: boolean;
  detach?: boolean;
}

export function addExecCommand(program: Command): void {
  const exec = leaf(program, 'exec <sandbox> <command...>', 'Run a command in a sandbox and exit with its exit code', [
    'cloche exec sbx_… -- ls -la',
    "cloche exec sbx_… 'grep -r TODO . | wc -l'",
    'cat data.csv | cloche exec -i sbx_… -- sort -u',
    'cloche exec -d sbx_… -- python3 -m http.server 8000',
  ])
    // Options after the sandbox belong to the command.
    .passThroughOptions()
    .option('-d, --detach', 'leave the command running and print its id')
    .option('-i, --interactive', 'pass standard input to the command')
    .addOption(userOption())
    .option('--cwd <folder>', 'working directory (default: /workspace)')
    .option('-e, --env <key=value>', 'environment variable; repeatable', keyValue)
    .option(
      '--timeout <duration>',
      'end the command after this long, at most 1h (default: never)',
      durationUpTo(LIMITS.commandTimeoutMaxMs),
    );
  perform(withRaw(exec), execCommand);
}

async function execCommand(session: Session, flags: ExecFlags, sandboxId: string, given: string[]): Promise<void> {
  const words = given[0] === '--' ? given.slice(1) : given;
  const cloche = await session.connect();
  // Ids are opaque, so only the service can check them.
  const commands = new Commands(cloche, sandboxId as SandboxInfo['id']);
  using interruption = watchForInterruption();
  const [line = '', ...others] = words;
  const starting = commands.start(others.length === 0 ? line : words, {
    cwd: flags.cwd,
    env: flags.env,
    user: flags.user,
    timeoutMs: flags.timeout,
    stdinOpen: flags.interactive ?? false,
  });
  const { signal } = interruption;
  const command = await madeDespite(signal, starting);
  if (flags.detach) {
    await session.show(command.info, () => command.id);
    return;
  }
  const feeding = flags.interactive ? feed(command, signal) : undefined;
  try {
    await followToEnd(session, command, signal);
  } catch (error) {
    // After an interruption or an error, nothing reads the output any more.
    await command.kill(undefined, TAKING_BACK).catch(() => undefined);
    throw error;
  }
  // The command has ended, so pending input is discarded.
  if (feeding) process.stdin.destroy();
}

/** Sends standard input to the command until either ends. */
async function feed(command: CommandHandle, signal: AbortSignal): Promise<void> {
  try {
    for await (const chunk of standardInput()) await command.sendStdin(chunk, { signal });
    await command.closeStdin({ signal });
  } catch {
    process.stdin.destroy();
  }
}
