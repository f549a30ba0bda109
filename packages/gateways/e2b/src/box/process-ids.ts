import { createHash } from 'node:crypto';
import { LIMITS } from '@cloche/contract';
import type { Command, Commands } from '@cloche/sdk';
import { Code, ConnectError } from '@connectrpc/connect';
import type { ProcessSelector } from '../generated/process/process_pb.js';
import type { BoxSession } from './box-session.ts';

/**
 * Returns the number by which E2B's clients name a command. It is derived from the id, so that every server finds the
 * command without a table of numbers. Two commands of a sandbox collide with a probability of about 2^-30.
 */
export function processIdOf(commandId: string): number {
  return (createHash('sha256').update(commandId).digest().readUInt32BE() >>> 1) + 1;
}

/** @throws ConnectError `not_found` for a command that has ended, as for one that never was. */
export async function findProcess({ commands }: BoxSession, process: ProcessSelector | undefined): Promise<Command> {
  const { selector } = process ?? {};
  if (selector?.case !== 'pid') throw new ConnectError('Cloche finds a process by its pid only.', Code.Unimplemented);
  for await (const command of runningOf(commands)) {
    if (processIdOf(command.id) === selector.value) return command;
  }
  throw new ConnectError(`The process with pid ${selector.value} was not found.`, Code.NotFound);
}

/** Yields the running commands, and holds a page of all commands at a time. */
export async function* runningOf(commands: Commands): AsyncGenerator<Command, void> {
  for await (const command of commands.list({ limit: LIMITS.listPage })) {
    if (command.info.status === 'running') yield command;
  }
}
