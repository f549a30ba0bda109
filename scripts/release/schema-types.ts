/** Prints JSON schemas of the contract as TypeScript. */
export interface Schema {
  readonly $id?: string;
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

/** Prefixes of ids in the descriptions of their schemas, and the types of the ids. */
const ID_TYPES: Readonly<Record<string, string>> = {
  sbx: 'SandboxId',
  cctx: 'ContextId',
  cmd: 'CommandId',
  org: 'OrgId',
  prj: 'ProjectId',
  tpl: 'TemplateId',
  tplv: 'TemplateVersionId',
  bld: 'TemplateBuildId',
  key: 'ApiKeyId',
  prv: 'PreviewId',
  art: 'ArtifactId',
  evt: 'EventId',
  sec: 'SecretId',
  whk: 'WebhookId',
  dlv: 'DeliveryId',
  aud: 'AuditEventId',
  wrun: 'WorkspaceRunId',
};

/**
 * Properties whose values are ids although their schemas do not say so, because a request body may contain any text.
 */
const ID_PROPERTIES: Readonly<Record<string, string>> = {
  'CreateApiKeyBody.projectIds': 'ProjectId[]',
  'CreateSandboxBody.secrets': 'Record<string, SecretId>',
  'GetOrCreateSandboxBody.secrets': 'Record<string, SecretId>',
  'CreateWebhookBody.projectId': 'ProjectId',
  'CreateWorkspaceRunBody.secrets': 'Record<string, SecretId>',
};

/**
 * Returns the type of the values of a schema. A schema with a name in `namesById` is printed as that name, unless it is
 * the one to declare.
 *
 * @param declared name of the type that is declared
 */
export function printSchema(schema: Schema, namesById: ReadonlyMap<string, string>, declared?: string): string {
  const print = (inner: Schema) => printSchema(inner, namesById);
  const name = namesById.get(schema.$id ?? '');
  if (name !== undefined && declared === undefined) return name;
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(' | ');
  if (schema.anyOf) return schema.anyOf.map(print).join(' | ');
  if (Array.isArray(schema.type)) return schema.type.map((type) => print({ type })).join(' | ');
  switch (schema.type) {
    case 'string':
      return idTypeOf(schema) ?? 'string';
    case 'integer':
    case 'number':
      return 'number';
    case 'boolean':
    case 'null':
      return schema.type;
    case 'array':
      return `(${print(schema.items ?? {})})[]`;
    case 'object':
      return objectType(schema, print, declared);
    default:
      return 'unknown';
  }
}

function objectType(
  { properties, patternProperties = {}, required = [] }: Schema,
  print: (schema: Schema) => string,
  declared = '',
): string {
  const [of] = Object.values(patternProperties);
  if (!properties) return of ? `Record<string, ${print(of)}>` : 'object';
  const lines = Object.entries(properties).map(([name, schema]) => {
    const key = /^\w+$/.test(name) ? name : `'${name}'`;
    const type = ID_PROPERTIES[`${declared}.${name}`] ?? print(schema);
    return `${tsDoc(schema.description)}${key}${required.includes(name) ? '' : '?'}: ${type};`;
  });
  return lines.length === 0 ? 'object' : `{\n${lines.join('\n').replace(/^/gm, '  ')}\n}`;
}

function idTypeOf({ description = '' }: Schema): string | undefined {
  return ID_TYPES[/begins with `(\w+)_`/.exec(description)?.[1] ?? ''];
}

/** Returns a comment with the text, and the line break after it; empty without a text. */
export function tsDoc(text: string | undefined): string {
  return text ? `/** ${text.replaceAll('*/', '*\\/')} */\n` : '';
}
