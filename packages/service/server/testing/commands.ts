/** Sandboxes of a fake runtime, and their commands. */
import { type Command, type CommandEvent, operations, type SandboxId } from '@cloche/contract';
import { type Commands, composeCommands } from '../src/compose/compose-commands.ts';
import type { Route } from '../src/platform/http/route.ts';
import { openWorld, SandboxesWorld } from './sandboxes.ts';
import { SILENT } from './silent.ts';
import type { TestRequest } from './test-request.ts';

export function openCommands(): Promise<CommandsWorld> {
  return openWorld(CommandsWorld);
}

export class CommandsWorld extends SandboxesWorld {
  #commands: Commands | undefined;

  get createCommand(): Commands['createCommand'] {
    if (!this.#commands) throw new Error('the world has not started');
    return this.#commands.createCommand;
  }

  get startCommands(): Commands['startCommands'] {
    if (!this.#commands) throw new Error('the world has not started');
    return this.#commands.startCommands;
  }

  override get routes(): readonly Route[] {
    return [...super.routes, ...(this.#commands?.routes ?? [])];
  }

  override async start(): Promise<void> {
    await super.start();
    const { db, transactions, ids, server, coordination } = this;
    await this.#commands?.stop();
    this.#commands = composeCommands({
      ...coordination,
      db,
      transactions,
      ids,
      log: SILENT,
      sandboxes: server.core,
      terminalIdleMs: 60_000,
    });
    await this.#commands.start();
  }

  /** Stops what watches commands, as a server that stops does. */
  async stopCommands(): Promise<void> {
    await this.#commands?.stop();
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await this.#commands?.stop();
    await super[Symbol.asyncDispose]();
  }

  agent(sandboxId: SandboxId) {
    return this.driver.agentOf(sandboxId).commands;
  }

  async runCommand(sandboxId: SandboxId, body: Record<string, unknown>, call: TestRequest = {}): Promise<Command> {
    return (await this.call(operations.createCommand, { ...call, params: { sandboxId }, body })).command;
  }

  async getCommand(sandboxId: SandboxId, commandId: string): Promise<Command> {
    return (await this.call(operations.getCommand, { params: { sandboxId, commandId } })).command;
  }

  async listCommands(sandboxId: SandboxId): Promise<Command[]> {
    return (await this.call(operations.listCommands, { params: { sandboxId } })).data;
  }

  async follow(sandboxId: SandboxId, commandId: string, lastEventId?: string): Promise<AsyncIterable<CommandEvent>> {
    const found = this.routes.find((route) => route.operation.id === 'streamCommand');
    if (found?.kind !== 'stream') throw new Error('streamCommand is no stream route');
    const call = { params: { sandboxId, commandId }, ...(lastEventId === undefined ? {} : { lastEventId }) };
    return (await found.handle(this.context(call))) as AsyncIterable<CommandEvent>;
  }
}
