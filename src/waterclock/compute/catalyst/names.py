"""The names of Java's packages and classes, asked for once.

Py4J learns of every part of a name like `jvm.org.apache.spark` from Java, each time it is written.
Java then looks whether there is a class `org`, in all of Spark's jars, before it says that there is
none: more than a millisecond for the first part alone. PySpark names a class a dozen times to find
out what an error is, and whoever builds a plan does it for each node. So the names are kept where
Py4J would look for them first.

What begins with a small letter is a package, and stays one. A class that is not there now may come
later, with another jar: that answer is not kept.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView

_ROOTS = ("java", "org", "py4j", "scala")
_IMPORTED = ("PythonErrorUtils", "PythonSQLUtils", "PythonUtils")
"""Classes that PySpark names without their packages."""


def remember_names(jvm: JVMView) -> None:
    """From now on, names that were found through this view are not asked for again."""
    for name in _ROOTS:
        setattr(jvm, name, _Package(name, jvm._gateway_client, jvm._id))
    for name in _IMPORTED:
        found = getattr(jvm, name)
        if isinstance(found, JavaClass):
            setattr(jvm, name, found)


class _Package(JavaPackage):  # type: ignore[misc]
    """A package that remembers what is in it."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaPackage) and name[0].islower():
            found = _Package(found._fqn, found._gateway_client, found._jvm_id)
            setattr(self, name, found)
        elif isinstance(found, JavaClass):
            setattr(self, name, found)
        return found
