import type { AnyNode, Identifier, Pattern, Program } from 'acorn';
import { forEachChild, isFunctionLike, namesOf } from './syntax-tree.ts';

/** A place that assigns to a constant of the scope that cells share. */
export type ConstantAssignment =
  | { kind: 'assignment' | 'update'; node: AnyNode; name: string }
  | { kind: 'target'; node: Identifier; name: string; shorthand: boolean };

/**
 * Finds assignments to `constants`. Names that a function or block declares for itself are its own; within a function
 * this looks at all names that it declares anywhere, which can only miss an assignment, never invent one.
 */
export function findConstantAssignments(program: Program, constants: ReadonlySet<string>): ConstantAssignment[] {
  const found: ConstantAssignment[] = [];
  if (constants.size === 0) return found;

  const visit = (node: AnyNode, shadowed: ReadonlySet<string>) => {
    const own = node === program ? [] : declaredBy(node);
    const hidden = own.length === 0 ? shadowed : new Set([...shadowed, ...own]);
    const isConstant = (name: string) => constants.has(name) && !hidden.has(name);
    const addTargets = (pattern: Pattern) => {
      for (const target of targetsOf(pattern)) if (isConstant(target.node.name)) found.push(target);
    };

    if (node.type === 'AssignmentExpression') {
      if (node.left.type !== 'Identifier') addTargets(node.left);
      else if (isConstant(node.left.name)) found.push({ kind: 'assignment', node, name: node.left.name });
    } else if (node.type === 'UpdateExpression' && node.argument.type === 'Identifier') {
      if (isConstant(node.argument.name)) found.push({ kind: 'update', node, name: node.argument.name });
    } else if (node.type === 'ForInStatement' || node.type === 'ForOfStatement') {
      if (node.left.type !== 'VariableDeclaration') addTargets(node.left);
    }
    forEachChild(node, (child) => visit(child, hidden));
  };
  visit(program, new Set());
  return found;
}

function targetsOf(pattern: Pattern): Extract<ConstantAssignment, { kind: 'target' }>[] {
  switch (pattern.type) {
    case 'Identifier':
      return [{ kind: 'target', node: pattern, name: pattern.name, shorthand: false }];
    case 'ObjectPattern':
      return pattern.properties.flatMap((property) => {
        if (property.type === 'RestElement') return targetsOf(property.argument);
        return targetsOf(property.value).map((target) => ({ ...target, shorthand: property.shorthand }));
      });
    case 'ArrayPattern':
      return pattern.elements.flatMap((element) => (element ? targetsOf(element) : []));
    case 'AssignmentPattern':
      return targetsOf(pattern.left);
    case 'RestElement':
      return targetsOf(pattern.argument);
    default:
      return [];
  }
}

function declaredBy(node: AnyNode): string[] {
  if (isFunctionLike(node)) return declaredWithin(node);
  switch (node.type) {
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
    case 'ClassExpression':
      return node.id ? [node.id.name] : [];
    default:
      return [];
  }
}

function lexicalNames(node: AnyNode): string[] {
  if (node.type === 'VariableDeclaration') {
    return node.kind === 'var' ? [] : node.declarations.flatMap((declaration) => namesOf(declaration.id));
  }
  if (node.type === 'FunctionDeclaration' || node.type === 'ClassDeclaration') return node.id ? [node.id.name] : [];
  return [];
}

function declaredWithin(scope: AnyNode): string[] {
  const names: string[] = [];
  const collect = (node: AnyNode) => {
    if (node.type === 'VariableDeclarator') names.push(...namesOf(node.id));
    if ((node.type === 'FunctionDeclaration' || node.type === 'ClassDeclaration') && node.id) names.push(node.id.name);
    if (node !== scope && isFunctionLike(node)) return;
    forEachChild(node, collect);
  };
  if ('params' in scope) names.push(...scope.params.flatMap(namesOf));
  if (scope.type === 'FunctionExpression' && scope.id) names.push(scope.id.name);
  collect(scope);
  return names;
}
