"""Our Java classes as a jar, compiled by Spark's own compiler when there is none yet.

The jar lies in the Python environment, beside what else is made once for an installed Spark, and is
named by the sources that it was made from: other sources, another jar. Where nothing can be written
it is made for this process alone. Executors on other machines fetch it from the driver.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

EXTENSIONS = "waterclock.Extensions"
"""The class that adds our functions to a session."""
_FOLDER = Path(__file__).parent
_MADE = (1980, 1, 1, 0, 0, 0)
"""A time for all members: the same sources then make the same bytes."""


def load(jvm: Any) -> Path:
    """Have this JVM know our classes, and tell where the jar is, for all others that must."""
    jar = _kept(jvm)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    return jar


def _kept(jvm: Any) -> Path:
    """The jar, which is made unless it is there."""
    sources = {path.stem: path.read_text() for path in sorted(_FOLDER.glob("*.java"))}
    digest = hashlib.sha256(repr(sources).encode()).hexdigest()[:16]
    jar = Path(sys.prefix) / "share" / "waterclock" / f"waterclock-{digest}.jar"
    if jar.is_file():
        return jar
    compiled = _compiled(jvm, sources)
    try:
        jar.parent.mkdir(parents=True, exist_ok=True)
        return _written(compiled, jar)
    except OSError:
        folder = tempfile.mkdtemp(prefix="waterclock-jar-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _written(compiled, Path(folder) / jar.name)


def _written(compiled: dict[str, bytes], jar: Path) -> Path:
    """Write the classes. Somebody else may be doing the same: whoever is last replaces the file."""
    handle, name = tempfile.mkstemp(dir=jar.parent, suffix=".jar")
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for member, code in sorted(compiled.items()):
            archive.writestr(zipfile.ZipInfo(f"{member.replace('.', '/')}.class", _MADE), code)
    os.chmod(name, 0o644)
    return Path(name).replace(jar)


def _compiled(jvm: Any, sources: dict[str, str]) -> dict[str, bytes]:
    """The code of every class, by its name. They refer to each other, so all are one unit."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_joined(list(sources.values())))
    found = compiler.getBytecodes()
    return {name: bytes(found[name]) for name in found}


def _joined(sources: list[str]) -> str:
    """One text of many: what each begins with comes first, and once."""
    packages = dict.fromkeys(
        line for source in sources for line in source.splitlines() if line.startswith("package ")
    )
    imports = dict.fromkeys(
        line for source in sources for line in source.splitlines() if line.startswith("import ")
    )
    assert len(packages) == 1, "all of our classes are in one package"
    bodies = [
        line
        for source in sources
        for line in source.splitlines()
        if not line.startswith(("package ", "import "))
    ]
    return "\n".join([*packages, *imports, *bodies])
