import { operations, type SandboxId, type SandboxUsage, type UsageRow } from '@cloche/contract';
import type { SandboxesWorld } from './sandboxes.ts';
import type { TestRequest } from './test-request.ts';

export const RESOURCES = { memoryMb: 256, diskMb: 128 };

export const usageOf = async (world: SandboxesWorld, sandboxId: SandboxId): Promise<SandboxUsage> =>
  (await world.call(operations.getSandboxUsage, { params: { sandboxId } })).usage;
export const list = async (
  world: SandboxesWorld,
  query: Record<string, unknown> = {},
  call: TestRequest = {},
): Promise<UsageRow[]> => (await world.call(operations.listUsage, { ...call, query })).data;
export const ready = (world: SandboxesWorld, body: object = {}) => world.createReady({ resources: RESOURCES, ...body });

/** Returns the usage without the fields that are 0. */
export function used(row: UsageRow | SandboxUsage): Record<string, unknown> {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== 0));
}

/** Returns the sum of a field over rows. */
export function sum(
  rows: readonly UsageRow[],
  field: 'cpuMs' | 'sandboxMs' | 'memoryMbMs' | 'runs' | 'egressBytes',
): number {
  return rows.reduce((total, row) => total + row[field], 0);
}

export async function pass(world: SandboxesWorld, afterMs = 10_000): Promise<void> {
  world.clock.advance(afterMs);
  await world.usage.rollUp.pass();
}
