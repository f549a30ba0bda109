import { hasOwnZygote, type LaunchableVersion } from '../storage/launchable-versions.ts';

/** Returns the variables by which the manifest of a captured version changes the agent's defaults. */
export function agentSettings(version: LaunchableVersion): Record<string, string> {
  const { languages, user, warm } = version.manifest;
  const imports = warm?.imports ?? [];
  return {
    ...(user && { CLOCHE_USER_UID: `${user.uid}`, CLOCHE_USER_GID: `${user.gid}`, CLOCHE_USER_HOME: user.home }),
    ...(hasOwnZygote(version) && languages.includes('python') && { CLOCHE_OWN_ZYGOTE: '1' }),
    ...(imports.length > 0 && { CLOCHE_WARM_IMPORTS: imports.join(',') }),
  };
}
