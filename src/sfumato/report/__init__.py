"""One self-contained HTML page about releases: promises, attacks, usefulness, cards, gaps."""

from sfumato.report._collect import Collected, Release, ReportError, collect
from sfumato.report._measures import Measured, MeasuresError, MeasuresFile, parse_measures
from sfumato.report._page import Report, render, write_report
from sfumato.report._pictures import PictureError
from sfumato.report._verdict import Verdict, VerdictError, parse_verdict

__all__ = [
    "Collected",
    "Measured",
    "MeasuresError",
    "MeasuresFile",
    "PictureError",
    "Release",
    "Report",
    "ReportError",
    "Verdict",
    "VerdictError",
    "collect",
    "parse_measures",
    "parse_verdict",
    "render",
    "write_report",
]
