/**
 * Paths that the parts of an installation share on a host. Every part computes them from the same two folders, so no
 * message carries a path.
 */
import { join } from 'node:path';

/**
 * Returns the paths of an installation's sockets, in a folder that a reboot empties.
 *
 * @param serverName name of one of several servers behind a load balancer, for the sockets of this server alone
 */
export function runPaths(runDir: string, serverName?: string) {
  const socketOf = (name: string) => (serverName === undefined ? `${name}.sock` : `${name}-${serverName}.sock`);
  return {
    /** Only the server's user can connect. */
    hostdSocket: join(runDir, 'hostd', 'hostd.sock'),
    /** Only root can connect. */
    operatorSocket: join(runDir, 'server', socketOf('operator')),
    /** Serves the API of one of several servers; only the load balancer and root can connect. */
    apiSocket: join(runDir, 'server', socketOf('api')),
    /** Folder with one folder for each instance, which holds `agent.sock`; readable by the server's user. */
    instancesDir: join(runDir, 'instances'),
    /** Only the users of egress and of the server can connect. */
    secretsSocket: join(runDir, 'secrets', socketOf('secrets')),
    secretsDir: join(runDir, 'secrets'),
    hostdDir: join(runDir, 'hostd'),
    serverDir: join(runDir, 'server'),
    egressDir: join(runDir, 'egress'),
  };
}

/** Returns the paths of data that survives a reboot. Each folder is writable by one part only. */
export function dataPaths(dataDir: string) {
  return {
    /** Id of 8 characters of [a-z0-9], part of every name on the host: cgroups, interfaces, tables. */
    installationId: join(dataDir, 'installation-id'),
    serverDir: join(dataDir, 'server'),
    sqliteFile: join(dataDir, 'server', 'cloche.db'),
    /** Keys that encrypt secrets, unless the operator sets them. */
    secretsKeyFile: join(dataDir, 'server', 'secrets-key'),
    artifactsDir: join(dataDir, 'server', 'artifacts'),
    /** Disks of sandboxes; only root has access. */
    hostdDir: join(dataDir, 'hostd'),
  };
}

/** Version that `packages/host/setup/gvisor/go.mod` pins. */
export const GVISOR_VERSION = 'v0.0.0-20260905035102-160fafc42237';

/** Version that `packages/host/setup/versitygw/go.mod` pins. */
export const VERSITYGW_VERSION = 'v1.8.0';

/**
 * Returns the paths of data that can be built again. All installations of a host share it; entries are named by the
 * digest of their content.
 */
export function cachePaths(cacheDir: string) {
  return {
    /** `templates/<slug>/<digest>/{manifest.json,recipe-digest,rootfs/}`, and perhaps `checked-at` */
    templatesDir: join(cacheDir, 'templates'),
    /** `guest/<digest>/`: Node, agent and kernels, mounted read-only into every sandbox. */
    guestDir: join(cacheDir, 'guest'),
    /** Has an empty file for each template version and guest folder; its modification time is the last use. */
    usedDir: join(cacheDir, 'used'),
    /** `compiled/<checkout>/<part>/`: compiled code of the parts, which Node reads; only root writes it. */
    compiledDir: join(cacheDir, 'compiled'),
    /** An S3 server for tests, if it was built. */
    versitygw: join(cacheDir, 'versitygw', VERSITYGW_VERSION, 'versitygw'),
    /** gVisor's runtime, if it was built. */
    runsc: join(cacheDir, 'gvisor', GVISOR_VERSION, 'runsc'),
  };
}

/** File in a template version's folder: when a build last gave the same packages, as an ISO date. */
export const CHECKED_AT = 'checked-at';

/** Mount point of the guest folder in a sandbox. */
export const GUEST_PATH = '/opt/cloche';

/** Root of the folders that contexts work in; `cwd` must be inside. */
export const WORKSPACE_PATH = '/workspace';

/**
 * Variable of the agent with the template's variables as JSON, for processes in its sandboxes. They are not set for the
 * agent itself, which is the sandbox's root and searches programs in its own PATH.
 */
export const TEMPLATE_ENVIRONMENT = 'CLOCHE_TEMPLATE_ENV';

/** Read-only folder with the socket that the agent dials, in a sandbox whose agent cannot listen. */
export const AGENT_DIAL_FOLDER = '/run/cloche';

/** Folder of the agent in a sandbox, where a forked kernel finds the agent's socket (`kernels.sock`). */
export const KERNELS_FOLDER = '/run/cloche-kernels';
