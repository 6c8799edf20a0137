"""Arguments that are given by name: `make_interval(days => 3)`.

They are put where they would stand without their names, so that nothing else has to know of them.
Only functions that make times of fields have parameters with names.
"""

from __future__ import annotations

from dataclasses import replace

from waterclock.sql.binding.errors import NO_FUNCTION_HINT, UndefinedFunction
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.functions.time_making import PARAMETERS
from waterclock.sql.query import tree

_WITH_DEFAULTS = "make_interval"


def in_order(node: tree.Call) -> tree.Call:
    """The call with all arguments by position.

    Raises `UndefinedFunction` for a name that the function has not, or if an argument is missing.
    """
    if not node.names:
        return node
    known = PARAMETERS.get(node.name[-1])
    if known is None:
        raise FeatureNotSupported.of("a named argument", node.at)
    count = len(node.arguments) - len(node.names)
    given = dict(zip(known, node.arguments[:count], strict=False))
    for name, value in zip(node.names, node.arguments[count:], strict=True):
        if name not in known or name in given:
            raise _unknown(node)
        given[name] = value
    if node.name[-1] == _WITH_DEFAULTS:
        given = {name: tree.Number("0", node.at) for name in known} | given
    wanted = known[: len(given)]
    if set(given) != set(wanted):
        raise _unknown(node)
    return replace(node, arguments=tuple(given[name] for name in wanted), names=())


def _unknown(node: tree.Call) -> UndefinedFunction:
    names = ", ".join(f"{name} => ..." for name in node.names)
    message = f"function {'.'.join(node.name)}({names}) does not exist"
    return UndefinedFunction(message, node.at, hint=NO_FUNCTION_HINT)
