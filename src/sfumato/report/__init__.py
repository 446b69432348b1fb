"""One self-contained HTML page about releases: promises, attacks, usefulness, cards, gaps."""

from sfumato.privacy.measures import Measured, MeasuresError, MeasuresFile, parse_measures
from sfumato.privacy.verdict import VerdictError, VerdictFile, parse_verdict
from sfumato.report._collect import Collected, ReportedRelease, ReportError, collect
from sfumato.report._impact import impact_as_html, impact_as_markdown
from sfumato.report._page import Report, history_page, render, write_report
from sfumato.report._pictures import PictureError

__all__ = [
    "Collected",
    "Measured",
    "MeasuresError",
    "MeasuresFile",
    "PictureError",
    "Report",
    "ReportError",
    "ReportedRelease",
    "VerdictError",
    "VerdictFile",
    "collect",
    "history_page",
    "impact_as_html",
    "impact_as_markdown",
    "parse_measures",
    "parse_verdict",
    "render",
    "write_report",
]
