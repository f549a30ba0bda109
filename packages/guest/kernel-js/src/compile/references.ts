import type { AnyNode, Identifier, Program } from 'acorn';
import { forEachChild, isFunction, namesOf } from './syntax-tree.ts';

/** A use of a binding in the scope that all cells share. */
export interface Reference {
  readonly node: Identifier;
  /** The assignment expression, or `target` inside an assigned pattern. Undefined if the use does not assign. */
  readonly assignment: AnyNode | 'target' | undefined;
  /** Whether the name is a shorthand for `name: name` in an object or pattern. */
  readonly isShorthand: boolean;
}

interface Surroundings {
  readonly parent: AnyNode;
  readonly hidden: ReadonlySet<string>;
  /** Whether the node is within a pattern that is assigned to and declares nothing. */
  readonly isTarget: boolean;
  readonly isShorthand: boolean;
}

/** Returns the uses of `names` that are not shadowed by a declaration within the cell. */
export function findReferences(program: Program, names: ReadonlySet<string>): Reference[] {
  const found: Reference[] = [];
  const visit = (node: AnyNode, { parent, hidden, isTarget, isShorthand }: Surroundings) => {
    if (node.type === 'Identifier') {
      if (!names.has(node.name) || hidden.has(node.name) || !isReference(node, parent)) return;
      const assignment = assignmentOf(node, parent) ?? (isTarget ? 'target' : undefined);
      found.push({ node, assignment, isShorthand });
      return;
    }
    const own = declaredBy(node).filter((name) => names.has(name));
    const inner = own.length === 0 ? hidden : new Set([...hidden, ...own]);
    forEachChild(node, (child) => {
      visit(child, {
        parent: node,
        hidden: inner,
        isTarget: isTargetIn(node, child, isTarget),
        isShorthand: isShorthandIn(node, child, isShorthand),
      });
    });
  };
  const surroundings = { parent: program, hidden: new Set<string>(), isTarget: false, isShorthand: false };
  if (names.size > 0) for (const statement of program.body) visit(statement, surroundings);
  return found;
}

function isReference(node: Identifier, parent: AnyNode): boolean {
  switch (parent.type) {
    case 'MemberExpression':
      return parent.object === node || parent.computed;
    case 'Property':
      return parent.value === node || parent.computed;
    case 'MethodDefinition':
    case 'PropertyDefinition':
      return parent.value === node || parent.computed;
    case 'FunctionDeclaration':
    case 'FunctionExpression':
    case 'ClassDeclaration':
    case 'ClassExpression':
      return parent.id !== node;
    case 'LabeledStatement':
    case 'BreakStatement':
    case 'ContinueStatement':
    case 'MetaProperty':
    case 'ImportSpecifier':
    case 'ImportDefaultSpecifier':
    case 'ImportNamespaceSpecifier':
    case 'ImportAttribute':
    case 'ExportSpecifier':
      return false;
    default:
      return true;
  }
}

function assignmentOf(node: Identifier, parent: AnyNode): AnyNode | undefined {
  if (parent.type === 'UpdateExpression') return parent;
  return parent.type === 'AssignmentExpression' && parent.left === node ? parent : undefined;
}

function isTargetIn(node: AnyNode, child: AnyNode, isTarget: boolean): boolean {
  switch (node.type) {
    case 'AssignmentExpression':
    case 'ForInStatement':
    case 'ForOfStatement':
      return node.left === child && child.type !== 'VariableDeclaration';
    case 'AssignmentPattern':
      return isTarget && node.left === child;
    case 'Property':
      return isTarget && node.value === child;
    case 'ObjectPattern':
    case 'ArrayPattern':
    case 'RestElement':
      return isTarget;
    default:
      return false;
  }
}

function isShorthandIn(node: AnyNode, child: AnyNode, isShorthand: boolean): boolean {
  if (node.type === 'Property') return node.shorthand && node.value === child;
  return node.type === 'AssignmentPattern' && isShorthand && node.left === child;
}

/** Returns the names that `node` declares for its own scope. */
function declaredBy(node: AnyNode): string[] {
  switch (node.type) {
    case 'FunctionDeclaration':
    case 'FunctionExpression':
    case 'ArrowFunctionExpression':
      return [...idOf(node), ...node.params.flatMap(namesOf), ...hoistedIn(node.body)];
    case 'StaticBlock':
      return [...node.body.flatMap(lexicalNames), ...node.body.flatMap(hoistedIn)];
    case 'ClassDeclaration':
    case 'ClassExpression':
      return idOf(node);
    case 'BlockStatement':
      return node.body.flatMap(lexicalNames);
    case 'SwitchStatement':
      return node.cases.flatMap((branch) => branch.consequent.flatMap(lexicalNames));
    case 'ForStatement':
      return node.init ? lexicalNames(node.init) : [];
    case 'ForInStatement':
    case 'ForOfStatement':
      return lexicalNames(node.left);
    case 'CatchClause':
      return node.param ? namesOf(node.param) : [];
    default:
      return [];
  }
}

function idOf(node: AnyNode): string[] {
  return 'id' in node && node.id?.type === 'Identifier' ? [node.id.name] : [];
}

function lexicalNames(node: AnyNode): string[] {
  if (node.type === 'VariableDeclaration') {
    return node.kind === 'var' ? [] : node.declarations.flatMap((declaration) => namesOf(declaration.id));
  }
  return node.type === 'FunctionDeclaration' || node.type === 'ClassDeclaration' ? idOf(node) : [];
}

/** Returns the names of `var` and of functions in blocks, which sloppy code hoists to the whole function. */
function hoistedIn(node: AnyNode): string[] {
  if (node.type === 'FunctionDeclaration') return idOf(node);
  if (isFunction(node) || node.type === 'ClassDeclaration' || node.type === 'ClassExpression') return [];
  const names: string[] = [];
  if (node.type === 'VariableDeclaration' && node.kind === 'var') {
    names.push(...node.declarations.flatMap((declaration) => namesOf(declaration.id)));
  }
  forEachChild(node, (child) => names.push(...hoistedIn(child)));
  return names;
}
