import type { CreateSandboxBody } from '@cloche/sdk';
import type { CreateSandboxOptions } from '@computesdk/provider';

/** Options of ComputeSDK that choose what a sandbox starts from, and that Cloche does not have. */
const UNSUPPORTED = ['snapshotId', 'image'];

/**
 * Returns the request for a new sandbox.
 *
 * @throws if an option asks for another start than a template: the sandbox would not have what the caller relies on
 */
export function createBody(defaults: CreateSandboxBody = {}, options: CreateSandboxOptions = {}): CreateSandboxBody {
  const unsupported = UNSUPPORTED.find((name) => options[name] !== undefined);
  if (unsupported !== undefined)
    throw new Error(`Cloche has no \`${unsupported}\`: build a template, and name it by \`templateId\`.`);
  const { timeout, templateId, envs, name, metadata, cpu, memoryMb, diskMb } = options;
  const resources = given({ ...defaults.resources, ...given({ cpu, memoryMb, diskMb }) });
  const labels = { ...metadata, ...given({ name }) };
  return {
    ...defaults,
    ...given({ ttlMs: timeout, template: templateId }),
    ...(envs && { env: { ...defaults.env, ...envs } }),
    ...(Object.keys(resources).length > 0 && { resources }),
    ...(Object.keys(labels).length > 0 && { metadata: { ...defaults.metadata, ...texts(labels) } }),
  };
}

/** Leaves out fields without a value. */
function given<Fields extends object>(fields: Fields): { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };
}

/** Labels of Cloche are texts; those of ComputeSDK are any values. */
function texts(labels: Record<string, unknown>): Record<string, string> {
  const entries = Object.entries(labels).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)]),
  );
}
