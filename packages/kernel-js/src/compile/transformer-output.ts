import type { AnyNode, Expression, Pattern } from 'acorn';
import { isFunction } from './syntax-tree.ts';

/**
 * The `Color || {}` in `var Color = function (Color) { … }(Color || {})`, which is what a TypeScript enum becomes: one
 * that is declared again starts empty, instead of adding to the one of an earlier cell.
 */
export function enumAccumulator(init: Expression, id: Pattern): AnyNode | undefined {
  if (init.type !== 'CallExpression' || init.callee.type !== 'FunctionExpression' || id.type !== 'Identifier') return;
  const [argument] = init.arguments;
  if (argument?.type !== 'LogicalExpression' || argument.left.type !== 'Identifier') return;
  return argument.left.name === id.name && argument.right.type === 'ObjectExpression' ? argument : undefined;
}

/**
 * Whether this is what compiling puts after a decorated class, and no expression of the user's. `isAdded` tells the
 * names that compiling added.
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

/** Functions of the user's are passed through a call too, which gives them their names. */
function isNamedValue(argument: AnyNode): boolean {
  return isFunction(argument) || argument.type === 'ClassExpression';
}
