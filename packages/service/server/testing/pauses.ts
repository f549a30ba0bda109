/** Sandboxes of a fake runtime that are paused and resumed. */
import assert from 'node:assert/strict';
import { operations, type Sandbox, type SandboxId } from '@cloche/contract';
import type { Freezing } from '@cloche/runtime';
import type { SandboxRecord } from '../src/features/sandbox-records/sandbox.ts';
import type { MoveName } from '../src/features/sandbox-records/sandbox-pauses.ts';
import type { MoveChange } from '../src/features/sandbox-records/sandbox-repository.ts';
import type { SandboxSettings } from '../src/features/sandbox-records/sandbox-settings.ts';
import { UNAUDITED } from '../src/platform/call/call.ts';
import { CommandsWorld } from './commands.ts';
import { openWorld, type SandboxesWorld } from './sandboxes.ts';
import type { TestRequest } from './test-request.ts';

export const openPauses = (settings: Partial<SandboxSettings> = {}) => openWorld(CommandsWorld, settings);

export async function pause(
  world: SandboxesWorld,
  sandboxId: SandboxId,
  body: object = {},
  call: TestRequest = {},
): Promise<Sandbox> {
  return (await world.call(operations.pauseSandbox, { ...call, params: { sandboxId }, body })).sandbox;
}

export async function resume(
  world: SandboxesWorld,
  sandboxId: SandboxId,
  body: object = {},
  call: TestRequest = {},
): Promise<Sandbox> {
  return (await world.call(operations.resumeSandbox, { ...call, params: { sandboxId }, body })).sandbox;
}

/** Returns the part of the fake runtime that freezes instances. */
export function freezingOf({ driver }: SandboxesWorld): Freezing {
  if (!driver.freezing) throw new Error('the runtime cannot freeze');
  return driver.freezing;
}

/** Returns whether the runtime holds the sandbox's instance frozen. */
export function isFrozen({ driver }: SandboxesWorld, sandboxId: SandboxId): boolean {
  return driver.instances().some((instance) => instance.sandboxId === sandboxId && instance.isFrozen === true);
}

export async function recordOf({ server }: SandboxesWorld, id: SandboxId): Promise<SandboxRecord> {
  return (await server.core.sandboxes.find(id)) ?? assert.fail('the sandbox was not found');
}

/** Writes a move as a server does that ends right after it. */
export async function leave(
  world: SandboxesWorld,
  id: SandboxId,
  move: MoveName,
  change: MoveChange = {},
): Promise<void> {
  const moved = await world.server.core.sandboxes.move(await recordOf(world, id), move, change, UNAUDITED);
  assert.ok(moved, move);
}

/** Returns the types of the events of a sandbox's pauses, oldest first. */
export async function pauseEvents({ db }: SandboxesWorld): Promise<string[]> {
  const types = ['sandbox.paused', 'sandbox.memory_lost', 'sandbox.resumed'];
  const rows = await db.selectFrom('events').select('type').where('type', 'in', types).orderBy('seq').execute();
  return rows.map(({ type }) => type);
}

/** Servers that share a database may learn of each other's changes half a second late. */
export const LAG_MS = 500;

/** Waits until the counter of the sandbox was read since the clock was moved. */
export async function untilRead(world: SandboxesWorld): Promise<void> {
  const { driver } = world;
  const usesOf = driver.usesOf.bind(driver);
  const isRead = Promise.withResolvers<void>();
  driver.usesOf = async (...parts) => {
    const uses = await usesOf(...parts);
    setImmediate(isRead.resolve);
    return uses;
  };
  await isRead.promise;
  driver.usesOf = usesOf;
}

/** Moves the clock over the time without use of a sandbox that is not used meanwhile, in two steps with a reading each. */
export async function passIdle(world: SandboxesWorld, ms: number, cpuMs = 0, id?: SandboxId): Promise<void> {
  world.clock.advance(1_000 + LAG_MS);
  await untilRead(world);
  if (id) world.driver.spend(id, { cpuMs });
  world.clock.advance(ms - 1_000);
}
