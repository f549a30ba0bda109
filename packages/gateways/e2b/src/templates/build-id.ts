import { randomUUID } from 'node:crypto';
import type { Resources } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';

/** Parameters of a build that a client sends before the steps. */
export interface BuildRequest {
  /** Names the build. The last step of its recipe has it, so that every server finds the build. */
  readonly name: string;
  readonly resources: Resources;
}

const ID = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.(\d{1,3})\.(\d{1,7}))?$/;

/** Returns the id of a new build. It holds the resources, which the client does not send again with the steps. */
export function newBuildId({ cpu, memoryMb }: Resources): string {
  const name = randomUUID();
  return cpu === undefined && memoryMb === undefined ? name : `${name}.${cpu ?? 0}.${memoryMb ?? 0}`;
}

/** @throws GatewayError 404 */
export function readBuildId(id: string): BuildRequest {
  const [, name, cpu, memoryMb] = ID.exec(id) ?? [];
  if (name === undefined) throw new GatewayError(404, `There is no build ${id}.`);
  return {
    name,
    resources: {
      ...(Number(cpu) > 0 && { cpu: Number(cpu) }),
      ...(Number(memoryMb) > 0 && { memoryMb: Number(memoryMb) }),
    },
  };
}

/** Returns the shell line that marks a build. It does nothing. */
export function markOf(name: string): string {
  return `: build ${name} of an E2B client`;
}
