import { chmodSync, chownSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { GUEST_PATH } from '@cloche/layout';
import { reportFailure } from '@cloche/node-support';
import type { Supervisors } from '../commands/supervisors.ts';
import type { AgentConfig } from '../config.ts';
import { SudoSession } from './sudo-session.ts';

/** Most calls at once. Each has a supervisor and a command, which count towards the sandbox's process limit. */
const MAX_SESSIONS = 64;
const LINK = '/usr/local/bin/sudo';

/**
 * Runs commands of the sandbox's user as root of the sandbox, for `sudo.c`, once the server permits it.
 *
 * SECURITY: no program of the sandbox gains a right by itself: there are no set-user-id files, and `no_new_privs` stays.
 * Only root and the sandbox's user may connect (sudo.runtime.test.ts).
 */
export class SudoServer {
  readonly #config: AgentConfig;
  readonly #supervisors: Supervisors;
  #server: Server | undefined;

  constructor(config: AgentConfig, supervisors: Supervisors) {
    this.#config = config;
    this.#supervisors = supervisors;
    // Beside the folders of distributions' packages. An image may have a program of its own there.
    if (config.guestDir === GUEST_PATH) ignoringFailure(() => symlinkSync(join(GUEST_PATH, 'bin/sudo'), LINK));
  }

  /** Answers `sudo` from now on. Idempotent. */
  permit(): void {
    if (this.#server) return;
    const { sudoSocket, gid } = this.#config;
    const deps = { config: this.#config, supervisors: this.#supervisors };
    const server = createServer((socket) => new SudoSession(socket, deps));
    server.maxConnections = MAX_SESSIONS;
    server.on('error', reportFailure);
    mkdirSync(dirname(sudoSocket), { recursive: true });
    // A template that was captured from a sandbox has the file of that sandbox.
    rmSync(sudoSocket, { force: true });
    server.listen(sudoSocket);
    chmodSync(sudoSocket, 0o660);
    chownSync(sudoSocket, 0, gid);
    this.#server = server;
  }

  close(): void {
    this.#server?.close();
  }
}

function ignoringFailure(act: () => void): void {
  try {
    act();
  } catch {
    // It is there already, or the image has no such folder.
  }
}
