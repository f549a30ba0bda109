import { LIMITS, parseImageName } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import type { Cloche } from '@cloche/sdk';
import { textUpTo } from '../bounded-schemas.ts';

/** The account with which E2B's clients let a private image be downloaded. */
export type RegistryAccount =
  | { readonly type: 'registry'; readonly username: string; readonly password: string }
  | { readonly type: 'gcp'; readonly serviceAccountJson: string }
  | { readonly type: 'aws' };

const password = textUpTo(LIMITS.secretValueLength);
const shape = (type: RegistryAccount['type'], fields: object) => ({
  type: 'object',
  required: ['type', ...Object.keys(fields)],
  properties: { type: { type: 'string', enum: [type] }, ...fields },
});
export const REGISTRY_ACCOUNT = {
  anyOf: [
    { type: 'null' },
    shape('registry', { username: { ...textUpTo(LIMITS.imageUserLength), pattern: '^[^:]+$' }, password }),
    shape('gcp', { serviceAccountJson: password }),
    shape('aws', {}),
  ],
};

/** User of Google's registries whose password is the key of a service account. */
const GOOGLE_USER = '_json_key';
/** Hosts that receive the password of a registry, where these are not the registry and what is below it. */
const SIGN_IN: Readonly<Record<string, readonly string[]>> = {
  'docker.io': ['registry-1.docker.io', 'auth.docker.io'],
  'registry.gitlab.com': ['registry.gitlab.com', 'gitlab.com'],
};

/**
 * Stores the password as a secret of the default project and returns how a recipe names the account. A later build with
 * the same registry and user gives the secret its password.
 *
 * @throws GatewayError 400, 501
 */
export async function credentialsOf({ secrets }: Cloche, imageName: string, account: RegistryAccount) {
  const image = parseImageName(imageName);
  if (!image) throw new GatewayError(400, `fromImage is not the name of an image: ${imageName}`);
  const { username, value } = userOf(account);
  const [host = ''] = image.registry.split(':');
  const hosts = [...(SIGN_IN[image.registry] ?? [host, `*.${host}`])];
  // Names for people have a limit, and a registry with a user may be longer.
  const name = `${image.registry} ${username}`.slice(-LIMITS.secretNameLength);
  const stored = (await secrets.list()).find((each) => each.name === name && sameHosts(each.hosts, hosts));
  const { id } = stored ? await secrets.update(stored.id, { value }) : await secrets.create(name, { value, hosts });
  return { username, secretId: id };
}

function userOf(account: RegistryAccount): { readonly username: string; readonly value: string } {
  if (account.type === 'registry') return { username: account.username, value: account.password };
  if (account.type === 'gcp') return { username: GOOGLE_USER, value: onOneLine(account.serviceAccountJson) };
  const instead = 'give fromImage the username AWS and the password of `aws ecr get-login-password`';
  throw new GatewayError(501, `Cloche asks AWS for no passwords of registries; ${instead}.`);
}

/** Returns JSON without line ends, which a secret cannot have. @throws GatewayError 400 */
function onOneLine(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json));
  } catch {
    throw new GatewayError(400, 'fromImageRegistry.serviceAccountJson is not JSON.');
  }
}

function sameHosts(one: readonly string[], other: readonly string[]): boolean {
  return JSON.stringify([...one].sort()) === JSON.stringify([...other].sort());
}
