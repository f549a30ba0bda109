/**
 * Where the parts of one installation meet on a host. Every part computes the same places from the same two folders,
 * so no path ever travels in a message.
 */
import { join } from 'node:path';

/** Sockets of one installation, in a folder that is gone after a reboot. */
export function runPlaces(runDir: string) {
  return {
    /** Answers the server's user alone. */
    hostdSocket: join(runDir, 'hostd', 'hostd.sock'),
    /** Answers root alone. */
    operatorSocket: join(runDir, 'server', 'operator.sock'),
    /** One folder an instance, holding `agent.sock`; readable by the server's user. */
    instancesDir: join(runDir, 'instances'),
    hostdDir: join(runDir, 'hostd'),
    serverDir: join(runDir, 'server'),
    egressDir: join(runDir, 'egress'),
  };
}

/** What outlives a reboot, each part in a folder that it alone can write. */
export function dataPlaces(dataDir: string) {
  return {
    /** 8 characters of [a-z0-9] that every name on the host carries: cgroups, interfaces, tables. */
    installationId: join(dataDir, 'installation-id'),
    serverDir: join(dataDir, 'server'),
    sqliteFile: join(dataDir, 'server', 'cloche.db'),
    artifactsDir: join(dataDir, 'server', 'artifacts'),
    /** Root alone: disks of sandboxes. */
    hostdDir: join(dataDir, 'hostd'),
  };
}

/** As `packages/setup/gvisor/go.mod` pins it. */
export const GVISOR_VERSION = 'v0.0.0-20260905035102-160fafc42237';

/** As `packages/setup/versitygw/go.mod` pins it. */
export const VERSITYGW_VERSION = 'v1.8.0';

/** What can be made again, shared by all installations of a host and named by the digest of its content. */
export function cachePlaces(cacheDir: string) {
  return {
    /** `templates/<slug>/<digest>/{manifest.json,rootfs/}` */
    templatesDir: join(cacheDir, 'templates'),
    /** `guest/<digest>/`: Node, agent and kernels as they are mounted read-only into every sandbox. */
    guestDir: join(cacheDir, 'guest'),
    /** An empty file for each template version and guest folder. Its modification time is that of the last use. */
    usedDir: join(cacheDir, 'used'),
    /** A server that speaks S3, for tests, where it was built. */
    versitygw: join(cacheDir, 'versitygw', VERSITYGW_VERSION, 'versitygw'),
    /** gVisor's runtime, where it was built. */
    runsc: join(cacheDir, 'gvisor', GVISOR_VERSION, 'runsc'),
  };
}

/** Where the guest folder is mounted in a sandbox. */
export const GUEST_PATH = '/opt/cloche';

/** The folder that contexts work in; `cwd` may not leave it. */
export const WORKSPACE_PATH = '/workspace';

/**
 * A variable of the agent's environment: JSON of those that the template has for what runs in its sandboxes. They reach
 * kernels and not the agent, which is root of the sandbox and looks programs up by its own PATH.
 */
export const TEMPLATE_ENVIRONMENT = 'CLOCHE_TEMPLATE_ENV';

/** Where a sandbox whose agent cannot listen finds the folder with the socket that it dials, read-only. */
export const AGENT_DIAL_FOLDER = '/run/cloche';

/** In a sandbox, the agent's own: where a kernel that was forked into it finds the agent (`kernels.sock`). */
export const KERNELS_FOLDER = '/run/cloche-kernels';
