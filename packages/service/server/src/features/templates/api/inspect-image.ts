import { formatImageName, type ImageSettings, type RegistryImage } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import { AppError, invalidRequest, unavailable } from '../../../platform/base/app-error.ts';
import { type Call, serviceCall, UNAUDITED } from '../../../platform/call/call.ts';
import type { CreateSandbox } from '../../sandboxes/lifecycle/create-sandbox.ts';
import type { DestroySandbox } from '../../sandboxes/lifecycle/destroy-sandbox.ts';
import type { SandboxUse } from '../../sandboxes/use/sandbox-use.ts';
import { BuildFailedError } from '../builds/build-failure.ts';
import type { RunStep } from '../builds/run-step.ts';
import { secretsOf } from '../builds/unpack-image.ts';
import type { PlanOrigin } from './plan-origin.ts';

/** Longest time of an inspection. */
const INSPECTION_MS = 120_000;
/** TTL of the sandbox, which ends it if the server is killed during the inspection. */
const LIFETIME_MS = 2 * INSPECTION_MS;

export interface InspectImageDeps {
  readonly planOrigin: PlanOrigin;
  readonly createSandbox: CreateSandbox;
  readonly destroySandbox: DestroySandbox;
  readonly sandboxUse: SandboxUse;
  readonly runStep: RunStep;
}

/** Reads the settings of images in sandboxes of the default template. */
export class InspectImage {
  readonly #deps: InspectImageDeps;

  constructor(deps: InspectImageDeps) {
    this.#deps = deps;
  }

  /**
   * @throws AppError `invalid_request` if the registry refuses, `not_found` for a secret, `unavailable` if it is silent
   */
  async inspect(call: Call, from: RegistryImage): Promise<ImageSettings> {
    const { planOrigin, createSandbox, destroySandbox, sandboxUse, runStep } = this.#deps;
    const { version, pull } = await planOrigin.plan(call.credential, from);
    // Sound: the body names an image.
    const image = pull as NonNullable<typeof pull>;
    const secrets = secretsOf(image);
    const body = { metadata: { purpose: 'inspect-image' }, ttlMs: LIFETIME_MS, ...(secrets && { secrets }) };
    const created = await createSandbox.create(serviceCall(call), { body, version });
    using deadline = new Deadline(INSPECTION_MS, call.signal);
    try {
      const { signal } = deadline;
      const sandbox = await sandboxUse.ready(created, { signal });
      const { digest, ...settings } = await runStep.inspectImage(image, { sandbox, signal });
      return { name: formatImageName({ ...image, digest }), digest, ...settings };
    } catch (error) {
      call.signal.throwIfAborted();
      if (error instanceof BuildFailedError) throw invalidRequest({ path: 'body.image', message: error.message });
      if (deadline.endedBy === 'timeout') throw unavailable('The registry did not answer in time; try again.', error);
      if (error instanceof AppError && /^sandbox_/.test(error.code))
        throw unavailable('The sandbox that reads the image ended; try again.', error);
      throw error;
    } finally {
      await destroySandbox.destroy(UNAUDITED, created.id, 'platform_cleanup');
    }
  }
}
