import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { execa } from 'execa';
import { UserLand } from './user-land.ts';

/** Programs of the user land that run on this machine as if they were installed here. */
const PROGRAMS = ['iptables', 'iptables-nft', 'iptables-legacy'];
/** Programs that need files and daemons of their user land. */
const OF_THE_LAND = /^(ufw|firewall-cmd) /;

/** The firewalls of Debian 12, whose rules apply to the network namespace of this process. */
export class Firewalls implements AsyncDisposable {
  /** Folder of programs, for `PATH`. */
  readonly programs: string;
  readonly #land: UserLand;
  #daemon: ReturnType<UserLand['run']> | undefined;

  private constructor(land: UserLand, programs: string) {
    this.#land = land;
    this.programs = programs;
  }

  static async open(): Promise<Firewalls> {
    const land = await UserLand.open('bookworm', ['dbus', 'firewalld', 'iptables', 'ufw']);
    const programs = mkdtempSync(join(tmpdir(), 'cloche-firewalls-'));
    for (const name of PROGRAMS) {
      writeFileSync(join(programs, name), `#!/bin/sh\nexec chroot ${land.path('')} /usr/sbin/${name} "$@"\n`);
      chmodSync(join(programs, name), 0o755);
    }
    return new Firewalls(land, programs);
  }

  /** Runs commands of a shell, and rejects when one fails. */
  async run(command: string): Promise<string> {
    const options = { env: { PATH: `${this.programs}:${process.env.PATH}` }, reject: false, all: true } as const;
    const { all, exitCode } = OF_THE_LAND.test(command)
      ? await this.#land.run(command)
      : await execa('sh', ['-euc', command], options);
    if (exitCode !== 0) throw new Error(`${command}: ${all}`);
    return `${all}`;
  }

  /** Starts the daemon of firewalld, with its rules as Debian has them. */
  async startFirewalld(): Promise<void> {
    const start = 'mkdir -p /run/dbus; dbus-daemon --system --fork --nopidfile; exec firewalld --nofork --nopid';
    this.#daemon = this.#land.run(start);
    for (let tried = 0; tried < 100; tried += 1) {
      if ((await this.#land.run('firewall-cmd --state')).exitCode === 0) return;
      await delay(200);
    }
    throw new Error('firewalld does not start');
  }

  /** Ends firewalld, and removes its rules. */
  async stopFirewalld(): Promise<void> {
    // `unshare` waits for its child, and ends it only when it is killed itself.
    this.#daemon?.kill('SIGKILL');
    await this.#daemon;
    this.#daemon = undefined;
    await this.run('nft delete table inet firewalld 2>/dev/null || true');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopFirewalld();
    rmSync(this.programs, { recursive: true });
    await this.#land[Symbol.asyncDispose]();
  }
}
