import { GatewayError } from '@cloche/kit';

/** Names of E2B's templates, by slugs of Cloche's. Other names are slugs or ids of templates themselves. */
const TEMPLATES: Readonly<Record<string, string>> = {
  base: 'python-node',
  'code-interpreter-v1': 'python-node',
  // A client that is to start an MCP gateway names it, and says so when there is none in the sandbox.
  'mcp-gateway': 'python-node',
};
/** The tag that E2B gives a build without tags. */
export const DEFAULT_TAG = 'default';
export const TAGS = 'Cloche has no tags of templates yet; leave the tag out.';

/** Returns the slug or the id that a name of E2B means. @throws GatewayError 501 for a name with a tag */
export function slugOf(name: string): string {
  const [slug = '', tag = DEFAULT_TAG] = name.split(':');
  if (tag !== DEFAULT_TAG) throw new GatewayError(501, TAGS);
  return TEMPLATES[slug] ?? slug;
}

/** Returns the names of E2B that mean a template, after its own. */
export function namesOf(slug: string): string[] {
  return [slug, ...Object.keys(TEMPLATES).filter((name) => TEMPLATES[name] === slug)];
}
