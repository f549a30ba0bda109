import { effectiveSettings, redacted } from '@cloche/settings';

/** A setting of the host for `cloche config`, with a secret left out. */
export interface HostSetting {
  readonly name: string;
  readonly value: string | undefined;
  readonly source: string;
  readonly doc: string;
}

/** Returns every setting. `redact` leaves out a value of the setting if it is a secret. */
export function hostSettings(
  env: NodeJS.ProcessEnv,
): (HostSetting & { redact: (value: string) => string | undefined })[] {
  return effectiveSettings(env).map((setting) => {
    const { name, source, doc } = setting;
    const redact = (value: string) => redacted({ ...setting, value });
    return { name, value: redacted(setting), source, doc, redact };
  });
}
