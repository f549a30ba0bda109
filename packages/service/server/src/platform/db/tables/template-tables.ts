import type { Generated } from 'kysely';

export interface TemplateTables {
  templates: TemplateTable;
  template_versions: TemplateVersionTable;
  custom_templates: CustomTemplateTable;
  custom_template_versions: CustomTemplateVersionTable;
  template_builds: TemplateBuildTable;
  template_steps: TemplateStepTable;
  image_layers: ImageLayerTable;
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

/** Templates of organizations. */
export interface CustomTemplateTable {
  id: string;
  org_id: string;
  /** Unique among the templates of the organization that are not deleted. */
  slug: string;
  description: string;
  /** JSON array: the languages of the default version, or of the recipe before there is one. */
  languages: string;
  default_version_id: string | null;
  created_at: number;
  deleted_at: number | null;
  /** Unique, so that one idempotency key never creates two templates. */
  idempotency_record_id: string | null;
}

export interface CustomTemplateVersionTable {
  id: string;
  org_id: string;
  template_id: string;
  build_id: string;
  from_version_id: string;
  version: string;
  digest: string;
  /** JSON: the manifest that the host has of it. */
  manifest: string;
  packages: string;
  /** JSON object: the resources that sandboxes of the version have by default. */
  resources: string;
  layers: number;
  size_bytes: number;
  built_at: number;
  /** When its files were removed from the host. */
  removed_at: number | null;
}

export interface TemplateBuildTable {
  id: string;
  org_id: string;
  template_id: string;
  template_slug: string;
  status: string;
  /** JSON: the steps with everything that they need; empty once the build has ended. */
  plan: string;
  from_version_id: string;
  /** JSON array of the steps as clients see them. */
  steps: string;
  /** Sandboxes that were created for it, one after the other. */
  launches: number;
  /** Times that the service failed and began it again. */
  failures: number;
  sandbox_id: string | null;
  template_version_id: string | null;
  /** JSON: why the build failed. */
  error: string | null;
  created_at: number;
  started_at: number | null;
  finished_at: number | null;
  next_attempt_at: number;
  /** Stays set until nothing of the build is left on the host. */
  claimed_by: string | null;
  claimed_until: number | null;
  idempotency_record_id: string | null;
}

/** Layers of images that builds of an organization share. */
export interface ImageLayerTable {
  /** Name of the content in the store. */
  name: string;
  org_id: string;
  /** Null in a row whose content is to be removed. Unique in the organization. */
  digest: string | null;
  size_bytes: number;
  /** The build that downloads the layer; null once it is stored. */
  build_id: string | null;
  used_at: number;
}

/** The results of steps, by everything that they depend on. */
export interface TemplateStepTable {
  org_id: string;
  /** SHA-256 of the version that the recipe starts from, of all steps before and of this one. */
  key: string;
  /** Version that holds the result of the step. Only builds use it, unless a template has it too. */
  version_id: string;
  from_version_id: string;
  layers: number;
  size_bytes: number;
  /** JSON: the installed packages, if they were listed after the step. */
  packages: string | null;
  /** JSON: the variables of the image that the first step unpacked. */
  image_env: string | null;
  used_at: number;
}
