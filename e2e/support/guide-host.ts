/**
 * The host of an operator who follows a guide: PostgreSQL, and a service whose units `systemctl` starts and stops. In
 * place of systemd, the processes are those that `npm start` starts; `scripts/systemd-units.test.ts` holds that they
 * are the same.
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type Installation, installPackages, type ProcessName, startInstallation } from '@cloche/setup';
import { compileCache } from '@cloche/testkit/compile-cache';
import { eventually } from '@cloche/testkit/eventually';
import { seedInstallationId } from '@cloche/testkit/installation-ids';
import { execa } from 'execa';
import { effectiveSettings } from '../../packages/shared/settings/src/effective-settings.ts';
import type { GuideService } from './guide.ts';
import { type TestPostgres, testPostgres } from './postgres.ts';

const HOST = '127.0.0.1';
/** Programs that guides use, by their package. */
const PROGRAMS = { sqlite3: '/usr/bin/sqlite3', haproxy: '/usr/sbin/haproxy', openssl: '/usr/bin/openssl' };

/** Starts a service with SQLite, beside a PostgreSQL server that has no database yet. */
export async function openGuideHost(): Promise<GuideHost> {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-guide-host-'));
  // The users of the services must be able to traverse the folder to reach their own.
  chmodSync(folder, 0o711);
  for (const [name, program] of Object.entries(PROGRAMS))
    if (!existsSync(program)) await installPackages([name], join(folder, 'apt.log'));
  const host = new GuideHost(folder, await testPostgres());
  try {
    await host.open();
  } catch (error) {
    await host.close();
    throw error;
  }
  return host;
}

export class GuideHost implements GuideService {
  readonly apiKey = `guide-${randomBytes(16).toString('hex')}`;
  readonly runDir: string;
  readonly env: Record<string, string>;
  readonly binDir: string;
  readonly #folder: string;
  readonly #postgres: TestPostgres;
  #port = 0;
  #installation: Installation | undefined;
  #control: Server | undefined;
  /** Units that `cloche.target` starts beside its own. */
  readonly #wanted = new Set<string>();
  readonly #masked = new Set<string>();

  constructor(folder: string, postgres: TestPostgres) {
    this.#folder = folder;
    this.#postgres = postgres;
    const dataDir = join(folder, 'data');
    seedInstallationId(dataDir);
    this.runDir = join(folder, 'run');
    this.binDir = join(folder, 'bin');
    this.env = {
      CLOCHE_CONFIG_FILE: join(folder, 'cloche.env'),
      CLOCHE_DATA_DIR: dataDir,
      PGHOST: postgres.sockets,
      PGUSER: 'postgres',
    };
  }

  get url(): string {
    return `http://${HOST}:${this.#port}`;
  }

  async open(): Promise<void> {
    // The guide creates the user.
    const asSuperuser = { env: { PGHOST: this.#postgres.sockets, PGUSER: 'postgres' } };
    await execa('dropdb', ['cloche_template'], asSuperuser);
    await execa('dropuser', ['cloche'], asSuperuser);
    writeFileSync(join(this.#folder, 'cloche.env'), '', { mode: 0o600 });
    mkdirSync(this.binDir);
    const socket = join(this.#folder, 'systemctl');
    const send = `curl --silent --show-error --fail-with-body --unix-socket ${socket} --data "$*" http://host/`;
    writeFileSync(join(this.binDir, 'systemctl'), `#!/bin/sh\nexec ${send}\n`, { mode: 0o755 });
    this.#control = createServer((request, response) => {
      const answer = text(request).then((line) => this.#systemctl(line.split(' ')));
      answer.then(
        () => response.end(),
        (error) => response.writeHead(500).end(`${error}\n`),
      );
    }).listen(socket);
    await this.#start('cloche.target');
  }

  async close(): Promise<void> {
    this.#control?.close();
    // Sandboxes end by way of a server.
    if (this.#installation?.pid('server') === undefined) {
      await this.#stop('cloche.target').catch(() => undefined);
      await this.#start('cloche.target').catch(() => undefined);
    }
    await this.#installation?.stop({ destroyAll: true });
    await this.#postgres.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #systemctl([verb = '', ...rest]: string[]): Promise<void> {
    const units = rest.filter((word) => word !== '--now');
    for (const unit of units) assertIsUnit(unit);
    for (const unit of units) {
      if (unit === 'cloche.target' && verb === 'restart') this.#assertServersAreWanted();
      if (verb === 'stop' || verb === 'mask' || verb === 'disable') await this.#stop(unit);
      if (verb === 'mask') this.#masked.add(unit);
      else if (verb === 'unmask') this.#masked.delete(unit);
      else if (verb === 'disable') this.#wanted.delete(unit);
      else if (verb === 'start') await this.#start(unit);
      else if (verb === 'restart') {
        await this.#stop(unit);
        await this.#start(unit);
      } else if (verb === 'add-wants') this.#wanted.add(unit);
      else if (verb !== 'stop') throw new Error(`systemctl ${verb} is not known here`);
    }
  }

  async #start(unit: string): Promise<void> {
    if (unit === 'cloche.target') {
      if (this.#installation === undefined) this.#installation = await this.#startAll();
    } else if (unit !== 'cloche-prepare') await this.#running().restart(processOf(unit));
  }

  async #stop(unit: string): Promise<void> {
    if (unit === 'cloche.target') {
      await this.#installation?.stop();
      this.#installation = undefined;
    } else if (unit !== 'cloche-prepare' && this.#installation !== undefined) {
      const [installation, part] = [this.#installation, processOf(unit)];
      if (installation.pid(part) === undefined) return;
      installation.kill(part, 'SIGTERM');
      await eventually(() => installation.pid(part) === undefined);
    }
  }

  async #startAll(): Promise<Installation> {
    const settings = effectiveSettings(this.env);
    const servers = serversOf(settings);
    const env = { CLOCHE_BOOTSTRAP_API_KEY: this.apiKey, CLOCHE_POOL_SIZE: '1', ...compileCache() };
    const { CLOCHE_DATA_DIR: dataDir = '' } = this.env;
    const at = { dataDir, runDir: this.runDir, host: HOST, port: this.#port };
    const installation = await startInstallation({ ...at, servers, settings, env, supervise: false });
    this.#port = installation.port;
    return installation;
  }

  /** Throws unless the units that systemd would start are those of the settings. */
  #assertServersAreWanted(): void {
    const servers = serversOf(effectiveSettings(this.env));
    const wanted = [...this.#wanted].filter((unit) => unit.startsWith('cloche-server@'));
    if (servers > 1 && wanted.length !== servers) throw new Error(`${servers} servers are set, but wanted: ${wanted}`);
    const isAlone = wanted.length === 0 && !this.#masked.has('cloche-server.service');
    if (servers === 1 && !isAlone) throw new Error(`one server is set, but it is masked, or wanted: ${wanted}`);
  }

  #running(): Installation {
    if (this.#installation === undefined) throw new Error('cloche.target is stopped');
    return this.#installation;
  }
}

function serversOf(settings: ReturnType<typeof effectiveSettings>): number {
  return Number(settings.find(({ name }) => name === 'CLOCHE_SERVERS')?.value);
}

function assertIsUnit(unit: string): void {
  const file = unit.replace(/@.*$/, '@').replace(/\.service$/, '');
  const known = file === 'cloche.target' ? file : `${file}.service`;
  if (!existsSync(join('deploy/systemd', known))) throw new Error(`there is no unit ${unit}`);
}

/** @param unit such as `cloche-server@1.service` */
function processOf(unit: string): ProcessName {
  return unit.replace(/^cloche-|\.service$/g, '').replace('@', '-') as ProcessName;
}
