import type { OperationId, Operations } from './index.ts';

/** An operation whose path names a sandbox. */
export type SandboxOperationId = {
  [Id in OperationId]: Operations[Id]['path'] extends `/v1/sandboxes/{sandboxId}${string}` ? Id : never;
}[OperationId];

/**
 * The effect of a pause on an operation. `answered`: it reads or changes records alone. `wakes`: it needs the processes or
 * files of the sandbox, which wakes first, or is refused if its policy is `explicit`. `put_off`: it is done on the record, and in the sandbox at its wake. `refused`:
 * with `sandbox_paused`. `moves`: it pauses, resumes or ends the sandbox.
 */
export type WhilePaused = 'answered' | 'wakes' | 'put_off' | 'refused' | 'moves';

/** The effect of a pause on every operation of a sandbox. Others read or change records alone. */
export const WHILE_PAUSED: Readonly<Record<SandboxOperationId, WhilePaused>> = {
  getSandbox: 'answered',
  updateSandbox: 'answered',
  setSandboxTtl: 'refused',
  extendSandbox: 'refused',
  pauseSandbox: 'moves',
  resumeSandbox: 'moves',
  killSandbox: 'moves',
  getSandboxMetrics: 'answered',

  createContext: 'wakes',
  listContexts: 'answered',
  getContext: 'answered',
  deleteContext: 'put_off',
  interruptContext: 'put_off',
  restartContext: 'wakes',
  runCode: 'wakes',
  streamCode: 'wakes',

  createCommand: 'wakes',
  runCommand: 'wakes',
  startCommand: 'wakes',
  listCommands: 'answered',
  getCommand: 'answered',
  listCommandLogs: 'wakes',
  streamCommand: 'wakes',
  writeCommandStdin: 'wakes',
  resizeCommand: 'wakes',
  killCommand: 'put_off',
  openPty: 'wakes',

  readFile: 'wakes',
  writeFile: 'wakes',
  listFiles: 'wakes',
  statFile: 'wakes',
  makeDirectory: 'wakes',
  moveFile: 'wakes',
  copyFile: 'wakes',
  deleteFile: 'wakes',
  readArchive: 'wakes',
  writeArchive: 'wakes',
  watchFiles: 'wakes',

  exportArtifact: 'wakes',

  openPreview: 'answered',
  listSandboxPreviews: 'answered',

  getSandboxUsage: 'answered',
};

/** Returns whether the operation wakes a paused sandbox, if its policy permits that. */
export function wakes({ id }: { readonly id: string }): boolean {
  return (WHILE_PAUSED as Readonly<Record<string, WhilePaused>>)[id] === 'wakes';
}
