import type { Generated } from 'kysely';

export interface TemplateTables {
  templates: TemplateTable;
  template_versions: TemplateVersionTable;
}

export interface TemplateTable {
  id: string;
  slug: string;
  description: string;
  languages: string;
  created_at: number;
}

export interface TemplateVersionTable {
  id: string;
  template_id: string;
  version: string;
  digest: string;
  packages: string;
  built_at: number;
  /** Orders versions with equal `built_at`. */
  seq: Generated<number>;
}
