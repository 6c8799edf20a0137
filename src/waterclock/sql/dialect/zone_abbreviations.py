"""Abbreviations of time zones, as PostgreSQL reads them by default: each is one distance from UTC.

`CET` is the time of the winter, also in summer: it is not the zone of that name. A few that meant
different distances in different years (`CHANGING`) have none here.
"""

from __future__ import annotations

_NAMES = {
    -36000: "hst taht",
    -34200: "mart",
    -32400: "akst gamt",
    -28800: "akdt pst",
    -25200: "mst pdt",
    -21600: "cst galt mdt",
    -18000: "act cdt cot est pet",
    -14400: "amt ast bot edt",
    -12600: "nft nst",
    -10800: "adt bra brt clst gft pmst pyst uyt wgt",
    -9000: "ndt",
    -7200: "brst fnt pmdt uyst wgst",
    -3600: "azot egt fnst",
    0: "azost egst gmt uct ut utc wet z zulu",
    3600: "bst cet met mez wat wetdst",
    7200: "bdst cest cetdst eet ist mest mesz metdst sast",
    10800: "eat eest eetdst fet idt",
    12600: "irt",
    14400: "msd mut ret sct",
    16200: "aft",
    18000: "must mvt pkt tft tjt uzt",
    20700: "npt",
    21600: "almt bdt btt kgst pkst uzst xjt yekst",
    23400: "mmt",
    25200: "almst cxt ict wast",
    28800: "awst bnt bort cct hkt myt pht wadt",
    31500: "acwst",
    32400: "awsst jayt jst kst pwt ulast wdt",
    34200: "acst cast",
    36000: "aest chut ddut kdt ligt mpt pgt trut yapt",
    37800: "acdt acsst cadt lhst sadt",
    39600: "aedt aesst pont vut",
    43200: "fjt gilt mht nzst nzt tvt wakt wft",
    45900: "chast",
    46800: "fjst nzdt tot",
    49500: "chadt",
}
ABBREVIATIONS: dict[str, int] = {
    name: seconds for seconds, names in _NAMES.items() for name in names.split()
}
"""Seconds east of UTC, by the abbreviation in small letters."""
_CHANGING = """
    amst anast anat arst art azst azt ckt clt davt easst east fkst fkt gest get gyt iot irkst irkt
    kgt kost krast krat lhdt lint lkt magst magt mawt msk novst novt nut omsst omst petst pett pyt
    sgt tkt tmt ulat vet vlast vlat volt yakst yakt yekt
"""
CHANGING = frozenset(_CHANGING.split())
_PLACES = """
    cet cuba eet egypt eire est factory gb greenwich hongkong hst iceland iran israel jamaica japan
    kwajalein libya met mst navajo nz poland portugal prc roc rok singapore turkey wet
"""
"""Zones of the IANA list whose names are one word."""
WORDS = frozenset({*ABBREVIATIONS, *CHANGING, *_PLACES.split()})
"""All words that mean a zone, in small letters."""
