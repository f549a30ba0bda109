/** Permissions of an API key. `*` stands for all of them. */
export const SCOPES = [
  'sandbox:create',
  'sandbox:read',
  'sandbox:extend',
  'sandbox:pause',
  'sandbox:kill',
  'code:run',
  'command:run',
  'command:read',
  'file:read',
  'file:write',
  'artifact:create',
  'artifact:read',
  'artifact:delete',
  'preview:create',
  'preview:read',
  'preview:delete',
  'project:read',
  'project:write',
  'api_key:read',
  'api_key:write',
  'secret:read',
  'secret:write',
  'template:read',
  'template:write',
  'workspace_run:create',
  'workspace_run:read',
  'event:read',
  'webhook:read',
  'webhook:write',
  'usage:read',
  'audit:read',
] as const;
export type Scope = (typeof SCOPES)[number];
export const ALL_SCOPES = '*';

export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}
