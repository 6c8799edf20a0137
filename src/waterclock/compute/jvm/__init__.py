"""What runs inside Spark's JVM: a few Java classes beside Spark's own.

Most of Waterclock is Python, and so is all that keeps state. Java is used in three places. Where
a value is computed row by row in the middle of a plan and Spark has no expression for it, a chain
of Spark's expressions would take a hundred times as long to plan and to run (`Numerics`), or would
not have the digits that PostgreSQL gives (`Floats`), or could not be written at all (`Json`,
`Matches`, `NumberTexts`). Where Catalyst's trees are looked at, or made anew, to go through them
node by node would take ten times as long (`Glance`, `Renumbering`). And where Spark reads SQL, its
parser is told what to choose (`Reading`): that takes a seventh of the time.

The sources (`*.java`) are part of the package. There is no build step: Spark brings a compiler
along, Janino, which knows about as much Java as version 7, without lambdas and with generic types
ignored. `classes.jar` has it compile them when they are first needed.
"""
