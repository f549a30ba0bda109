import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Finding, ok, warning } from '@cloche/host-checks';
import { runPaths } from '@cloche/layout';
import { HostWarningList } from '@cloche/protocol';
import { Value } from 'typebox/value';
import { CHECKOUT } from '../installation/parts.ts';
import { callSocket } from '../installation/socket-client.ts';
import { installationFolders } from './operator-client.ts';

const NAME = 'network';
/** Where something is blocked, a measurement waits for packets that do not arrive, and is made twice. */
const MEASURE_MS = 120_000;
const PROGRAM = join(CHECKOUT, 'packages/host/hostd/src/examine-network.ts');

/**
 * Measures whether this host's firewalls let sandboxes pass, and whether it has a route. Asks hostd if it runs, so that
 * `/readyz` shows the same; otherwise sends packets by itself.
 */
export async function examineNetwork(): Promise<Finding[]> {
  if (process.getuid?.() !== 0) return [warning(NAME, 'not measured', 'Run this command as root.')];
  try {
    const { warnings } = (await measuredByHostd()) ?? (await measuredHere());
    if (warnings.length === 0) return [ok(NAME, 'firewalls let sandboxes pass')];
    return warnings.map(({ check, message, remedy }) => warning(check, message, remedy));
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    return [warning(NAME, `not measured: ${stderr?.trim() || error}`, 'Find the cause in the message.')];
  }
}

/** Returns undefined where no hostd runs, or one of a version that does not measure. */
async function measuredByHostd(): Promise<HostWarningList | undefined> {
  const runDir = await installationFolders().then(
    (folders) => folders.runDir,
    () => undefined,
  );
  if (runDir === undefined) return undefined;
  const limit = AbortSignal.timeout(MEASURE_MS);
  const answer = await callSocket(runPaths(runDir).hostdSocket, 'POST', '/warnings', undefined, limit).catch(
    (error) => {
      limit.throwIfAborted();
      if (error.code !== 'ENOENT' && error.code !== 'ECONNREFUSED') throw error;
    },
  );
  return answer?.status === 200 ? Value.Parse(HostWarningList, answer.body) : undefined;
}

async function measuredHere(): Promise<HostWarningList> {
  const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM], { timeout: MEASURE_MS });
  return Value.Parse(HostWarningList, JSON.parse(stdout));
}
