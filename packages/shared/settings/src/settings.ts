/**
 * Every setting of Cloche, in the order of `cloche config`. That command, the configurations of server, hostd and
 * egress, and the table in docs/operating/settings.md derive from it.
 */
import type { Static, TSchema } from 'typebox';
import { HOST_SETTINGS } from './host-settings.ts';
import { SERVICE_SETTINGS } from './service-settings.ts';
import { folder, integer, type Setting, type SettingReader, text } from './setting.ts';

export { LOG_LEVELS } from './service-settings.ts';

export const SETTINGS = {
  ...HOST_SETTINGS,
  ...SERVICE_SETTINGS,
  CLOCHE_URL: {
    value: text('.', 'a URL'),
    defaultText: 'as in `~/.config/cloche/config.json`',
    readBy: ['cli'],
    summary: 'URL of the API for the command line',
  },
  CLOCHE_API_KEY: {
    value: text('.', 'an API key'),
    defaultText: 'as in `~/.config/cloche/config.json`',
    readBy: ['cli'],
    secret: true,
    summary: 'API key of the command line',
  },
  CLOCHE_SERVER_NAME: {
    value: text('^[a-z0-9]{1,16}$', 'up to 16 characters of a-z and 0-9'),
    readBy: ['server'],
    isInternal: true,
    isResolvedBySetup: true,
    summary:
      'name of one of several servers of an installation; it serves sockets, to which the load balancer connects',
  },
  CLOCHE_GUEST_DIR: {
    value: folder(),
    required: true,
    readBy: ['hostd'],
    isInternal: true,
    isResolvedBySetup: true,
    summary: 'folder of the guest files that are mounted into sandboxes',
  },
  CLOCHE_SERVICE_UID: {
    value: integer(0, 4_294_967_294),
    required: true,
    readBy: ['hostd'],
    isInternal: true,
    isResolvedBySetup: true,
    summary: 'user of the server',
  },
  CLOCHE_SERVICE_GID: {
    value: integer(0, 4_294_967_294),
    required: true,
    readBy: ['hostd'],
    isInternal: true,
    isResolvedBySetup: true,
    summary: 'group of the server',
  },
} as const satisfies Record<string, Setting>;

type Table = typeof SETTINGS;
export type SettingName = keyof Table;
export type SettingsReadBy<Reader extends SettingReader> = {
  [Name in SettingName]: Reader extends Table[Name]['readBy'][number] ? Name : never;
}[SettingName];

type ValueOf<Name extends SettingName> = Table[Name]['value'] extends infer Value extends TSchema
  ? Static<Value>
  : never;
type HasValue<Name extends SettingName> = Table[Name] extends { default: unknown } | { required: true } ? true : false;

/** Values of the settings that one process reads; `undefined` where a setting is not set and has no fixed default. */
export type SettingValues<Reader extends SettingReader> = {
  readonly [Name in SettingsReadBy<Reader>]: HasValue<Name> extends true ? ValueOf<Name> : ValueOf<Name> | undefined;
};
