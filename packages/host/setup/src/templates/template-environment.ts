import type { Recipe } from './recipe.ts';

/** Path in a sandbox of the certificates that its host trusts. */
export const CA_BUNDLE = '/etc/ssl/certs/ca-certificates.crt';

const CA_VARIABLES = [
  'SSL_CERT_FILE',
  'REQUESTS_CA_BUNDLE',
  'PIP_CERT',
  'NODE_EXTRA_CA_CERTS',
  'CURL_CA_BUNDLE',
  'GIT_SSL_CAINFO',
];

/** Returns the environment of every process in a sandbox of the recipe's template. */
export function templateEnvironment(recipe: Recipe): Record<string, string> {
  return {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    ...Object.fromEntries(CA_VARIABLES.map((name) => [name, CA_BUNDLE])),
    // Users install to their home folder; the agent puts its programs on their PATH.
    NPM_CONFIG_PREFIX: '/home/user/.local',
    NPM_CONFIG_UPDATE_NOTIFIER: 'false',
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
    ...recipe.env,
  };
}
