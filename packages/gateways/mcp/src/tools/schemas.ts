import { LIMITS } from '@cloche/contract';
import { z } from 'zod';

/** Longest id or name of a thing. Each input has a maximum: strings that fit the body of a request may take seconds. */
const ID_LENGTH = 256;

export const id = () => z.string().max(ID_LENGTH);
export const path = () => z.string().min(1).max(LIMITS.filePathLength);
export const sandboxId = id().describe('Id of the sandbox.');
export const usedSandboxId = id()
  .optional()
  .describe('Sandbox of an earlier call. Default: that of the session, for a client with sessions.');

/** Labels or variables: texts by their names. */
export function texts(most: { entries: number; nameLength: number; valueLength: number }) {
  return z
    .record(z.string().max(most.nameLength), z.string().max(most.valueLength))
    .refine((given) => Object.keys(given).length <= most.entries, `must have at most ${most.entries} entries`)
    .meta({ maxProperties: most.entries });
}

export const labels = () =>
  texts({
    entries: LIMITS.metadataKeys,
    nameLength: LIMITS.metadataKeyLength,
    valueLength: LIMITS.metadataValueLength,
  });
