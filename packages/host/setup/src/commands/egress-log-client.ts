import { request } from 'node:http';
import { CliError } from '@cloche/cli/kit';
import { startCommand } from '@cloche/layout';
import { DecisionPage, type DecisionQuery, egressPaths } from '@cloche/protocol';
import { installationFolders } from './operator-client.ts';

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

/**
 * Reads one page of recent egress decisions from egress's control socket, which only root can use. Validates the
 * response, because egress parses data from sandboxes.
 *
 * @throws {CliError} if the user is not root or egress does not respond.
 */
export async function readDecisions(query: DecisionQuery, signal?: AbortSignal): Promise<DecisionPage> {
  if (process.getuid?.() !== 0) throw new CliError('Operator commands need root; run it again with sudo.');
  const { runDir, dataDir } = await installationFolders();
  const { controlSocket: socketPath } = egressPaths(runDir, dataDir);
  const path = `/decisions?${new URLSearchParams(query as Record<string, string>)}`;
  // Loaded late, because no other command needs it.
  const { Value } = await import('typebox/value');
  return Value.Parse(DecisionPage, JSON.parse(await get(socketPath, path, signal)));
}

function get(socketPath: string, path: string, signal: AbortSignal | undefined): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const call = request({ socketPath, path, agent: false, ...(signal && { signal }) }, async (response) => {
    try {
      response.setEncoding('utf8');
      let text = '';
      for await (const chunk of response) {
        text += chunk;
        if (text.length > MAX_ANSWER_BYTES) throw new CliError('The response of egress is too large.');
      }
      if (response.statusCode !== 200) throw new CliError(`Egress answered ${response.statusCode}.`);
      resolve(text);
    } catch (error) {
      reject(error);
    }
  });
  call.on('error', () =>
    reject(
      signal?.aborted
        ? signal.reason
        : new CliError(`No egress answers at ${socketPath}; start Cloche with \`${startCommand()}\`.`),
    ),
  );
  call.end();
  return promise;
}
