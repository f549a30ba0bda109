/**
 * `@cloche/setup/commands`: the commands of `cloche` for the host of a service. `cloche` loads them where they are
 * installed.
 */
import type { Command } from 'commander';

/** Loads a command by its name. */
export const hostCommands: Readonly<Record<string, () => Promise<(program: Command) => void>>> = {
  admin: async () => (await import('./commands/admin.ts')).addAdminCommands,
  migrate: async () => (await import('./commands/migrate.ts')).addMigrateCommand,
  doctor: async () => (await import('./commands/doctor.ts')).addDoctorCommand,
  start: async () => (await import('./commands/start.ts')).addStartCommand,
};

export { type HostSetting, hostSettings } from './commands/host-settings.ts';
