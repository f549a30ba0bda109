/** Identifiers are opaque strings with a prefix for each kind. */
import { Type } from 'typebox';
import { documented } from './text.ts';

declare const kind: unique symbol;
type Id<Prefix extends string> = `${Prefix}${string}` & { readonly [kind]?: Prefix };

export type SandboxId = Id<'sbx_'>;
export type ContextId = Id<'cctx_'>;
export type CommandId = Id<'cmd_'>;
export type OrgId = Id<'org_'>;
export type ProjectId = Id<'prj_'>;
export type TemplateId = Id<'tpl_'>;
export type TemplateVersionId = Id<'tplv_'>;
export type TemplateBuildId = Id<'bld_'>;
export type ApiKeyId = Id<'key_'>;
export type PreviewId = Id<'prv_'>;
export type ArtifactId = Id<'art_'>;
export type EventId = Id<'evt_'>;
export type SecretId = Id<'sec_'>;
export type WebhookId = Id<'whk_'>;
export type DeliveryId = Id<'dlv_'>;
export type AuditEventId = Id<'aud_'>;
export type WorkspaceRunId = Id<'wrun_'>;

export const ID_PREFIXES = {
  sandbox: 'sbx_',
  context: 'cctx_',
  command: 'cmd_',
  org: 'org_',
  project: 'prj_',
  template: 'tpl_',
  templateVersion: 'tplv_',
  templateBuild: 'bld_',
  apiKey: 'key_',
  preview: 'prv_',
  artifact: 'art_',
  event: 'evt_',
  secret: 'sec_',
  webhook: 'whk_',
  delivery: 'dlv_',
  auditEvent: 'aud_',
  workspaceRun: 'wrun_',
} as const;

const idSchema = <T extends string>(prefix: string, of: string) =>
  Type.Unsafe<T>({
    type: 'string',
    ...documented({ minLength: 1 }),
    description: `Id of ${of}: an opaque string that begins with \`${prefix}\`.`,
  });

export const SandboxIdSchema = idSchema<SandboxId>('sbx_', 'a sandbox');
export const ContextIdSchema = idSchema<ContextId>('cctx_', 'a code context');
export const CommandIdSchema = idSchema<CommandId>('cmd_', 'a command');
export const OrgIdSchema = idSchema<OrgId>('org_', 'an organization');
export const ProjectIdSchema = idSchema<ProjectId>('prj_', 'a project');
export const TemplateIdSchema = idSchema<TemplateId>('tpl_', 'a template');
export const TemplateVersionIdSchema = idSchema<TemplateVersionId>('tplv_', 'a template version');
export const TemplateBuildIdSchema = idSchema<TemplateBuildId>('bld_', 'a build of a template');
export const ApiKeyIdSchema = idSchema<ApiKeyId>('key_', 'an API key');
export const PreviewIdSchema = idSchema<PreviewId>('prv_', 'a preview');
export const ArtifactIdSchema = idSchema<ArtifactId>('art_', 'an artifact');
export const AuditEventIdSchema = idSchema<AuditEventId>('aud_', 'an audit event');
export const EventIdSchema = idSchema<EventId>('evt_', 'an event');
export const SecretIdSchema = idSchema<SecretId>('sec_', 'a secret');
export const WebhookIdSchema = idSchema<WebhookId>('whk_', 'a webhook');
export const DeliveryIdSchema = idSchema<DeliveryId>('dlv_', 'a delivery');
export const WorkspaceRunIdSchema = idSchema<WorkspaceRunId>('wrun_', 'a workspace run');
