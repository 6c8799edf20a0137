"""What all connectors of files share: where the files are, and how far each of them is bound."""

from __future__ import annotations

from waterclock.storage.reclock.progress import SourceFrontier
from waterclock.storage.sources.files.definition import FilesDefinition
from waterclock.storage.sources.files.places import Place, place_of


class FollowedFiles:
    """The parts of a `Connector` that do not depend on what is in the files."""

    def __init__(self, definition: FilesDefinition) -> None:
        self._definition = definition
        self._place: Place = place_of(definition.location, definition.pattern)
        self._bound: dict[str, int] = {}

    @property
    def is_linearizable(self) -> bool:
        return True

    def _files(self) -> dict[str, int]:
        """The files that are there now and their sizes.

        A source of one file whose file is gone has none, like one whose folder is empty. A folder
        that is gone, as when a disk is not mounted, raises `OSError`: it may come back.
        """
        try:
            return self._place.files()
        except FileNotFoundError:
            if self._place.path in self._bound:
                return {}
            raise

    def start(self) -> SourceFrontier:
        return SourceFrontier({}, True)

    def resume(self, frontier: SourceFrontier) -> None:
        self._bound = {str(file): offset for file, offset in frontier.uppers.items()}

    def commit(self, frontier: SourceFrontier) -> None:
        self.resume(frontier)

    def close(self) -> None:
        pass
