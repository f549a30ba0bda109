import { ApiClient } from './api-client.ts';
import { ApiKeys } from './api-keys.ts';
import { Artifacts } from './artifacts.ts';
import { AuditEvents } from './audit-events.ts';
import { Events } from './events.ts';
import { Projects } from './projects.ts';
import { Quotas } from './quotas.ts';
import { Sandboxes } from './sandboxes.ts';
import { Secrets } from './secrets.ts';
import { Templates } from './templates.ts';
import { Usage } from './usage.ts';
import { Webhooks } from './webhooks.ts';
import { WorkspaceRuns } from './workspace-runs.ts';

/**
 * A client of one Cloche service.
 *
 * ```ts
 * const cloche = new Cloche(); // CLOCHE_URL and CLOCHE_API_KEY
 * await using sandbox = await cloche.sandboxes.create({ ttlMs: 600_000 });
 * const run = await sandbox.run('print(6 * 7)');
 * ```
 *
 * `call`, `stream` and the other methods of the base class give access to every operation.
 */
export class Cloche extends ApiClient {
  readonly sandboxes = new Sandboxes(this);
  readonly workspaceRuns = new WorkspaceRuns(this);
  readonly artifacts = new Artifacts(this);
  readonly auditEvents = new AuditEvents(this);
  readonly events = new Events(this);
  readonly webhooks = new Webhooks(this);
  readonly secrets = new Secrets(this);
  readonly apiKeys = new ApiKeys(this);
  readonly templates = new Templates(this);
  readonly projects = new Projects(this);
  readonly quotas = new Quotas(this);
  readonly usage = new Usage(this);
}
