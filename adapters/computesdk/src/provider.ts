import { type ClientOptions, Cloche, type CreateSandboxBody, isClocheError, type Sandbox } from '@cloche/sdk';
import { defineProvider, type Provider } from '@computesdk/provider';
import { createBody } from './create-body.ts';
import { filesystem } from './filesystem.ts';
import { portUrl } from './port-url.ts';
import { runCommand, startCommand } from './run-command.ts';
import { sandboxInfo } from './sandbox-info.ts';

/** Default of `url` and `apiKey`: `CLOCHE_URL` and `CLOCHE_API_KEY`. */
export interface ClocheConfig extends ClientOptions {
  /**
   * Fields of every new sandbox, such as `template`, `ttlMs` or `networkPolicy`. Options of `create` come before them.
   */
  sandbox?: CreateSandboxBody | undefined;
}

/**
 * Makes the provider of a Cloche service.
 *
 * ```ts
 * const compute = createCompute({ provider: cloche({ sandbox: { networkPolicy: { mode: 'deny-all' } } }) });
 * ```
 */
export const cloche: (config?: ClocheConfig) => Provider<Sandbox> = (config = {}) => provider(config);

const provider = defineProvider<Sandbox, ClocheConfig>({
  name: 'cloche',
  methods: {
    sandbox: {
      async create(config, options) {
        // Without the signal: ComputeSDK destroys a sandbox whose creation ended after the abort, if it learns its id.
        return entry(await new Cloche(config).sandboxes.create(createBody(config.sandbox, options)));
      },

      async getById(config, sandboxId) {
        const sandbox = await found(new Cloche(config).sandboxes.get(sandboxId));
        return sandbox === undefined || hasEnded(sandbox) ? null : entry(sandbox);
      },

      async list(config) {
        return (await new Cloche(config).sandboxes.list()).map(entry);
      },

      async destroy(config, sandboxId) {
        // Ids are opaque, so only the service can check them.
        const params = { sandboxId: sandboxId as Sandbox['id'] };
        await found(new Cloche(config).call('killSandbox', { params }));
      },

      runCommand: (sandbox, command, options = {}) =>
        options.background ? startCommand(sandbox, command, options) : runCommand(sandbox, command, options),
      streamCommand: runCommand,
      getInfo: sandboxInfo,
      getUrl: portUrl,
      getInstance: (sandbox) => sandbox,
      filesystem,
    },
  },
});

function entry(sandbox: Sandbox): { sandbox: Sandbox; sandboxId: string } {
  return { sandbox, sandboxId: sandbox.id };
}

function hasEnded({ info: { status } }: Sandbox): boolean {
  return status === 'expiring' || status === 'destroyed' || status === 'failed';
}

/** Returns undefined if the sandbox does not exist. */
async function found<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isClocheError(error, 'not_found')) return undefined;
    throw error;
  }
}
