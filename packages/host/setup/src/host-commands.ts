/**
 * `@cloche/setup/commands`: the commands of `cloche` for the host of a service. `cloche` loads them where they are
 * installed.
 */
import type { Session } from '@cloche/cli/kit';
import type { Command } from 'commander';

/** Loads a command by its name; `template` adds commands to the group of a client's. */
export const hostCommands: Readonly<Record<string, () => Promise<(program: Command) => void>>> = {
  admin: async () => (await import('./commands/admin.ts')).addAdminCommands,
  migrate: async () => (await import('./commands/migrate.ts')).addMigrateCommand,
  doctor: async () => (await import('./commands/doctor.ts')).addDoctorCommand,
  start: async () => (await import('./commands/start.ts')).addStartCommand,
  template: async () => (await import('./commands/template.ts')).addCuratedTemplateCommands,
};

/** Imports an archive of `cloche template export` into the cache of this machine. */
export async function importTemplateArchive(session: Session, file: string): Promise<void> {
  await (await import('./commands/template-work.ts')).importArchive(session, file);
}

export { startCommand } from '@cloche/layout';
export { type HostSetting, hostSettings } from './commands/host-settings.ts';
