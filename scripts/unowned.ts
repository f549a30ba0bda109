import { createRequire, stripTypeScriptTypes } from 'node:module';

// `acorn` is a dependency of this package, and of no other.
const { parse }: typeof import('acorn') = createRequire(
  new URL('../packages/guest/kernel-js/package.json', import.meta.url),
)('acorn');

interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

/** Functions that make a stream, a socket, a worker or a child, by the module that exports them. */
const MAKERS: Readonly<Record<string, readonly string[]>> = {
  'node:child_process': ['spawn', 'fork'],
  'node:dgram': ['createSocket'],
  'node:fs': ['createReadStream', 'createWriteStream'],
  'node:http': ['request', 'get'],
  'node:https': ['request', 'get'],
  'node:net': ['connect', 'createConnection', 'Socket'],
  'node:tls': ['connect'],
  'node:worker_threads': ['Worker'],
};
/** Functions that listen for errors of what they are given, or of what is made in their arguments. */
const LISTENING = /^(?:pipeline|finished|listened|once|answerOfWorker)$/;
const CALLED_LATER = /^(?:on|once|addListener|prependListener|forEach|setTimeout|setInterval|setImmediate)$/;

/** Returns the lines in which a promise, or what emits errors, has no owner, each with what is wrong. */
export function findUnowned(source: string): string[] {
  const script = stripTypeScriptTypes(source, { mode: 'strip' });
  const program = parse(script, { ecmaVersion: 'latest', sourceType: 'module' }) as unknown as SyntaxNode;
  const parts = [...walk(program, [])];
  const lineOf = (at: number) => script.slice(0, at).split('\n').length;
  const found = [...voids(parts), ...asyncCallbacks(parts), ...makersWithoutListener(parts, script)];
  return found.map(({ at, why }) => `${lineOf(at)}: ${why}`);
}

interface Part {
  readonly node: SyntaxNode;
  /** The enclosing nodes, the outermost first. */
  readonly above: readonly SyntaxNode[];
}

interface Finding {
  readonly at: number;
  readonly why: string;
}

function* walk(value: unknown, above: readonly SyntaxNode[]): Generator<Part> {
  if (Array.isArray(value)) for (const each of value) yield* walk(each, above);
  if (!isNode(value)) return;
  yield { node: value, above };
  const inside = [...above, value];
  for (const each of Object.values(value)) yield* walk(each, inside);
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value;
}

function voids(parts: readonly Part[]): Finding[] {
  return parts
    .filter(({ node }) => node.type === 'UnaryExpression' && node.operator === 'void')
    .map(({ node }) => ({ at: node.start, why: 'void drops a promise; handle its rejection with `catch`' }));
}

/** Finds async functions, by themselves or called, given to what ignores the promises that they return. */
function asyncCallbacks(parts: readonly Part[]): Finding[] {
  const asynchronous = new Set(parts.flatMap(({ node, above }) => asyncNameOf(node, above.at(-1)) ?? []));
  const isAsync = (value: unknown): boolean => {
    if (!isNode(value)) return false;
    if (value.type.endsWith('FunctionExpression')) {
      const body = value.body as SyntaxNode;
      return value.async === true || (body.type === 'CallExpression' && asynchronous.has(nameIn(body.callee) ?? ''));
    }
    return asynchronous.has(nameIn(value) ?? '');
  };
  return parts
    .filter(({ node, above }) => node.type === 'CallExpression' && above.at(-1)?.type !== 'AwaitExpression')
    .filter(({ node }) => CALLED_LATER.test((nameIn(node.callee) ?? '').replace('this.', '')))
    .filter(({ node }) => (node.arguments as unknown[]).some(isAsync))
    .map(({ node }) => ({ at: node.start, why: 'nothing takes the promise of this callback' }));
}

/** Returns the name by which this file calls an async function: that of the function, or `this.` and the method's. */
function asyncNameOf(node: SyntaxNode, parent: SyntaxNode | undefined): string | undefined {
  if (node.async !== true) return undefined;
  if (node.type === 'FunctionDeclaration') return nameIn(node.id);
  if (parent?.type === 'VariableDeclarator') return nameIn(parent.id);
  const key =
    parent?.type === 'MethodDefinition' || parent?.type === 'PropertyDefinition' ? nameIn(parent.key) : undefined;
  return key && `this.${key}`;
}

function nameIn(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  if (value.type === 'Identifier') return value.name as string;
  if (value.type === 'PrivateIdentifier') return `#${value.name}`;
  if (value.type !== 'MemberExpression') return undefined;
  const property = nameIn(value.property);
  return (value.object as SyntaxNode).type === 'ThisExpression' ? `this.${property}` : property;
}

function makersWithoutListener(parts: readonly Part[], script: string): Finding[] {
  const makers = new Set(parts.flatMap(({ node }) => makersOf(node)));
  return parts.flatMap(({ node, above }) => {
    if (node.type !== 'CallExpression' && node.type !== 'NewExpression') return [];
    const callee = node.callee as SyntaxNode;
    if (callee.type !== 'Identifier' || !makers.has(callee.name as string)) return [];
    return isListenedTo(node, above, parts)
      ? []
      : [{ at: node.start, why: `no 'error' listener: ${textOf(node, script)}` }];
  });
}

function makersOf({ type, source, specifiers }: SyntaxNode): string[] {
  const made = type === 'ImportDeclaration' ? MAKERS[(source as { value: string }).value] : undefined;
  if (!made) return [];
  const names = specifiers as (SyntaxNode & { imported?: SyntaxNode; local: SyntaxNode })[];
  return names.filter(({ imported }) => made.includes(nameIn(imported) ?? '')).map(({ local }) => local.name as string);
}

/** Whether an `error` listener is added before the function that makes it waits for anything. */
function isListenedTo(made: SyntaxNode, above: readonly SyntaxNode[], parts: readonly Part[]): boolean {
  if (above.some((node) => node.type === 'CallExpression' && LISTENING.test(nameIn(node.callee) ?? ''))) return true;
  // A loop over a stream listens from its first step, which it takes at once.
  if (above.some((node) => readsAll(node, made))) return true;
  const within = above.findLast(({ type }) => /Function|^Program$/.test(type));
  if (!within) return false;
  const after = parts.filter(({ node }) => node.start >= made.start && node.end <= within.end);
  const listeners = after.filter(({ node }) => listens(node) && node.end > made.end);
  const wait = after.find(({ node }) => node.type === 'AwaitExpression' && node.start > made.end);
  return listeners.some(({ node }) => wait === undefined || node.start < wait.node.end);
}

function listens({ type, callee, arguments: given }: SyntaxNode): boolean {
  if (type !== 'CallExpression') return false;
  const name = nameIn(callee) ?? '';
  const [first] = given as SyntaxNode[];
  return LISTENING.test(name) && name !== 'once' ? true : /^(?:on|once)$/.test(name) && first?.value === 'error';
}

/** Whether the node is a loop over what is made in its head, or yields all of it. */
function readsAll({ type, right, await: isAsync, delegate }: SyntaxNode, made: SyntaxNode): boolean {
  if (type === 'YieldExpression') return delegate === true;
  return (
    type === 'ForOfStatement' && isAsync === true && isNode(right) && right.start <= made.start && made.end <= right.end
  );
}

function textOf(node: SyntaxNode, script: string): string {
  return script.slice(node.start, node.end).split('\n', 1)[0] ?? '';
}
