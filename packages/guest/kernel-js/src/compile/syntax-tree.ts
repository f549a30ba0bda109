import type {
  AnyNode,
  ClassDeclaration,
  FunctionDeclaration,
  Identifier,
  Node,
  Pattern,
  VariableDeclaration,
  VariableDeclarator,
} from 'acorn';

/** Calls `visit` with each direct child of `node`, in source order where the tree keeps it. */
export function forEachChild(node: AnyNode, visit: (child: AnyNode) => void): void {
  for (const value of Object.values(node)) {
    if (Array.isArray(value)) for (const item of value) isNode(item) && visit(item);
    else if (isNode(value)) visit(value);
  }
}

function isNode(value: unknown): value is AnyNode {
  return typeof value === 'object' && value !== null && typeof (value as Partial<Node>).type === 'string';
}

export function isFunction(node: AnyNode): boolean {
  return (
    node.type === 'FunctionDeclaration' || node.type === 'FunctionExpression' || node.type === 'ArrowFunctionExpression'
  );
}

/** Returns whether a node has its own scope for `var` and `await`. */
export function isFunctionLike(node: AnyNode): boolean {
  return isFunction(node) || node.type === 'StaticBlock' || node.type === 'PropertyDefinition';
}

/** Returns the names that a binding pattern declares. */
export function namesOf(pattern: Pattern): string[] {
  switch (pattern.type) {
    case 'Identifier':
      return [pattern.name];
    case 'ObjectPattern':
      return pattern.properties.flatMap((property) =>
        namesOf(property.type === 'RestElement' ? property.argument : property.value),
      );
    case 'ArrayPattern':
      return pattern.elements.flatMap((element) => (element ? namesOf(element) : []));
    case 'AssignmentPattern':
      return namesOf(pattern.left);
    case 'RestElement':
      return namesOf(pattern.argument);
    default:
      return [];
  }
}

export function isLoopHead(parent: AnyNode, declaration: VariableDeclaration): boolean {
  if (parent.type === 'ForStatement') return parent.init === declaration;
  return (parent.type === 'ForInStatement' || parent.type === 'ForOfStatement') && parent.left === declaration;
}

/** A declaration with a name, unlike that of some `export default`. */
type NamedDeclaration = (FunctionDeclaration | ClassDeclaration) & { id: Identifier };

export function isNamedDeclaration(node: AnyNode): node is NamedDeclaration {
  return (node.type === 'FunctionDeclaration' || node.type === 'ClassDeclaration') && node.id !== null;
}

export function firstOf({ declarations }: VariableDeclaration): AnyNode {
  return declarations[0] as VariableDeclarator; // the grammar has at least one
}

export function lastOf({ declarations }: VariableDeclaration): AnyNode {
  return declarations.at(-1) as VariableDeclarator; // the grammar has at least one
}
