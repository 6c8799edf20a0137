"""Names of Java are asked for once, by a client that says which are classes."""

from __future__ import annotations

from types import SimpleNamespace

from py4j import protocol
from py4j.java_gateway import JavaClass, JavaPackage, JVMView

from waterclock.compute.catalyst.names import remember_names


class Client:
    """Java, with some classes; all other names may be packages."""

    def __init__(self, *classes: str) -> None:
        self.classes = {*classes}
        self.asked: list[str] = []
        self.converters = None
        self.gateway_property = SimpleNamespace(pool=None)

    def send_command(self, command: str) -> str:
        name = command.split("\n")[2]
        self.asked.append(name)
        is_class = name in self.classes
        return protocol.SUCCESS_CLASS + name if is_class else protocol.SUCCESS_PACKAGE


def view_of(client: Client) -> JVMView:
    view = JVMView(client, "test", id="rj")
    remember_names(view)
    client.asked.clear()
    return view


def test_each_name_is_asked_for_once() -> None:
    client = Client("org.apache.Thing")
    view = view_of(client)
    found = [view.org.apache.Thing for _ in range(3)]
    assert isinstance(found[0], JavaClass)
    assert found[0]._fqn == "org.apache.Thing"
    assert found[2] is found[0]
    assert client.asked == ["org.apache", "org.apache.Thing"]


def test_classes_that_pyspark_names_alone() -> None:
    client = Client("PythonUtils")
    view = view_of(client)
    assert isinstance(view.PythonUtils, JavaClass)
    assert client.asked == []
    assert isinstance(view.PythonSQLUtils, JavaPackage)
    assert client.asked == ["PythonSQLUtils"]


def test_a_class_may_come_later() -> None:
    client = Client()
    view = view_of(client)
    assert isinstance(view.org.later.Thing, JavaPackage)
    client.classes.add("org.later.Thing")
    assert isinstance(view.org.later.Thing, JavaClass)
    assert isinstance(view.org.later.Thing, JavaClass)
    assert client.asked == ["org.later", *(2 * ["org.later.Thing"])]


def test_names_that_are_not_of_java_stay_python_s() -> None:
    package = view_of(Client()).org
    assert not hasattr(package, "__len__")
    assert package._fqn == "org"
