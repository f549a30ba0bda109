import { LIMITS } from '@cloche/contract/client';
import type { Cloche, CreateSandboxBody, NetworkPolicy, Sandbox } from '@cloche/sdk';
import type { Command } from 'commander';
import { TAKING_BACK } from '../interruption.ts';
import { duration, durationUpTo, keyValue, networkPolicy, positiveNumber } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatDuration, formatEnd } from '../terminal/duration.ts';

/** Options of every command that creates a sandbox. */
export interface SandboxOptions extends EnvironmentOptions {
  ttl?: number;
  idle?: number;
}

/** Options for what code finds in a sandbox. */
export interface EnvironmentOptions {
  template?: string;
  templateVersion?: string;
  project?: string;
  network?: NetworkPolicy;
  env?: Record<string, string>;
  secret?: Record<string, string>;
  metadata?: Record<string, string>;
  cpu?: number;
  memory?: number;
  disk?: number;
  pids?: number;
}

export function addSandboxOptions(command: Command): Command {
  return addEnvironmentOptions(command)
    .option(
      '--ttl <duration>',
      `lifetime, at most ${formatDuration(LIMITS.updateTtlMaxMs)} (default: 1h)`,
      durationUpTo(LIMITS.updateTtlMaxMs),
    )
    .option('--idle <duration>', 'end the sandbox after this long without use (default: never)', duration);
}

export function addEnvironmentOptions(command: Command): Command {
  return command
    .optionsGroup('Options of the new sandbox:')
    .option('--template <slug>', 'template (default: python-node)')
    .option('--template-version <id>', 'exact version, tplv_… (default: the newest)')
    .option('--project <id>', 'project (default: the default one)')
    .option(
      '--network <policy>',
      'unrestricted, deny-all, allowlist:HOST,… or denylist:HOST,… (default: unrestricted)',
      networkPolicy,
    )
    .option('--env <key=value>', 'environment variable of all processes in the sandbox; repeatable', keyValue)
    .option('--secret <variable=id>', 'environment variable with the placeholder of a secret; repeatable', keyValue)
    .option('--metadata <key=value>', 'label; repeatable', keyValue)
    .option('--cpu <cores>', 'processor cores (default: 1)', positiveNumber)
    .option('--memory <mib>', 'memory in MiB (default: 1024)', positiveNumber)
    .option('--disk <mib>', 'disk in MiB (default: 2048)', positiveNumber)
    .option('--pids <count>', 'maximum number of processes and threads (default: 512)', positiveNumber);
}

/** Creates a sandbox. A lifetime beyond what a creation may ask for is set by a second call. */
export async function createWithTtl(cloche: Cloche, body: CreateSandboxBody): Promise<Sandbox> {
  const { ttlMs = 0 } = body;
  if (ttlMs <= LIMITS.createTtlMaxMs) return cloche.sandboxes.create(body);
  const sandbox = await cloche.sandboxes.create({ ...body, ttlMs: LIMITS.createTtlMaxMs });
  try {
    await sandbox.setTtl(ttlMs);
    return sandbox;
  } catch (error) {
    await sandbox.kill();
    throw error;
  }
}

/** Destroys the sandbox that a command has created. After an interruption, a failure is only a note. */
export async function takeBack(session: Session, sandbox: Sandbox, signal: AbortSignal): Promise<void> {
  try {
    await sandbox.kill({ signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error;
      return sandbox.kill(TAKING_BACK);
    });
  } catch (error) {
    if (!signal.aborted) throw error;
    await session.note(`${sandbox.id} could not be destroyed; it ends in ${formatEnd(sandbox.info.expiresAt)}.`);
  }
}

export function sandboxBody(options: SandboxOptions): CreateSandboxBody {
  return { ...environmentBody(options), ...present({ ttlMs: options.ttl, idleTimeoutMs: options.idle }) };
}

export function environmentBody(options: EnvironmentOptions): Omit<CreateSandboxBody, 'ttlMs' | 'idleTimeoutMs'> {
  const resources = present({
    cpu: options.cpu,
    memoryMb: options.memory,
    diskMb: options.disk,
    pids: options.pids,
  });
  return present({
    projectId: options.project,
    template: options.template,
    templateVersionId: options.templateVersion,
    networkPolicy: options.network,
    env: options.env,
    // Ids are opaque, so only the service can check them.
    secrets: options.secret as CreateSandboxBody['secrets'],
    metadata: options.metadata,
    resources: Object.keys(resources).length === 0 ? undefined : resources,
  });
}

type Present<T> = { [Key in keyof T]?: Exclude<T[Key], undefined> };

/** Returns the entries that have a value. */
export function present<T extends Record<string, unknown>>(entries: T): Present<T> {
  // The cast only expresses that undefined values are dropped.
  return Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined)) as Present<T>;
}
