# SPDX-License-Identifier: Apache-2.0
"""The forms of numbers, texts and plain collections."""

from IPython.core.formatters import DisplayFormatter
from IPython.lib.pretty import _repr_pprint

_PLAIN = "text/plain"
_PLAIN_TYPES = frozenset((bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset))
_ONE_LINE_TYPES = frozenset((int, str))


class PlainValuesFirst(DisplayFormatter):
    """Does not ask ten formatters for forms of a number or a text, which have but one."""

    # All that there were the last time, and what each but that for plain text has for an attribute, which reading it would
    # find by four calls. None where one is not IPython's own: only by asking it is it known what it makes of a value.
    _asked = ()
    _attributes = ()

    def format(self, obj, include=None, exclude=None):
        kind = type(obj)
        if kind in _PLAIN_TYPES and include is None and exclude is None:
            formatters = self.formatters
            if not self._has_forms(kind, formatters):
                text = _text_of(obj, kind, formatters[_PLAIN])
                return ({} if text is None else {_PLAIN: text}), {}
        return super().format(obj, include, exclude)

    def _has_forms(self, kind, formatters):
        """Whether anybody may have registered a formatter for it."""
        asked = [*formatters.values(), self.mimebundle_formatter, self.ipython_display_formatter]
        if asked != self._asked:
            plain = formatters.get(_PLAIN)
            are_own = all(type(each).__module__ == DisplayFormatter.__module__ for each in (plain, *asked))
            self._attributes = [_attributes_of(each) for each in asked if each is not plain] if are_own else None
            self._asked = asked
        if self._attributes is None:
            return True
        for attributes in self._attributes:
            printers, deferred = attributes["type_printers"], attributes["deferred_printers"]
            if not printers and not deferred:
                continue
            for base in kind.__mro__:
                if base in printers or ("builtins", base.__name__) in deferred:
                    return True
        return False


def _attributes_of(formatter):
    _ = formatter.type_printers, formatter.deferred_printers
    return formatter._trait_values


def _text_of(obj, kind, formatter):
    if kind in _ONE_LINE_TYPES and formatter.pprint and formatter.type_printers.get(kind) is _repr_pprint:
        try:
            # What that printer makes of a text that is one line, without what lays out several.
            return repr(obj)
        except ValueError:
            # A number of too many digits: it is told as ever.
            pass
    return formatter(obj)
