import type { AnyNode, Expression, Pattern } from 'acorn';
import { isFunction } from './syntax-tree.ts';

/**
 * Returns the `Color || {}` in `var Color = function (Color) { … }(Color || {})`, the code of a TypeScript enum. It is
 * replaced, so that an enum that is declared again does not extend that of an earlier cell.
 */
export function enumAccumulator(init: Expression, id: Pattern): AnyNode | undefined {
  if (init.type !== 'CallExpression' || init.callee.type !== 'FunctionExpression' || id.type !== 'Identifier') return;
  const [argument] = init.arguments;
  if (argument?.type !== 'LogicalExpression' || argument.left.type !== 'Identifier') return;
  return argument.left.name === id.name && argument.right.type === 'ObjectExpression' ? argument : undefined;
}

/**
 * Returns whether the expression was added by compiling after a decorated class. `isAdded` returns whether a name was
 * added by compiling.
 */
export function isDecoration(expression: Expression, isAdded: (name: string) => boolean): boolean {
  switch (expression.type) {
    case 'SequenceExpression':
      return expression.expressions.slice(-1).some((last) => isDecoration(last, isAdded));
    case 'AssignmentExpression':
      if (expression.left.type !== 'Identifier') return false;
      return isAdded(expression.left.name) || isDecoration(expression.right, isAdded);
    case 'CallExpression':
      return isDecorator(expression.callee, isAdded) && !expression.arguments.slice(0, 1).some(isNamedValue);
    default:
      return false;
  }
}

function isDecorator(callee: AnyNode, isAdded: (name: string) => boolean): boolean {
  if (callee.type === 'MemberExpression') return isDecorator(callee.object, isAdded);
  return callee.type === 'Identifier' && (isAdded(callee.name) || callee.name === 'babelHelpers');
}

/** Returns whether a call only names the user's function or class. */
function isNamedValue(argument: AnyNode): boolean {
  return isFunction(argument) || argument.type === 'ClassExpression';
}
